//! What the cluster says about an action: its summary, its phase, and the objects that were created for it.

pub mod objects;
mod phase;
mod plain_message;
mod summary;

pub use phase::{DisplayPhase, Outcome, split_words};
pub use plain_message::plain_message;
pub use summary::{Summary, one_line, with_code};
