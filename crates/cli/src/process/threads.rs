//! The threads of commands that wait for a cluster.

use anyhow::Context;
use tokio::runtime::{Builder, Runtime};

/// Starts an asynchronous runtime with two threads: commands mostly wait for the network and compute little.
pub fn start_runtime() -> anyhow::Result<Runtime> {
    let runtime = Builder::new_multi_thread().worker_threads(2).thread_name("aileron").enable_all().build();
    runtime.context("cannot start threads")
}
