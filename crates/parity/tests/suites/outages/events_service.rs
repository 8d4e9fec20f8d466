//! The events service does not answer.

use std::time::{Duration, Instant};

use aileron_idl::flyteidl2::common::ActionPhase;
use aileron_parity::events_stub::{Fault, Recorded};
use aileron_parity::suite::{Executor, POLL_INTERVAL, Server, Task, WAIT_TIMEOUT};
use anyhow::{Result, ensure};

use super::{check_unharmed, is_executing};

aileron_parity::on_both!(events_are_recorded_soon_after_the_service_answers_again);

/// Shorter than the time-out of a call, which is 30 s: requests that hang must not delay the return from the outage.
const RECOVERY_LIMIT: Duration = Duration::from_secs(20);

async fn events_are_recorded_soon_after_the_service_answers_again(on: Server) -> Result<()> {
    let bench = on.bench().await?;
    let space = bench.space("events-hang").await?;
    let executor = Executor::start(&bench.cluster, &bench.settings()).await?;
    space.submit(&Task::container("ends").attempts(&["run"])).await?;
    space.until("ends", "running", is_executing).await?;

    let before = bench.stub.requests();
    bench.stub.fault(Fault::hang());
    space.complete_pod("ends-0").await?;
    let begin = Instant::now();
    while bench.stub.requests() == before {
        ensure!(begin.elapsed() < WAIT_TIMEOUT, "the executor sends no events");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    space.submit(&Task::container("begins")).await?;
    bench.stub.heal();
    // The service never answers the request that it got before.
    let has_ended = |recorded: &Recorded| {
        recorded.event.phase() == ActionPhase::Succeeded
            && recorded.event.id.as_ref().is_some_and(|id| id.name == "ends")
    };
    bench.stub.wait_for(RECOVERY_LIMIT, |events| events.iter().any(has_ended)).await?;
    for name in ["ends", "begins"] {
        check_unharmed(&space.until_ended(name).await?);
    }
    assert_eq!(space.runs().len(), 2, "each pod ran once");
    executor.stop().await
}
