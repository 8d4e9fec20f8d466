//! Two executors as real processes under load, while processes are killed and paused and everything around them fails.
//!
//! | module | content |
//! | --- | --- |
//! | `workload` | the tasks, and how each of them must end |
//! | `world` | the cluster, the services, the load, and the check of tasks that have ended |
//! | `replica` | one executor: started, killed, paused, started again |
//! | `faults` | faults of services, storage and API |
//! | `campaign` | `make chaos`: kills, pauses and restarts in random order |
//! | `soak` | `make soak`: memory and open files over a long time |

pub mod campaign;
mod faults;
mod replica;
pub mod soak;
mod workload;
mod world;

pub use self::world::Failure;
