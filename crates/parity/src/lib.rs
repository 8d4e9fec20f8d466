//! Tests of the whole program: recorded cases, and suites on a real Kubernetes API server and on the sandbox's.

pub mod chaos;
pub mod cluster;
pub mod events_stub;
pub mod kubelet;
pub mod manifests;
pub mod recorder;
pub mod release;
pub mod sbom;
pub mod storage_stub;
pub mod structure;
pub mod suite;
pub mod vectors;

/// Installs the TLS implementation of the process. Every test and program that opens a connection calls it first. A second
/// call does nothing.
pub fn init() {
    // An error means that a provider is already installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
