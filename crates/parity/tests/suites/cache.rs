//! Cached tasks: the first computes the outputs, others take them from the cache.

use std::path::PathBuf;

use aileron_idl::flyteidl2::core::CatalogCacheStatus::{self, CacheHit, CacheMiss, CachePopulated};
use aileron_parity::suite::{Server, Space, StatusView, Task};
use anyhow::Result;

aileron_parity::on_both!(
    the_first_task_fills_the_cache_and_the_second_needs_no_pod,
    a_failed_task_does_not_fill_the_cache,
    one_task_computes_while_others_wait_for_it
);

fn cache_status(action: &impl StatusView) -> CatalogCacheStatus {
    CatalogCacheStatus::try_from(action.status_or_default().cache_status).unwrap()
}

/// The path of the outputs in the last event.
fn outputs(space: &Space<'_>, name: &str) -> PathBuf {
    let event = space.recorded(name).pop().unwrap().event;
    event.outputs.unwrap().output_uri.strip_prefix("file://").unwrap().into()
}

async fn the_first_task_fills_the_cache_and_the_second_needs_no_pod(on: Server) -> Result<()> {
    let space = on.shared().await?.space("cached").await?;
    space.submit(&Task::container("first").cached("cached.once", false)).await?;
    let first = space.until_ended("first").await?;
    assert_eq!((first.outcome().unwrap().0.as_str(), cache_status(&first)), ("Succeeded", CachePopulated));

    space.submit(&Task::container("second").cached("cached.once", false)).await?;
    let second = space.until_ended("second").await?;
    assert_eq!((second.outcome().unwrap().0.as_str(), cache_status(&second)), ("Succeeded", CacheHit));
    assert_eq!(std::fs::read(outputs(&space, "first"))?, std::fs::read(outputs(&space, "second"))?);
    let hit = space.recorded("second").pop().unwrap().event;
    assert_eq!(hit.cache_status(), CacheHit);
    let runs: Vec<_> = space.runs().into_iter().map(|run| run.name).collect();
    assert_eq!(runs, ["first-0"]);
    Ok(())
}

async fn a_failed_task_does_not_fill_the_cache(on: Server) -> Result<()> {
    let space = on.shared().await?.space("uncached").await?;
    space.submit(&Task::container("broken").cached("uncached.broken", true).attempts(&["fail:1"])).await?;
    space.until_ended("broken").await?;
    space.submit(&Task::container("fixed").cached("uncached.broken", true)).await?;
    let fixed = space.until_ended("fixed").await?;
    assert_eq!((fixed.outcome().unwrap().0.as_str(), cache_status(&fixed)), ("Succeeded", CachePopulated));
    assert_eq!(space.runs().len(), 2, "the reservation of the failed task was released");
    Ok(())
}

async fn one_task_computes_while_others_wait_for_it(on: Server) -> Result<()> {
    let space = on.shared().await?.space("serial").await?;
    // The owner runs long enough for the other task to be submitted, looked up and shown, also on a busy machine.
    let task = |name: &str| Task::container(name).cached("serial.slow", true).attempts(&["succeed@8000"]);
    space.submit(&task("owner")).await?;
    space.until("owner", "running", |action| action.reason() == "Executing").await?;
    space.submit(&task("waiter")).await?;
    let waiting = space
        .until("waiter", "waiting", |action| action.status_or_default().plugin_phase.contains("WaitingForCache"))
        .await?;
    assert_eq!(cache_status(&waiting), CacheMiss);
    assert!(
        waiting.status_or_default().conditions[0].message.contains("serial/owner"),
        "{:?}",
        waiting.status_or_default().conditions
    );

    let owner = space.until_ended("owner").await?;
    let waiter = space.until_ended("waiter").await?;
    assert_eq!((cache_status(&owner), cache_status(&waiter)), (CachePopulated, CacheHit));
    assert_eq!(space.runs().len(), 1);
    let owners = space.bench.stub.with_cache(|cache| {
        let keys: Vec<_> =
            cache.calls().iter().filter_map(|call| call.split_once(' ')).map(|(_, key)| key.to_owned()).collect();
        keys.iter().filter_map(|key| cache.owner(key).map(str::to_owned)).collect::<Vec<_>>()
    });
    assert!(!owners.iter().any(|owner| owner.starts_with("serial/")), "a reservation was not released: {owners:?}");
    Ok(())
}
