//! May this object be created now?

pub mod amounts;
pub mod backoff;
pub mod gate;
pub mod pools;
pub mod quota;
pub mod refusal;
pub mod request;
pub mod waker;
