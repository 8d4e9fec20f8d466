//! How this crate wakes waiting actions and learns their age.

use aileron_machinery::ActionKey;
use jiff::Timestamp;

/// Wakes actions and knows when they were created. The executor implements it with its work queue.
pub trait ActionWaker: Send + Sync {
    /// Starts a reconcile round of the action soon. The round asks again for what the action waits for.
    fn wake(&self, key: &ActionKey);
    /// When the action was created. `None` if the executor does not know the action, for example because it was deleted.
    fn created_at(&self, key: &ActionKey) -> Option<Timestamp>;
}

/// An [`ActionWaker`] for programs without a controller: wakes no action and knows none.
pub struct NoWaker;

impl ActionWaker for NoWaker {
    fn wake(&self, _: &ActionKey) {}

    fn created_at(&self, _: &ActionKey) -> Option<Timestamp> {
        None
    }
}
