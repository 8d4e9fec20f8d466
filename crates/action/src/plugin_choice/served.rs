//! Which kinds a cluster serves, as far as that is known.

use std::collections::BTreeMap;

use aileron_machinery::ResourceKind;

/// What is known about a kind in a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Served {
    /// The cluster serves it.
    Yes,
    /// It does not: most likely its operator is not installed.
    No,
    /// The cluster could not be asked, and why.
    Unknown(String),
}

/// What a cluster is known to serve.
pub type ServedKinds = BTreeMap<ResourceKind, Served>;

/// A kind that a cluster does not serve.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the cluster does not serve {} ({}); install the operator that brings it, or disable the plugin", .0.kind, .0.api_version())]
pub struct MissingKind(pub ResourceKind);

/// Whether a plugin that makes this kind can work in a cluster that serves these. Nothing known means nothing missing:
/// trying tells.
pub fn missing(served: &ServedKinds, kind: &ResourceKind) -> Option<MissingKind> {
    matches!(served.get(kind), Some(Served::No)).then(|| MissingKind(kind.clone()))
}
