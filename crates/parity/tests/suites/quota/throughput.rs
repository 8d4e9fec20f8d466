//! Many more tasks than a quota allows at once: no create is refused, tasks start in order, and the quota is used fully.

use std::time::{Duration, Instant};

use aileron_idl::flyteidl2::core::resources::ResourceName;
use aileron_parity::suite::{Bench, Server, Space, Task};
use anyhow::Result;
use futures::future::try_join_all;
use serde_json::{Value, json};

use crate::quota::{check, container, quota_bench, refused, space_with, submit_all, until_free};

aileron_parity::on_both!(
    alone: all_tasks_pass_a_quota_of_pods,
    all_tasks_pass_quotas_of_requested_resources,
    a_quota_that_never_binds_costs_no_time
);

const RUN_TIME: Duration = Duration::from_millis(1200);

/// How much longer than the ideal time the tasks may take.
const MAX_RATIO: f64 = 1.3;

/// How often a measurement is repeated. Other programs on the machine may disturb it.
const MEASUREMENTS: usize = 3;

/// A quota, and tasks that it limits.
struct Limit {
    name: &'static str,
    hard: Value,
    task: fn(&str) -> Task,
}

/// How many tasks the quota allows at a time, and how many tasks there are.
#[derive(Clone, Copy)]
struct Size {
    allowed: usize,
    tasks: usize,
}

impl Limit {
    /// Runs as many tasks as the quota allows at once. Returns the time from the first submission until the quota is free
    /// again, including the time of the API server, the node and the ResourceQuota controller.
    async fn round(&self, bench: &Bench, when: &str, allowed: usize) -> Result<Duration> {
        let space = space_with(bench, &format!("{}-{when}", self.name), &self.hard).await?;
        let begin = Instant::now();
        submit_all(&space, allowed, self.task).await?;
        check(&space.until_all_ended(allowed).await?);
        until_free(&space).await?;
        Ok(begin.elapsed())
    }

    /// Runs all tasks. Returns the time, and how many creates were refused.
    async fn all(&self, bench: &Bench, take: usize, size: Size) -> Result<(Duration, usize)> {
        let space = space_with(bench, &format!("{}-{take}", self.name), &self.hard).await?;
        let begin = Instant::now();
        submit_all(&space, size.tasks, self.task).await?;
        let actions = space.until_all_ended(size.tasks).await?;
        until_free(&space).await?;
        let time = begin.elapsed();
        check(&actions);
        check_order(&space, size)?;
        Ok((time, refused(&space, "pods")?.len()))
    }
}

/// Checks that every task ran once, the oldest first, and never more at a time than the quota allows.
fn check_order(space: &Space<'_>, size: Size) -> Result<()> {
    let mut runs = space.runs();
    assert_eq!(runs.len(), size.tasks, "each pod runs once");
    runs.sort_by_key(|run| run.at);
    for (place, run) in runs.iter().enumerate() {
        let number: usize = run.name[1..5].parse()?;
        // Tasks that run at the same time may start in another order.
        assert!(place.abs_diff(number) <= 2 * size.allowed, "{} started as number {place}", run.name);
    }
    let alive = |at| runs.iter().filter(|run| run.at <= at && at < run.at + RUN_TIME).count();
    let most = runs.iter().map(|run| alive(run.at)).max().unwrap_or_default();
    assert!(most <= size.allowed && most > size.allowed / 2, "{most} at a time in {}", space.namespace);
    Ok(())
}

/// Repeats the measurement until one meets the limits.
async fn measure(on: Server, limits: &[Limit], size: Size) -> Result<()> {
    let bench = quota_bench(on).await?;
    let round = async |when: String| {
        let rounds = try_join_all(limits.iter().map(|limit| limit.round(bench, &when, size.allowed))).await?;
        anyhow::Ok(rounds.into_iter().max().unwrap_or_default())
    };
    // The first round has cold caches and is not measured.
    round("cold".to_owned()).await?;
    let mut seen = Vec::new();
    for take in 1..=MEASUREMENTS {
        let before = round(format!("before-{take}")).await?;
        let all = try_join_all(limits.iter().map(|limit| limit.all(bench, take, size))).await?;
        let after = round(format!("after-{take}")).await?;
        let ideal = (before + after) / 2 * u32::try_from(size.tasks.div_ceil(size.allowed))?;
        let time = all.iter().map(|(time, _)| *time).max().unwrap_or_default();
        let refused: usize = all.iter().map(|(_, refused)| refused).sum();
        let ratio = time.as_secs_f64() / ideal.as_secs_f64();
        let run_time = RUN_TIME.as_secs_f64() * (size.tasks.div_ceil(size.allowed) as f64);
        let summary = format!(
            "{on:?}: {} tasks, {} at a time, took {time:.2?}: {ratio:.2} of as many rounds alone ({before:.2?}, \
             {after:.2?}), {:.2} of the run time of their pods; {refused} refused",
            size.tasks,
            size.allowed,
            time.as_secs_f64() / run_time,
        );
        println!("{summary}");
        seen.push(summary);
        if refused == 0 && ratio < MAX_RATIO {
            return Ok(());
        }
    }
    panic!("no measurement met the limits:\n{}", seen.join("\n"))
}

async fn all_tasks_pass_a_quota_of_pods(on: Server) -> Result<()> {
    let pods = Limit { name: "by-pods", hard: json!({"pods": "20"}), task: |name| container(name, RUN_TIME) };
    measure(on, &[pods], Size { allowed: 20, tasks: 200 }).await
}

async fn all_tasks_pass_quotas_of_requested_resources(on: Server) -> Result<()> {
    let limits = [
        Limit {
            name: "by-cpu",
            hard: json!({"requests.cpu": "3"}),
            task: |name| container(name, RUN_TIME).with_resource(ResourceName::Cpu, "500m"),
        },
        Limit {
            name: "by-memory",
            hard: json!({"limits.memory": "384Mi"}),
            task: |name| container(name, RUN_TIME).with_resource(ResourceName::Memory, "64Mi"),
        },
        Limit {
            name: "by-gpu",
            hard: json!({"requests.nvidia.com/gpu": "12"}),
            task: |name| container(name, RUN_TIME).with_resource(ResourceName::Gpu, "2"),
        },
        Limit {
            name: "by-several",
            hard: json!({"pods": "6", "requests.cpu": "100", "requests.memory": "100Gi"}),
            task: |name| container(name, RUN_TIME).with_resource(ResourceName::Cpu, "1"),
        },
    ];
    measure(on, &limits, Size { allowed: 6, tasks: 36 }).await
}

async fn a_quota_that_never_binds_costs_no_time(on: Server) -> Result<()> {
    const MANY: usize = 100;
    let bench = quota_bench(on).await?;
    let mut seen = Vec::new();
    for take in 1..=MEASUREMENTS {
        let mut times = Vec::new();
        // Without a quota of pods, and with a wide one.
        for (name, hard) in [("unlimited", json!({"configmaps": "1"})), ("wide", json!({"pods": "10000"}))] {
            let space = space_with(bench, &format!("{name}-{take}"), &hard).await?;
            let begin = Instant::now();
            submit_all(&space, MANY, |name| container(name, RUN_TIME)).await?;
            check(&space.until_all_ended(MANY).await?);
            times.push(begin.elapsed());
        }
        println!("{on:?}: {MANY} tasks took {:.2?} without a quota of pods and {:.2?} with one", times[0], times[1]);
        if times[1] < times[0].mul_f64(MAX_RATIO) {
            return Ok(());
        }
        seen.push(times);
    }
    panic!("a quota that never binds costs time: {seen:?}")
}
