//! Functions that take any bytes and must neither panic, hang nor use memory without bound.
//!
//! libFuzzer calls them (`fuzz/` at the root of the repository), and so does `tests/replay.rs` with every file of
//! `fuzz/corpus`. A target panics if an answer is wrong, for example if an error says nothing.
//!
//! [`Target`] prepares a function by its name.
//!
//! | module | the bytes are |
//! | --- | --- |
//! | [`task_template`] | an encoded task template; its object is built |
//! | [`object`] | an object in JSON, as a watch delivers it; its phase is read |
//! | [`literals`] | encoded inputs |
//! | [`error_document`] | the file `error.pb` or `outputs.pb` of a task |
//! | [`plugin_state`] | the field `status.pluginState` |
//! | [`configuration`] | configuration files and flags |
//! | [`task_file`] | a file for `aileron submit` and `aileron render` |
//! | [`api_request`] | requests to the API server of the sandbox |
//! | [`quota_message`] | an error answer of an API server |

pub mod answer;
pub mod api_request;
pub mod configuration;
pub mod error;
pub mod error_document;
mod installation;
pub mod literals;
pub mod object;
pub mod plugin_state;
pub mod quota_message;
pub mod target;
pub mod task_file;
pub mod task_template;

pub use answer::Answer;
pub use error::{NAMES, TargetError};
pub use target::Target;
