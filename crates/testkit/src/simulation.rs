//! A faulty cluster on a simulated clock: the in-memory API server, the real code of the executor, and everything
//! between them that can fail.
//!
//! [`Conformance`](crate::Conformance) runs tasks of one plugin in it. The simulator of Aileron runs whole workloads in it,
//! with random faults.
//!
//! | module | content |
//! | --- | --- |
//! | [`paused_runtime`] | a runtime whose clock stands still while anything is ready to run |
//! | [`clock`], [`random`] | the time of day, and decisions that come from a seed |
//! | [`history`] | what happened, in the order of the API server's revisions |
//! | [`faults`], [`patterns`] | which faults a run has: at random, or one at a chosen place |
//! | [`network`] | between an executor and the API server: faults at any request and watch |
//! | [`services`] | events service, cache service and storage, with faults |
//! | [`process`], [`executors`] | executor processes that can be killed, paused or cut off, and start again |
//! | [`observation`], [`conclusion`] | records all changes; waits for the end of a run |

pub mod clock;
pub mod conclusion;
pub mod executors;
pub mod faults;
pub mod history;
pub mod network;
pub mod observation;
pub mod patterns;
pub mod paused_runtime;
pub mod process;
pub mod random;
pub mod services;
