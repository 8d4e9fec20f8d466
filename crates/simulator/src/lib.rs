//! A deterministic simulation of executors in a faulty cluster.
//!
//! One run takes place in one process: the real code of the executor (controller, reconciler, plugin manager, admission,
//! pools, events, lease) on a simulated clock, against the in-memory API server. A seed decides the tasks, the behaviour
//! of nodes, operators and users, and every fault. The same seed gives the same run.
//!
//! The cluster and its faults are [`aileron_testkit::simulation`], which the test kit for plugin authors uses too.
//!
//! | module | content |
//! | --- | --- |
//! | `determinism` | one thread, a paused clock, and random numbers that come from the seed |
//! | `workload` | the tasks of a run, and what their pods do |
//! | `operator` | a custom kind with its plugin and its operator |
//! | `people` | users and administrators who change things |
//! | `configuration` | configuration and plugins of the executors |
//! | `world` | all of the above together: one run |
//! | `verdict` | the rules, checked on the history and on the final state |
//! | `mutations` | breaks promises on purpose, to see that the checks notice it |

pub mod configuration;
pub mod determinism;
pub mod mutations;
pub mod operator;
pub mod people;
pub mod verdict;
pub mod workload;
pub mod world;
