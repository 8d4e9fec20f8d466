//! Proof that Aileron does what it says: recorded vectors, and suites on a real Kubernetes API server and on the sandbox's.

pub mod cluster;
pub mod events_stub;
pub mod kubelet;
pub mod sbom;
pub mod structure;
pub mod suite;
pub mod vectors;

/// Chooses the one TLS implementation of the process; every test and program that opens a connection calls it first.
/// Calling it again does nothing.
pub fn init() {
    // An error only says that somebody was faster.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
