//! Decides when an action may create its object: quota admission, back-off, reservations, and pools of tokens.
//!
//! Two questions are answered before the executor creates the object of a task:
//!
//! - [`pools`]: does the action hold a token of every pool that the task needs? Pools limit how many tasks run at the same
//!   time, for example because there are only a few licences.
//! - [`gate`]: would the API server accept the create request now? The gate knows the ResourceQuotas of the namespace, the
//!   create requests that are in flight, and recent refusals.
//!
//! An action that must wait gets a reason for users, and is woken through the [`waker`] when its turn has come.
//!
//! # What the crate never does
//!
//! It does no I/O, has no timers, and starts no tasks. The executor passes the time, random numbers, the watched quotas and
//! tokens, and the results of create requests. Requests for tokens go through the trait
//! [`TokenStore`](pools::TokenStore), which the executor implements. There are two places that read a clock, and both get
//! it as an argument: a [`CreatePermit`](gate::CreatePermit) that is dropped without a result, and the
//! [`TokenBroker`](pools::broker::TokenBroker) after a failed request.
//!
//! # Who calls it
//!
//! | caller in the executor | calls |
//! | --- | --- |
//! | the plugin manager, when it launches a task | [`Gate::request_permit`](gate::Gate::request_permit), [`CreatePermit`](gate::CreatePermit), [`TokenBroker::take`](pools::broker::TokenBroker::take) |
//! | the plugin manager, when an object ended or a task is aborted | [`Gate::object_ended`](gate::Gate::object_ended), [`Gate::withdraw`](gate::Gate::withdraw), [`Pools::stop_waiting`](pools::Pools::stop_waiting) |
//! | the watch of ResourceQuotas | [`Gate::quota_changed`](gate::Gate::quota_changed), [`Gate::quota_deleted`](gate::Gate::quota_deleted), [`Gate::quotas_listed`](gate::Gate::quotas_listed), [`Gate::quotas_not_visible`](gate::Gate::quotas_not_visible) |
//! | the watch of tokens | [`Pools::token_seen`](pools::Pools::token_seen), [`Pools::token_deleted`](pools::Pools::token_deleted), [`Pools::next_holders`](pools::Pools::next_holders) |
//! | a timer loop | [`Gate::wake_due`](gate::Gate::wake_due), [`Gate::maintain`](gate::Gate::maintain) |
//!
//! # Modules
//!
//! | module | content |
//! | --- | --- |
//! | [`gate`] | admission of create requests, with a diagram of their states |
//! | [`pools`] | pools of tokens, with a diagram of the states of a token |
//! | [`create_request`] | the quota usage of an object |
//! | [`quota`] | ResourceQuotas, and the API server's messages about them |
//! | [`refusal`] | classifies error answers of the API server |
//! | [`backoff`] | back-off after refused create requests |
//! | [`amounts`] | amounts of resources |
//! | [`waker`] | wakes waiting actions |
//! | [`time`] | arithmetic with monotonic times |

pub mod amounts;
pub mod backoff;
pub mod create_request;
pub mod gate;
pub mod pools;
pub mod quota;
pub mod refusal;
pub mod time;
pub mod waker;
