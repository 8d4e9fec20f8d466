//! The certificate of the metrics server: read from files and reloaded when they change, or self-signed at the start.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_util::sync::CancellationToken;

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A file does not contain a usable certificate or key.
    #[error("{} holds no usable {what}: {source}", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// What the file should contain.
        what: &'static str,
        /// What is wrong.
        source: rustls::pki_types::pem::Error,
    },
    /// A file contains no certificate.
    #[error("{} holds no certificate", .0.display())]
    Empty(PathBuf),
    /// Certificate and key do not belong together, or are of an unknown kind.
    #[error("certificate and key cannot be used together: {0}")]
    Unusable(#[from] rustls::Error),
    /// A self-signed certificate could not be created.
    #[error("cannot create a self-signed certificate: {0}")]
    Make(#[from] rcgen::Error),
}

/// Where the certificate comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// Self-signed at the start, for `localhost`, as controller-runtime does without a certificate.
    SelfSigned,
    /// Two PEM files.
    Files {
        /// The certificate, followed by its intermediates.
        certificate: PathBuf,
        /// The private key.
        key: PathBuf,
    },
}

/// The certificate for new connections.
#[derive(Debug)]
pub(super) struct Certificates {
    origin: Origin,
    current: RwLock<Current>,
}

#[derive(Debug)]
struct Current {
    /// The content of the files; empty for a self-signed certificate.
    pem: Pem,
    certified: Arc<CertifiedKey>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Pem {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

/// How often the files are read, as in controller-runtime. Mounted secrets change without notice.
const RELOAD_INTERVAL: Duration = Duration::from_secs(10);

impl Certificates {
    /// Reads the certificate, or creates a self-signed one.
    pub(super) fn load(origin: Origin) -> Result<Self, CertificateError> {
        let current = match &origin {
            Origin::SelfSigned => Current { pem: Pem::default(), certified: Arc::new(self_signed()?) },
            Origin::Files { certificate, key } => {
                let pem = read(certificate, key)?;
                let certified = Arc::new(certified(&pem, certificate, key)?);
                Current { pem, certified }
            }
        };
        Ok(Self { origin, current: RwLock::new(current) })
    }

    /// Reloads the files at regular intervals until cancelled.
    pub(super) async fn follow(&self, stop: &CancellationToken) {
        if self.origin == Origin::SelfSigned {
            return;
        }
        while stop.run_until_cancelled(tokio::time::sleep(RELOAD_INTERVAL)).await.is_some() {
            match self.reload() {
                Ok(true) => tracing::info!("reloaded the certificate of the metrics server"),
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(%error, "failed to reload the certificate of the metrics server; keeping the old one");
                }
            }
        }
    }

    /// Reads the files, and uses their certificate if they have changed. Returns whether they have. After an error the old
    /// certificate stays in use, because a secret may be read while it is being written.
    pub(super) fn reload(&self) -> Result<bool, CertificateError> {
        let Origin::Files { certificate, key } = &self.origin else { return Ok(false) };
        let pem = read(certificate, key)?;
        if self.current.read().unwrap_or_else(PoisonError::into_inner).pem == pem {
            return Ok(false);
        }
        let certified = Arc::new(certified(&pem, certificate, key)?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Current { pem, certified };
        Ok(true)
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner).certified))
    }
}

/// The TLS configuration of the metrics server.
pub(super) fn server_config(
    certificates: Arc<Certificates>,
    enable_http2: bool,
) -> Result<ServerConfig, CertificateError> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(certificates);
    config.alpn_protocols =
        if enable_http2 { vec![b"h2".to_vec(), b"http/1.1".to_vec()] } else { vec![b"http/1.1".to_vec()] };
    Ok(config)
}

fn provider() -> CryptoProvider {
    ring::default_provider()
}

fn read(certificate: &PathBuf, key: &PathBuf) -> Result<Pem, CertificateError> {
    let bytes =
        |path: &PathBuf| std::fs::read(path).map_err(|source| CertificateError::Read { path: path.clone(), source });
    Ok(Pem { certificate: bytes(certificate)?, key: bytes(key)? })
}

fn certified(pem: &Pem, certificate: &PathBuf, key: &PathBuf) -> Result<CertifiedKey, CertificateError> {
    let wrong = |path: &PathBuf, what| {
        let path = path.clone();
        move |source| CertificateError::Pem { path, what, source }
    };
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&pem.certificate)
        .collect::<Result<_, _>>()
        .map_err(wrong(certificate, "certificate"))?;
    if chain.is_empty() {
        return Err(CertificateError::Empty(certificate.clone()));
    }
    let key = PrivateKeyDer::from_pem_slice(&pem.key).map_err(wrong(key, "private key"))?;
    Ok(CertifiedKey::from_der(chain, key, &provider())?)
}

fn self_signed() -> Result<CertifiedKey, CertificateError> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()])?;
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    Ok(CertifiedKey::from_der(vec![made.cert.der().clone()], key, &provider())?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn pair() -> (String, String) {
        let made = rcgen::generate_simple_self_signed(["metrics.flyte".to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    fn leaf(certificates: &Certificates) -> Vec<u8> {
        certificates.current.read().unwrap().certified.cert[0].to_vec()
    }

    #[test]
    fn takes_a_changed_pair_and_keeps_the_old_one_when_the_new_one_is_broken() {
        let directory = tempfile::tempdir().unwrap();
        let (certificate, key) = (directory.path().join("tls.crt"), directory.path().join("tls.key"));
        let (first, first_key) = pair();
        std::fs::write(&certificate, &first).unwrap();
        std::fs::write(&key, &first_key).unwrap();
        let certificates =
            Certificates::load(Origin::Files { certificate: certificate.clone(), key: key.clone() }).unwrap();
        let before = leaf(&certificates);
        assert!(!certificates.reload().unwrap());

        let (second, second_key) = pair();
        std::fs::write(&certificate, &second).unwrap();
        let error = certificates.reload().unwrap_err();
        assert!(matches!(error, CertificateError::Unusable(_)), "certificate and key do not fit: {error}");
        assert_eq!(leaf(&certificates), before);

        std::fs::write(&key, &second_key).unwrap();
        assert!(certificates.reload().unwrap());
        assert_ne!(leaf(&certificates), before);
    }

    #[test]
    fn names_the_file_that_is_wrong() {
        let directory = tempfile::tempdir().unwrap();
        let (certificate, key) = (directory.path().join("tls.crt"), directory.path().join("tls.key"));
        let load = || Certificates::load(Origin::Files { certificate: certificate.clone(), key: key.clone() });
        assert!(load().unwrap_err().to_string().contains("cannot read"));
        std::fs::write(&certificate, "").unwrap();
        std::fs::write(&key, "").unwrap();
        assert!(load().unwrap_err().to_string().ends_with("tls.crt holds no certificate"));
        std::fs::write(&certificate, pair().0).unwrap();
        assert!(load().unwrap_err().to_string().contains("tls.key holds no usable private key"));
    }
}
