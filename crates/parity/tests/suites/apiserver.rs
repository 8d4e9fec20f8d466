//! The API server goes away and comes back while tasks run.

use std::time::Duration;

use aileron_parity::suite::{Executor, Server, Shown, Task};
use anyhow::Result;
use kube::ResourceExt;

aileron_parity::on_both!(a_restart_of_the_api_server_harms_no_task);

async fn a_restart_of_the_api_server_harms_no_task(on: Server) -> Result<()> {
    const EACH: usize = 6;
    let bench = on.bench().await?;
    let space = bench.space("outage").await?;
    let executor = Executor::start(&bench.cluster, &bench.settings()).await?;
    // Some end during the outage, some while watches come back, some long after.
    let kinds: [(&str, &[&str]); 3] =
        [("short", &["succeed@600"]), ("long", &["succeed@4000"]), ("again", &["fail:1@1200", "succeed@2500"])];
    for (kind, attempts) in kinds {
        for number in 0..EACH {
            space.submit(&Task::container(&format!("{kind}-{number}")).retries(1).attempts(attempts)).await?;
        }
    }
    space.until("long-0", "running", |action| action.reason() == "Executing").await?;
    bench.cluster.restart_apiserver().await?;
    // A task that appears while the executor finds its way back.
    space.submit(&Task::container("after")).await?;
    let actions = space.until_all_ended(3 * EACH + 1, Duration::from_secs(60)).await?;
    for action in &actions {
        let name = action.name_any();
        assert_eq!(action.outcome().unwrap().0, "Succeeded", "{name}: {}", action.summary());
        assert_eq!(action.shown().attempts, if name.starts_with("again") { 2 } else { 1 }, "{name}");
    }
    let mut runs: Vec<_> = space.runs().into_iter().map(|run| run.name).collect();
    let started = runs.len();
    runs.sort();
    runs.dedup();
    assert_eq!((runs.len(), started), (4 * EACH + 1, 4 * EACH + 1), "a pod ran twice, or not at all");
    executor.check()?;
    executor.stop().await
}
