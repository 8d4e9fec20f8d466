//! How admission reaches the actions that wait.

use aileron_machinery::ActionKey;
use jiff::Timestamp;

/// Wakes actions and knows their age.
pub trait ActionWaker: Send + Sync {
    /// It is the action's turn.
    fn wake(&self, key: &ActionKey);
    /// When the action was created.
    fn created(&self, key: &ActionKey) -> Option<Timestamp>;
}

/// For programs without a controller: wakes no action and knows none.
pub struct NoWaker;

impl ActionWaker for NoWaker {
    fn wake(&self, _: &ActionKey) {}

    fn created(&self, _: &ActionKey) -> Option<Timestamp> {
        None
    }
}
