//! Actions without a pod: conditions that wait for a signal, and sleeps.

use std::time::Duration;

use aileron_idl::flyteidl2::common::ActionPhase::Succeeded;
use aileron_parity::suite::{Executor, Server, Space, StatusView, Task, duration_inputs};
use anyhow::Result;
use jiff::{SignedDuration, Timestamp};
use kube::api::{Patch, PatchParams};
use serde_json::json;

aileron_parity::on_both!(
    a_signal_at_any_moment_is_seen,
    a_condition_waits_for_its_signal,
    a_condition_without_a_signal_times_out,
    a_condition_without_a_specification_is_invalid,
    a_sleep_ends_on_time_without_a_pod_and_survives_a_restart
);

/// Writes a signal into the status, as the control plane does.
async fn signal(space: &Space<'_>, name: &str) -> Result<()> {
    let signal = json!({"status": {
        "signalValue": "CgQKAggB", "signalledBy": "someone", "signalledAt": "2026-01-01T00:00:00Z",
    }});
    space.actions.patch_status(name, &PatchParams::default(), &Patch::Merge(signal)).await?;
    Ok(())
}

/// The signal arrives while the executor writes its own status.
async fn a_signal_at_any_moment_is_seen(on: Server) -> Result<()> {
    const GATES: u64 = 40;
    let space = on.shared().await?.space("any-signal").await?;
    let gates = (0..GATES).map(|number| {
        let space = &space;
        async move {
            let name = format!("gate-{number}");
            space.submit(&Task::condition(&name, None)).await?;
            tokio::time::sleep(Duration::from_millis(number * 2)).await;
            signal(space, &name).await?;
            let action = space.until_ended(&name).await?;
            assert_eq!(action.outcome().unwrap(), ("Succeeded".into(), "Signaled".into()));
            anyhow::Ok(())
        }
    });
    futures::future::try_join_all(gates).await?;
    Ok(())
}

async fn a_condition_waits_for_its_signal(on: Server) -> Result<()> {
    let space = on.shared().await?.space("signalled").await?;
    space.submit(&Task::condition("gate", None)).await?;
    let action = space.until("gate", "paused", |action| action.reason() == "Paused").await?;
    assert_eq!((action.outcome(), action.metadata.finalizers), (None, None));

    let signal =
        json!({"status": {"signalValue": "CgQKAggB", "signalledBy": "someone", "signalledAt": "2026-01-01T00:00:00Z"}});
    space.actions.patch_status("gate", &PatchParams::default(), &Patch::Merge(signal)).await?;
    let action = space.until_ended("gate").await?;
    assert_eq!(action.outcome().unwrap(), ("Succeeded".into(), "Signaled".into()));
    assert_eq!(action.history(), ["Paused", "Signaled"]);
    assert_eq!(action.status_or_default().signalled_by, "someone", "the signal in the status must stay");
    space.until_pods(&[]).await
}

async fn a_condition_without_a_signal_times_out(on: Server) -> Result<()> {
    let space = on.shared().await?.space("unsignalled").await?;
    space.submit(&Task::condition("gate", Some(Duration::from_secs(2)))).await?;
    let action = space.until_ended("gate").await?;
    assert_eq!(action.outcome().unwrap(), ("Failed".into(), "TimedOut".into()));
    assert_eq!(action.error_code(), "ConditionTimedOut");
    // On a busy machine the time may be over before the first round.
    let history = action.history();
    assert!(history == ["Paused", "TimedOut"] || history == ["TimedOut"], "{history:?}");
    Ok(())
}

async fn a_condition_without_a_specification_is_invalid(on: Server) -> Result<()> {
    let space = on.shared().await?.space("unspecified").await?;
    let mut object = space.object(&Task::condition("gate", None));
    object.spec.condition_spec = Default::default();
    space.create(&object).await?;
    let action = space.until_ended("gate").await?;
    assert_eq!(action.outcome().unwrap(), ("Failed".into(), "InvalidSpec".into()));
    Ok(())
}

/// The time between `Executing` and `Completed`.
fn slept(action: &impl StatusView) -> SignedDuration {
    let history = action.status_or_default().phase_history;
    let at =
        |phase: &str| history.iter().find(|line| line.phase == phase).map_or(Timestamp::MIN, |line| line.occurred_at.0);
    at("Completed").duration_since(at("Executing"))
}

/// Long enough for the first executor to see the end of a shorter sleep and to stop.
const LONG: Duration = Duration::from_secs(14);

async fn a_sleep_ends_on_time_without_a_pod_and_survives_a_restart(on: Server) -> Result<()> {
    let bench = on.bench().await?;
    let space = bench.space("sleeps").await?;
    let (short, long) = (Task::sleep("short"), Task::sleep("long"));
    space.write_inputs(&short, &duration_inputs(Duration::from_secs(4)))?;
    space.write_inputs(&long, &duration_inputs(LONG))?;

    let first = Executor::start(&bench.cluster, &bench.settings()).await?;
    space.submit(&short).await?;
    space.submit(&long).await?;
    space.until("long", "running", |action| action.reason() == "Executing").await?;
    let action = space.until_ended("short").await?;
    assert_eq!(action.outcome().unwrap().0, "Succeeded", "{}", action.summary());
    let time = slept(&action);
    assert!(time >= SignedDuration::from_secs(4), "{time:?}");
    first.stop().await?;
    assert!(
        space.until("long", "there", |_| true).await?.outcome().is_none(),
        "the sleep must not have ended before the restart"
    );

    let restarted = Timestamp::now();
    let second = Executor::start(&bench.cluster, &bench.settings()).await?;
    let action = space.until_ended("long").await?;
    let time = slept(&action);
    assert!(time >= SignedDuration::try_from(LONG)?, "{time:?}");
    let after_restart = Timestamp::now().duration_since(restarted);
    assert!(after_restart < SignedDuration::try_from(LONG)?, "the sleep started again: it took {after_restart:?} more");
    assert_eq!(space.phases("long").last(), Some(&(1, Succeeded)));
    space.until_pods(&[]).await?;
    second.stop().await
}
