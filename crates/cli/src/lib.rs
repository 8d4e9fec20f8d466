//! Flyte's task executor as a program: the commands of `aileron`, for its own binary and for the binaries of plugin
//! authors.
//!
//! [`Program`] is the entry point. This is the whole `main.rs` of a binary with one more plugin:
//!
//! ```ignore
//! use std::process::ExitCode;
//!
//! fn main() -> ExitCode {
//!     aileron::Program::new().with(MyPlugin).main()
//! }
//! ```
//!
//! Every command of that binary knows the plugin: `run`, `sandbox`, `demo` and `submit` run its tasks, `plugins` lists
//! it, `render` and `explain` show its objects, `config check` accepts its name. [`Program::start_sandbox`] starts the
//! same cluster inside a test.

mod action;
mod arguments;
mod command;
mod configuration;
mod connection;
mod display;
mod entry_point;
mod failure;
mod follow;
mod process;
mod program;
mod sandbox;
mod submit;

pub use aileron_sandbox::Rules as OperatorRules;
pub use failure::Failure;
pub use program::Program;
pub use sandbox::{DirectoryChoice, ExecutorConfig, LogTarget, Sandbox, SandboxOptions};
pub use submit::results::FinishedTask;
