//! Which kinds of objects the cluster serves, as far as that is known.

use std::collections::BTreeMap;

use aileron_machinery::ResourceKind;

/// Whether the cluster serves a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Served {
    /// The cluster serves it.
    Yes,
    /// The cluster does not serve it. Most likely its operator is not installed.
    No,
    /// Unknown, because the request to the API server failed with this error.
    Unknown(String),
}

/// The kinds about which something is known.
pub type ServedKinds = BTreeMap<ResourceKind, Served>;

/// A kind that a cluster does not serve.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the cluster does not serve {} ({}); install the operator that brings it, or disable the plugin", .0.kind, .0.api_version())]
pub struct MissingKind(pub ResourceKind);

/// The kind, if the cluster surely does not serve it. If nothing is known about the kind, it is not missing: the create
/// request shows whether the cluster serves it.
pub fn missing_kind(served: &ServedKinds, kind: &ResourceKind) -> Option<MissingKind> {
    matches!(served.get(kind), Some(Served::No)).then(|| MissingKind(kind.clone()))
}
