//! The structure of the workspace: its crates, the top-level modules of each crate, and their dependencies.
//!
//! Crates and their dependencies come from `cargo metadata`. Modules and their dependencies come from the sources,
//! which are parsed with `syn`. `tests/architecture.rs` compares both with the lists of what is allowed, and
//! `tests/docs.rs` draws the diagrams of `docs/architecture.md` from them.

mod diagram;
mod graph;
mod imports;
mod list;
mod public_items;
mod references;
mod tokens;
mod workspace;

use std::io;
use std::path::PathBuf;

pub use diagram::{crate_diagram, module_diagram};
pub use graph::{ModuleGraph, Place};
pub use list::{ListError, ModuleList};
pub use public_items::{PublicItem, public_items};
pub use workspace::{Member, members};

/// The workspace or its sources could not be read.
#[derive(Debug, thiserror::Error)]
pub enum StructureError {
    /// `cargo metadata` failed.
    #[error("cargo metadata failed")]
    Metadata(#[from] cargo_metadata::Error),
    /// A source file could not be read.
    #[error("failed to read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// A source file is not Rust.
    #[error("failed to parse {path}, line {line}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What the parser says.
        #[source]
        source: syn::Error,
    },
}
