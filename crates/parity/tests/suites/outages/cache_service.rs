//! The cache service refuses requests or does not answer: before the lookup, while a task runs, and when its outputs are
//! written.

use aileron_idl::flyteidl2::core::CatalogCacheStatus::{self, CacheHit, CachePopulated, CachePutFailure};
use aileron_parity::events_stub::{Code, EventsStub, Fault};
use aileron_parity::suite::{Executor, Server, StatusView, Task};
use anyhow::Result;

use super::{check_unharmed, is_executing};

aileron_parity::on_both!(
    cached_tasks_run_and_end_while_the_cache_service_refuses_requests,
    a_running_task_ends_in_time_while_the_cache_service_does_not_answer
);

/// Only one action at a time may compute the outputs of `entry`, so a running task extends its reservation.
fn serialised(name: &str, entry: &str) -> Task {
    Task::container(name).cached(entry, true).attempts(&["run"])
}

fn cache_status(action: &impl StatusView) -> CatalogCacheStatus {
    CatalogCacheStatus::try_from(action.status_or_default().cache_status).unwrap_or_default()
}

async fn cached_tasks_run_and_end_while_the_cache_service_refuses_requests(on: Server) -> Result<()> {
    let bench = on.bench().await?;
    let space = bench.space("uncached").await?;
    let cache = EventsStub::start().await?;
    let settings = bench.settings().with(&["executor", "cacheServiceURL"], cache.url());
    let executor = Executor::start(&bench.cluster, &settings).await?;
    space.submit(&serialised("before", "one")).await?;
    space.until("before", "running", is_executing).await?;

    cache.fault(Fault::refuse(Code::Unavailable));
    // Neither is looked up. The second one gets no reservation either, and runs nevertheless.
    space.submit(&Task::container("plain").cached("two", false)).await?;
    space.submit(&serialised("during", "three")).await?;
    space.until("during", "running", is_executing).await?;
    space.complete_pod("before-0").await?;
    space.complete_pod("during-0").await?;
    for name in ["before", "during", "plain"] {
        let ended = space.until_ended(name).await?;
        check_unharmed(&ended);
        assert_eq!(cache_status(&ended), CachePutFailure, "{name}");
    }

    // Nothing was stored, so a task computes the outputs again, and the next one takes them from the cache.
    cache.heal();
    for (name, expected) in [("again", CachePopulated), ("hit", CacheHit)] {
        space.submit(&Task::container(name).cached("two", false)).await?;
        let ended = space.until_ended(name).await?;
        check_unharmed(&ended);
        assert_eq!(cache_status(&ended), expected, "{name}");
    }
    executor.stop().await
}

async fn a_running_task_ends_in_time_while_the_cache_service_does_not_answer(on: Server) -> Result<()> {
    let bench = on.bench().await?;
    let space = bench.space("cache-hangs").await?;
    let cache = EventsStub::start().await?;
    let settings = bench.settings().with(&["executor", "cacheServiceURL"], cache.url());
    let executor = Executor::start(&bench.cluster, &settings).await?;
    let mut limited = serialised("limited", "four");
    let run = prost_types::Duration { seconds: 10, nanos: 0 };
    limited.template.metadata.get_or_insert_default().timeout = Some(run);
    for task in [serialised("ends", "five"), limited] {
        space.submit(&task).await?;
        space.until(&task.name, "running", is_executing).await?;
    }

    cache.fault(Fault::hang());
    space.complete_pod("ends-0").await?;
    check_unharmed(&space.until_ended("ends").await?);
    let limited = space.until_ended("limited").await?;
    assert_eq!(limited.outcome(), Some(("Failed".into(), "TimedOut".into())), "{}", limited.summary());
    executor.stop().await
}
