//! Threads for commands that wait for a cluster.

use anyhow::Context;
use tokio::runtime::{Builder, Runtime};

/// Starts them. Two will do: everything here waits far more than it computes.
pub fn start() -> anyhow::Result<Runtime> {
    let runtime = Builder::new_multi_thread().worker_threads(2).thread_name("aileron").enable_all().build();
    runtime.context("cannot start threads")
}
