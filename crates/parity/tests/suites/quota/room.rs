//! Many times as many tasks as there is room for: nobody is refused, nobody is overtaken, and no time is wasted.

use std::time::{Duration, Instant};

use aileron_idl::flyteidl2::core::resources::ResourceName;
use aileron_parity::suite::{Bench, Server, Space, Task};
use anyhow::Result;
use futures::future::try_join_all;
use serde_json::{Value, json};

use crate::quota::{check, container, limited, refused, space_with, submit_all, until_free};

aileron_parity::on_both!(
    alone: all_tasks_pass_a_quota_of_pods,
    all_tasks_pass_quotas_of_what_they_ask_for,
    a_quota_with_room_for_all_slows_nobody_down
);

const LIFE: Duration = Duration::from_millis(1200);

/// How much longer than the ideal time it may take.
const MOST_TIMES_IDEAL: f64 = 1.3;

/// A machine that does something else at the same time spoils a measurement; then it is taken again.
const TAKES: usize = 3;

/// A quota, and tasks that are limited by it.
struct Limit {
    name: &'static str,
    hard: Value,
    task: fn(&str) -> Task,
}

/// How many tasks have room at a time, and how many there are.
#[derive(Clone, Copy)]
struct Size {
    room: usize,
    tasks: usize,
}

impl Limit {
    /// As many tasks as there is room for, from the first submission until all of the room is free again: with what the
    /// API server, the node and the controller that counts usage need.
    async fn round(&self, bench: &Bench, when: &str, room: usize) -> Result<Duration> {
        let space = space_with(bench, &format!("{}-{when}", self.name), &self.hard).await?;
        let begin = Instant::now();
        submit_all(&space, room, self.task).await?;
        check(&space.until_all_ended(room, Duration::from_secs(30)).await?);
        until_free(&space).await?;
        Ok(begin.elapsed())
    }

    /// All tasks. The answer is how long they took, and how many creates were refused.
    async fn all(&self, bench: &Bench, take: usize, size: Size) -> Result<(Duration, usize)> {
        let space = space_with(bench, &format!("{}-{take}", self.name), &self.hard).await?;
        let begin = Instant::now();
        submit_all(&space, size.tasks, self.task).await?;
        let actions = space.until_all_ended(size.tasks, Duration::from_secs(90)).await?;
        until_free(&space).await?;
        let time = begin.elapsed();
        check(&actions);
        check_order(&space, size)?;
        Ok((time, refused(&space, "pods")?.len()))
    }
}

/// Everybody ran once, the oldest first, and no more at a time than there is room for.
fn check_order(space: &Space<'_>, size: Size) -> Result<()> {
    let mut runs = space.runs();
    assert_eq!(runs.len(), size.tasks, "each pod runs once");
    runs.sort_by_key(|run| run.at);
    for (place, run) in runs.iter().enumerate() {
        let number: usize = run.name[1..5].parse()?;
        // Those that run at the same time may change places.
        assert!(place.abs_diff(number) <= 2 * size.room, "{} started as number {place}", run.name);
    }
    let alive = |at| runs.iter().filter(|run| run.at <= at && at < run.at + LIFE).count();
    let most = runs.iter().map(|run| alive(run.at)).max().unwrap_or_default();
    assert!(most <= size.room && most > size.room / 2, "{most} at a time in {}", space.namespace);
    Ok(())
}

/// Takes measurements until one is good.
async fn measure(on: Server, limits: &[Limit], size: Size) -> Result<()> {
    let bench = limited(on).await?;
    let round = async |when: String| {
        let rounds = try_join_all(limits.iter().map(|limit| limit.round(bench, &when, size.room))).await?;
        anyhow::Ok(rounds.into_iter().max().unwrap_or_default())
    };
    // The first round finds cold caches and is no measure.
    round("cold".to_owned()).await?;
    let mut seen = Vec::new();
    for take in 1..=TAKES {
        let before = round(format!("before-{take}")).await?;
        let all = try_join_all(limits.iter().map(|limit| limit.all(bench, take, size))).await?;
        let after = round(format!("after-{take}")).await?;
        let ideal = (before + after) / 2 * u32::try_from(size.tasks.div_ceil(size.room))?;
        let time = all.iter().map(|(time, _)| *time).max().unwrap_or_default();
        let refused: usize = all.iter().map(|(_, refused)| refused).sum();
        let ratio = time.as_secs_f64() / ideal.as_secs_f64();
        let lives = LIFE.as_secs_f64() * (size.tasks.div_ceil(size.room) as f64);
        let told = format!(
            "{on:?}: {} tasks, {} at a time, took {time:.2?}: {ratio:.2} of as many rounds alone ({before:.2?}, \
             {after:.2?}), {:.2} of the lives of their pods; {refused} refused",
            size.tasks,
            size.room,
            time.as_secs_f64() / lives,
        );
        println!("{told}");
        seen.push(told);
        if refused == 0 && ratio < MOST_TIMES_IDEAL {
            return Ok(());
        }
    }
    panic!("not one good measurement:\n{}", seen.join("\n"))
}

async fn all_tasks_pass_a_quota_of_pods(on: Server) -> Result<()> {
    let pods = Limit { name: "by-pods", hard: json!({"pods": "20"}), task: |name| container(name, LIFE) };
    measure(on, &[pods], Size { room: 20, tasks: 200 }).await
}

async fn all_tasks_pass_quotas_of_what_they_ask_for(on: Server) -> Result<()> {
    let limits = [
        Limit {
            name: "by-cpu",
            hard: json!({"requests.cpu": "3"}),
            task: |name| container(name, LIFE).asking(ResourceName::Cpu, "500m"),
        },
        Limit {
            name: "by-memory",
            hard: json!({"limits.memory": "384Mi"}),
            task: |name| container(name, LIFE).asking(ResourceName::Memory, "64Mi"),
        },
        Limit {
            name: "by-gpu",
            hard: json!({"requests.nvidia.com/gpu": "12"}),
            task: |name| container(name, LIFE).asking(ResourceName::Gpu, "2"),
        },
        Limit {
            name: "by-several",
            hard: json!({"pods": "6", "requests.cpu": "100", "requests.memory": "100Gi"}),
            task: |name| container(name, LIFE).asking(ResourceName::Cpu, "1"),
        },
    ];
    measure(on, &limits, Size { room: 6, tasks: 36 }).await
}

async fn a_quota_with_room_for_all_slows_nobody_down(on: Server) -> Result<()> {
    const MANY: usize = 100;
    let bench = limited(on).await?;
    let mut seen = Vec::new();
    for take in 1..=TAKES {
        let mut times = Vec::new();
        // Without a quota of pods, and with a wide one.
        for (name, hard) in [("unlimited", json!({"configmaps": "1"})), ("wide", json!({"pods": "10000"}))] {
            let space = space_with(bench, &format!("{name}-{take}"), &hard).await?;
            let begin = Instant::now();
            submit_all(&space, MANY, |name| container(name, LIFE)).await?;
            check(&space.until_all_ended(MANY, Duration::from_secs(60)).await?);
            times.push(begin.elapsed());
        }
        println!("{on:?}: {MANY} tasks took {:.2?} without a quota of pods and {:.2?} with one", times[0], times[1]);
        if times[1] < times[0].mul_f64(MOST_TIMES_IDEAL) {
            return Ok(());
        }
        seen.push(times);
    }
    panic!("a quota costs time: {seen:?}")
}
