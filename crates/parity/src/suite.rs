//! What suites are made of: a bench with everything an executor needs, executors on it, tasks, and ways to wait.
//!
//! Most suites share one bench and one executor ([`shared`]) and keep apart by namespace. Suites that stop things, or
//! need an executor of another configuration, start a [`Bench`] of their own: an executor works on all namespaces.

mod bench;
mod executor;
mod logs;
mod program;
mod scripts;
mod space;
mod task;

pub use self::bench::{Bench, shared};
pub use self::executor::{Executor, Settings};
pub use self::logs::Logs;
pub use self::program::Program;
pub use self::scripts::{ATTEMPTS, Document, attempts, script};
pub use self::space::{Shown, Sighting, Sightings, Space};
pub use self::task::{Task, duration_inputs};

use std::time::Duration;

/// Longer than anything here takes on a loaded machine, and short enough to tell that something hangs.
pub const PATIENCE: Duration = Duration::from_secs(40);

/// Between two looks; everything is on loopback, so a look costs nothing.
pub const LOOK_EVERY: Duration = Duration::from_millis(25);
