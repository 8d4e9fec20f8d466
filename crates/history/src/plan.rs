//! The tasks of a run, and how each of them must end.

/// A task of a run, as far as the rules are about it.
#[derive(Clone, Debug)]
pub struct PlannedTask {
    /// Its namespace, which is also the name of its run.
    pub namespace: String,
    /// Name of the action.
    pub name: String,
    /// The task type.
    pub task_type: String,
    /// Whether its outputs may come from the cache. It then succeeds without an attempt of its own.
    pub is_cached: bool,
    /// How it ends if nobody interferes.
    pub expected: Expected,
}

/// How a task ends if nobody interferes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// It succeeds in this attempt.
    Success(u32),
    /// It fails in this attempt.
    Failure(u32),
}
