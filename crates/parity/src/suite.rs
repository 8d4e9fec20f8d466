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

pub use self::bench::{Bench, BenchOptions, started_once};
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

/// Makes two tests of each of these functions of a [`Server`]: `real::<name>` and `sandbox::<name>`. A function that is
/// forgotten here is never used, which the compiler says. With `alone:` in front they are left to `make measure`, which
/// runs one test at a time: they measure, and others would be measured with them.
#[macro_export]
macro_rules! on_both {
    (alone: $($name:ident),* $(,)?) => {
        $crate::on_both!(@ [#[ignore = "measures, so it runs alone: make measure"]] $($name),*);
    };
    (@ $attributes:tt $($name:ident),*) => {
        mod real {
            $($crate::on_both!(@one $attributes $name Real);)*
        }

        mod sandbox {
            $($crate::on_both!(@one $attributes $name Sandbox);)*
        }
    };
    (@one [$($attribute:tt)*] $name:ident $server:ident) => {
        $($attribute)*
        #[tokio::test]
        async fn $name() -> anyhow::Result<()> {
            super::$name($crate::suite::Server::$server).await
        }
    };
    ($($name:ident),* $(,)?) => {
        $crate::on_both!(@ [] $($name),*);
    };
}
