//! A deterministic simulation of executors in a faulty cluster.
//!
//! One run takes place in one process: the real code of the executor (controller, reconciler, plugin manager, admission,
//! pools, events, lease) on a simulated clock, against the in-memory API server. A seed decides the tasks, the behaviour
//! of nodes, operators and users, and every fault. The same seed gives the same run.
//!
//! | module | content |
//! | --- | --- |
//! | `determinism` | one thread, a paused clock, and random numbers that come from the seed |
//! | `history` | what happened, in the order of the API server's revisions |
//! | `faults` | which faults a run has, and when |
//! | `network` | between an executor and the API server: faults at any request and watch |
//! | `services` | events service, cache service and storage, with faults |
//! | `workload` | the tasks of a run, and what their pods do |
//! | `operator` | a custom kind with its plugin and its operator |
//! | `people` | users and administrators who change things |
//! | `process` | one life of an executor process: it can be killed, paused, or cut off |
//! | `executors` | starts executors again when they have ended |
//! | `world` | all of the above together: one run |
//! | `verdict` | the rules, checked on the history and on the final state |
//! | `patterns` | systematic crashes and losses at every write and every watched change |
//! | `mutations` | breaks promises on purpose, to see that the checks notice it |

pub mod determinism;
pub mod executors;
pub mod faults;
pub mod history;
pub mod mutations;
pub mod network;
pub mod operator;
pub mod patterns;
pub mod people;
pub mod process;
pub mod services;
pub mod verdict;
pub mod workload;
pub mod world;
