//! Pools of tokens: a task holds a token of each pool that it needs while it runs.
//!
//! A pool stands for something that only a limited number of tasks may use at the same time, such as licences. A token is
//! an object in the cluster. There is one for each holder, owned by the holder's TaskAction, so that no token is lost when
//! the action or the executor goes away. All decisions are made from the tokens alone ([`limits`]). The executor decides
//! first from its watch, without a request. After it has created a token it lists the tokens of the pool and decides again
//! ([`broker`]), so that two executors that do not know of each other never exceed a limit together.
//!
//! # States of a token
//!
//! Each transition is named after the method that makes it.
//!
//! ```mermaid
//! stateDiagram-v2
//!     [*] --> Waiting: Pools.claim, a limit is reached or the pool is in back-off
//!     [*] --> Unconfirmed: Pools.claim, the token may be created
//!     [*] --> Unconfirmed: Pools.token_seen, only the watch shows the token
//!     Waiting --> Unconfirmed: Pools.claim
//!     Waiting --> [*]: Pools.stop_waiting
//!     Unconfirmed --> Held: Pools.confirmed, the list shows that the token is within the limits
//!     Unconfirmed --> Waiting: Pools.over_limit, another executor was faster and the token was deleted
//!     Unconfirmed --> Waiting: Pools.request_failed, the pool backs off
//!     Unconfirmed --> [*]: Pools.token_deleted
//!     Held --> [*]: Pools.token_deleted
//! ```
//!
//! Unconfirmed and held tokens count against the limits.
//!
//! # Modules
//!
//! A module uses only modules below it in this table.
//!
//! | module | content |
//! | --- | --- |
//! | [`broker`] | [`TokenBroker`](broker::TokenBroker): creates, confirms and returns tokens |
//! | `table` | [`Pools`]: which action holds or waits for a token |
//! | `store` | [`TokenStore`]: the tokens in the cluster |
//! | `claim` | [`TokenClaim`]: which action wants a token |
//! | `backoff` | back-off of a pool after a failed request |
//! | [`limits`] | whether one more token is within the limits: pure functions |

mod backoff;
pub mod broker;
mod claim;
pub mod limits;
mod store;
mod table;

pub use self::claim::TokenClaim;
pub use self::store::TokenStore;
pub use self::table::{ClaimAnswer, Pool, Pools, TokenWait};
