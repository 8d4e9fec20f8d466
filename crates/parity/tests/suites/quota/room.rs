//! Ten times as many tasks as there is room for at a time.

use std::time::{Duration, Instant};

use aileron_parity::suite::{Server, Space, most_times_ideal};
use anyhow::Result;
use serde_json::json;

use crate::quota::{QUIET, check, check_refused, container, limited, space_with, submit_all, until_free};

aileron_parity::on_both!(all_tasks_pass_a_quota_of_pods_in_order_and_without_delay);

const ROOM: usize = 20;
const TASKS: usize = 200;
const LIFE: Duration = Duration::from_millis(1200);

/// How long as many tasks take as there is room for, from the first submission until all of the room is free again:
/// with what the API server, the node and the controller that counts usage need.
async fn round(space: &Space<'_>) -> Result<Duration> {
    let begin = Instant::now();
    submit_all(space, ROOM, |name| container(name, LIFE)).await?;
    check(&space.until_all_ended(ROOM, Duration::from_secs(30)).await?);
    until_free(space).await?;
    Ok(begin.elapsed())
}

async fn all_tasks_pass_a_quota_of_pods_in_order_and_without_delay(on: Server) -> Result<()> {
    let bench = limited(on).await?;
    let _quiet = QUIET.lock().await;
    let hard = json!({"pods": ROOM.to_string()});
    // The first round finds cold caches and is no measure.
    round(&space_with(bench, "round-cold", &hard).await?).await?;
    let before = round(&space_with(bench, "round-before", &hard).await?).await?;

    let space = space_with(bench, "many", &hard).await?;
    let begin = Instant::now();
    submit_all(&space, TASKS, |name| container(name, LIFE)).await?;
    let actions = space.until_all_ended(TASKS, Duration::from_secs(90)).await?;
    until_free(&space).await?;
    let time = begin.elapsed();
    check(&actions);
    check_refused(&space, "pods")?;

    let mut runs = space.runs();
    assert_eq!(runs.len(), TASKS, "each pod runs once");
    runs.sort_by_key(|run| run.at);
    for (place, run) in runs.iter().enumerate() {
        let number: usize = run.name[1..5].parse()?;
        // Those that run at the same time may change places.
        assert!(place.abs_diff(number) <= 2 * ROOM, "{} started as number {place}", run.name);
    }
    let after = round(&space_with(bench, "round-after", &hard).await?).await?;
    let ideal = (before + after) / 2 * u32::try_from(TASKS.div_ceil(ROOM))?;
    let ratio = time.as_secs_f64() / ideal.as_secs_f64();
    println!("{on:?}: {TASKS} tasks took {time:.2?}; a round takes {before:.2?} and {after:.2?}; ratio {ratio:.2}");
    assert!(ratio < most_times_ideal(), "{time:?} is {ratio:.2} times {ideal:?}");
    Ok(())
}
