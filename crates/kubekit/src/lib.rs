//! Kubernetes values with exact semantics, and nothing else: no cluster, no I/O, no Flyte.
//!
//! Two programs only agree on what a pod asks for when they agree on `1.5Gi`, on which strings are names and on
//! what merging two pod specs means. Each module here is one such agreement, checked against the Go libraries that
//! every Kubernetes component links:
//!
//! * [`ApiError`]: an error answer of an API server
//! * [`digest`]: short digests in letters that names may hold
//! * [`quantity`]: amounts of a resource, their arithmetic and their text
//! * [`names`]: DNS-1123 names and label values, validation and conversion
//! * [`selector`]: label and field selectors
//! * [`duration`]: durations as Go writes them
//! * [`json_path`]: the paths of printer columns
//! * [`merge`]: the overlay rules of pod templates

mod api_error;
pub mod digest;
pub mod duration;
pub mod json_path;
pub mod merge;
pub mod names;
pub mod quantity;
pub mod selector;

pub use api_error::{ApiError, KIND_NOT_SERVED};
