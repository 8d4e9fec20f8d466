//! The HTTP servers of the executor, for health probes and metrics.
//!
//! [`Endpoints::bind`] opens the sockets, so that the executor does not start if an address is in use. [`Endpoints::run`]
//! serves requests until it is cancelled. The webhook that injects secrets into pods is a separate server.

mod access;
mod address;
mod certificate;
mod health;
mod listen;
mod metrics;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use aileron_config::sections::executor::ExecutorConfig;
use axum::Router;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::caches::readiness::Readiness;

pub use address::{AddressError, BindAddress};
pub use certificate::CertificateError;
pub use metrics::{RecorderError, install_recorder};

use self::access::Access;
use self::certificate::{Certificates, Origin};
use self::listen::Transport;

/// Why a server could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The configured address is not valid.
    #[error("{key}: {source}")]
    Address {
        /// The configuration key.
        key: &'static str,
        /// What is wrong with it.
        source: AddressError,
    },
    /// The socket cannot be opened.
    #[error(
        "{key}: cannot listen on {address}: {source}; free the port, choose another one, or switch it off with \"0\""
    )]
    Bind {
        /// The configuration key.
        key: &'static str,
        /// The address.
        address: BindAddress,
        /// The cause.
        source: std::io::Error,
    },
    /// The certificate of the metrics server cannot be used.
    #[error("executor.metricsSecure: {0}; name a certificate with executor.metricsCertPath, or set it to false")]
    Certificate(#[from] CertificateError),
}

/// The servers, with open sockets. They do not answer requests yet.
pub struct Endpoints {
    health: Option<Server>,
    metrics: Option<Server>,
    certificates: Option<Arc<Certificates>>,
    recorded: PrometheusHandle,
}

struct Server {
    listener: TcpListener,
    address: SocketAddr,
    router: Router,
    transport: Transport,
}

const HEALTH_KEY: &str = "executor.healthProbeBindAddress";
const METRICS_KEY: &str = "executor.metricsBindAddress";

impl Endpoints {
    /// Opens the sockets that the configuration names.
    ///
    /// The client is used to ask the API server who may read metrics, and only if metrics are served by HTTPS.
    ///
    /// # Differs from upstream
    ///
    /// An empty `executor.metricsBindAddress` switches metrics off, as it does for probes; upstream falls back to
    /// `:8080`.
    pub async fn bind(
        config: &ExecutorConfig,
        readiness: Readiness,
        recorded: PrometheusHandle,
        client: kube::Client,
    ) -> Result<Self, ServeError> {
        let health = open(HEALTH_KEY, &config.health_probe_bind_address).await?;
        let health = health.map(|(listener, address)| Server {
            listener,
            address,
            router: health::router(readiness),
            transport: Transport::Plain,
        });
        let mut certificates = None;
        let metrics = match open(METRICS_KEY, &config.metrics_bind_address).await? {
            Some((listener, address)) if config.metrics_secure => {
                let current = Arc::new(Certificates::load(certificate_origin(config))?);
                let tls = certificate::server_config(Arc::clone(&current), config.enable_http2)?;
                certificates = Some(current);
                let router = metrics::router(recorded.clone(), Some(Access::new(client)));
                Some(Server { listener, address, router, transport: Transport::Tls(TlsAcceptor::from(Arc::new(tls))) })
            }
            Some((listener, address)) => {
                let router = metrics::router(recorded.clone(), None);
                Some(Server { listener, address, router, transport: Transport::Plain })
            }
            None => None,
        };
        Ok(Self { health, metrics, certificates, recorded })
    }

    /// The address of the server for health probes; `None` if it is disabled.
    #[must_use]
    pub fn health_address(&self) -> Option<SocketAddr> {
        self.health.as_ref().map(|server| server.address)
    }

    /// The address of the server for metrics; `None` if it is disabled.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(|server| server.address)
    }

    /// Serves requests until cancelled, then waits for open requests.
    pub async fn run(self, stop: CancellationToken) {
        let answer = |server: Option<Server>| async {
            if let Some(Server { listener, router, transport, .. }) = server {
                listen::serve(listener, router, transport, stop.clone()).await;
            }
        };
        let renew = async {
            if let Some(certificates) = &self.certificates {
                certificates.follow(&stop).await;
            }
        };
        tokio::join!(answer(self.health), answer(self.metrics), renew, metrics::upkeep(&self.recorded, &stop));
    }
}

/// Settings with which the servers cannot be started: keys of the `executor` section, and what is wrong. No socket is opened.
pub fn unusable_settings(config: &ExecutorConfig) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    let mut address = |key: &'static str, text: &str| match text.parse::<BindAddress>() {
        Ok(address) => address,
        Err(error) => {
            found.push((key, error.to_string()));
            BindAddress::Disabled
        }
    };
    let health = address("healthProbeBindAddress", &config.health_probe_bind_address);
    let metrics = address("metricsBindAddress", &config.metrics_bind_address);
    if health.overlaps(&metrics) {
        let message = format!("{metrics} is already used by {HEALTH_KEY} ({health}); choose another port");
        found.push(("metricsBindAddress", message));
    }
    if config.metrics_secure
        && metrics != BindAddress::Disabled
        && let origin @ Origin::Files { .. } = certificate_origin(config)
        && let Err(error) = Certificates::load(origin)
    {
        let message = format!("{error}; name the directory of a certificate, or set executor.metricsSecure to false");
        found.push(("metricsCertPath", message));
    }
    found
}

async fn open(key: &'static str, text: &str) -> Result<Option<(TcpListener, SocketAddr)>, ServeError> {
    let address: BindAddress = text.parse().map_err(|source| ServeError::Address { key, source })?;
    let bound = match address.listen().await {
        Ok(None) => return Ok(None),
        Ok(Some(listener)) => listener.local_addr().map(|local| (listener, local)),
        Err(error) => Err(error),
    };
    bound.map(Some).map_err(|source| ServeError::Bind { key, address, source })
}

fn certificate_origin(config: &ExecutorConfig) -> Origin {
    if config.metrics_cert_path.is_empty() {
        return Origin::SelfSigned;
    }
    let directory = Path::new(&config.metrics_cert_path);
    Origin::Files {
        certificate: directory.join(&config.metrics_cert_name),
        key: directory.join(&config.metrics_cert_key),
    }
}

#[cfg(test)]
mod tests;
