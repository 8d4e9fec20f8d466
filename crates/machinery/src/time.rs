//! Time in decisions and pauses: the clock as a value, growing pauses, and their random part.

pub mod backoff;
pub mod clock;
pub mod jitter;
