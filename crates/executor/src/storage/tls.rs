//! The TLS provider of the process.

/// Makes `ring` the crypto provider of this process unless one was installed before. With two providers in one process
/// rustls cannot choose one and panics at first use, so every client and server calls this first.
pub fn install_crypto_provider() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // An error means that a concurrent call installed a provider first, which is just as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}
