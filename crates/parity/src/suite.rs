//! The parts of suites: a bench with everything an executor needs, executors, tasks, and functions that wait.
//!
//! A suite is a function of the [`Server`] it runs on, and [`on_both`](crate::on_both) makes two tests of it. Most suites
//! share one bench and one executor ([`Server::shared`]), each with its own namespace. A suite that stops a component or
//! needs another configuration starts its own bench ([`Server::bench`], or [`Bench::start`] with options), because an
//! executor serves all namespaces.

mod bench;
mod executor;
mod go_executor;
mod logs;
mod program;
mod progress;
mod scripts;
mod space;
mod task;

pub use self::bench::{Bench, BenchOptions, started_once};
pub use self::executor::{Executor, Settings};
pub use self::go_executor::{GoExecutor, GoState, LeaderElect};
pub use self::logs::Logs;
pub use self::program::{Program, Recording, binary};
pub use self::progress::Progress;
pub use self::scripts::{ATTEMPTS, Document, LEFT_RUNNING, attempts, script};
pub use self::space::{Observation, Observations, Space, StatusView};
pub use self::task::{Task, duration_inputs};
pub use crate::cluster::Server;

use std::time::Duration;

/// Limit for one step that a suite waits for, such as the end of one task. Almost every step takes less than a second; this is
/// for a machine whose processors are busy with other programs. It is shorter than the 10 minutes after which the executor
/// looks at an action without a reason, so a step that only this look finds fails the suite. For many steps see [`Progress`].
pub const WAIT_TIMEOUT: Duration = Duration::from_secs(120);

/// Pause between two checks of a condition. It is short because all servers are on loopback.
pub const POLL_INTERVAL: Duration = Duration::from_millis(25);

/// Makes two tests of each of these functions of a [`Server`]: `real::<name>` and `sandbox::<name>`. The compiler reports a
/// function that is missing here as unused. With `alone:` the tests measure times: `cargo test` ignores them, and
/// `make measure` runs them one at a time, because other tests would disturb the measurement.
#[macro_export]
macro_rules! on_both {
    (alone: $($name:ident),* $(,)?) => {
        $crate::on_both!(@ [#[ignore = "measures times; run it with: make measure"]] $($name),*);
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
