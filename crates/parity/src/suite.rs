//! What suites are made of: a bench with everything an executor needs, executors on it, tasks, and ways to wait.
//!
//! A suite is a function of the [`Server`] it runs on, and [`on_both`](crate::on_both) makes two tests of it. Most share
//! one bench and one executor ([`Server::shared`]) and keep apart by namespace. Suites that stop things, or need an
//! executor of another configuration, start a bench of their own ([`Server::bench`], or [`Bench::start`] with options):
//! an executor works on all namespaces.

mod bench;
mod executor;
mod logs;
mod program;
mod scripts;
mod space;
mod task;

pub use self::bench::{Bench, BenchOptions};
pub use self::executor::{Executor, Settings};
pub use self::logs::Logs;
pub use self::program::{Program, binary};
pub use self::scripts::{ATTEMPTS, Document, LEFT_RUNNING, attempts, script};
pub use self::space::{Shown, Sighting, Sightings, Space};
pub use self::task::{Task, duration_inputs};
pub use crate::cluster::Server;

use std::time::Duration;

/// Longer than anything here takes on a loaded machine, and short enough to tell that something hangs.
pub const PATIENCE: Duration = Duration::from_secs(40);

/// Between two looks; everything is on loopback, so a look costs nothing.
pub const LOOK_EVERY: Duration = Duration::from_millis(25);

/// How much longer than the ideal time work under a quota may take. With `AILERON_MEASURE` set, for a run of its own on
/// a quiet machine, the bar itself; else other tests run at the same time and the figure only shows that nobody waits
/// for nothing.
#[must_use]
pub fn most_times_ideal() -> f64 {
    if std::env::var_os("AILERON_MEASURE").is_some() { 1.3 } else { 2.5 }
}

/// Makes two tests of each of these functions of a [`Server`]: `real::<name>` and `sandbox::<name>`. A function that is
/// forgotten here is never used, which the compiler says.
#[macro_export]
macro_rules! on_both {
    ($($name:ident),* $(,)?) => {
        mod real {
            $(#[tokio::test]
            async fn $name() -> anyhow::Result<()> {
                super::$name($crate::suite::Server::Real).await
            })*
        }

        mod sandbox {
            $(#[tokio::test]
            async fn $name() -> anyhow::Result<()> {
                super::$name($crate::suite::Server::Sandbox).await
            })*
        }
    };
}
