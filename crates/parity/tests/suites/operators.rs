//! Tasks whose object belongs to an operator. The executor watches the kind as soon as the cluster serves it, and sees
//! changes of the object at once. Here the test itself writes the statuses; in [`outcomes`] simulated operators do.

pub mod kinds;
mod latency;
mod outcomes;
mod workers;

use aileron_parity::suite::{Server, StatusView};
use aileron_sandbox::install_definitions;
use anyhow::Result;
use serde_json::Value;

use self::kinds::Kind;

aileron_parity::on_both!(a_job_of_a_kind_installed_later_is_watched_without_polling);

fn failed() -> Value {
    kinds::job_status("Failed")
}

/// The waits of the suite are shorter than the interval of rounds without a reason, so changes are seen by the watch.
async fn a_job_of_a_kind_installed_later_is_watched_without_polling(on: Server) -> Result<()> {
    let space = on.shared().await?.space("operators").await?;
    let kind = Kind::of("pytorch");
    install_definitions(&space.admin, &[kind.rules()]).await?;
    let jobs = kind.objects(&space);

    space.submit(&kind.task("good")).await?;
    let job = jobs.until("good-0").await?;
    assert_eq!(job.metadata.owner_references.unwrap_or_default()[0].name, "good");
    jobs.report("good-0", &kind.running()).await?;
    space.until("good", "running", |action| action.reason() == "Executing").await?;
    jobs.report("good-0", &kind.done()).await?;
    let ended = space.until("good", "ended", |action| action.outcome().is_some()).await?;
    assert_eq!(ended.outcome().unwrap().0, "Succeeded", "{}", ended.summary());

    space.submit(&kind.task("retried").retries(1)).await?;
    jobs.until("retried-0").await?;
    jobs.report("retried-0", &failed()).await?;
    jobs.until("retried-1").await?;
    jobs.report("retried-1", &failed()).await?;
    let ended = space.until("retried", "ended", |action| action.outcome().is_some()).await?;
    assert_eq!(
        (ended.outcome().unwrap().0.as_str(), ended.status_or_default().attempts),
        ("Failed", 2),
        "{}",
        ended.summary()
    );

    // Only an abort sends a GET for an object, to verify that it is gone.
    assert_eq!(kind.requests(&space, "get")?, Vec::<String>::new());

    space.submit(&kind.task("aborted")).await?;
    jobs.until("aborted-0").await?;
    space.delete("aborted").await?;
    space.until_gone("aborted").await?;
    assert!(!jobs.exists("aborted-0").await?);
    Ok(())
}
