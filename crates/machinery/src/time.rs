//! Time in decisions and pauses: the clock as a value, growing pauses, their random part, and messages that repeat.

pub mod backoff;
pub mod clock;
pub mod jitter;
pub mod repeats;
