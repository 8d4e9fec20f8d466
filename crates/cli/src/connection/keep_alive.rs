//! A client that notices a connection that was lost without notice.
//!
//! A firewall or a load balancer may forget a connection without telling either side. The operating system then repeats
//! unacknowledged data for up to 15 minutes, and a connection that only receives, such as a watch, never learns of it.

use std::time::Duration;

use anyhow::Context;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ClientBuilder, ConfigExt};
use kube::{Client, Config};
use tower::{BoxError, ServiceBuilder};

use super::named_server;

/// After this long without data, the operating system asks the other side for a sign of life.
const IDLE: Duration = Duration::from_secs(20);
/// The time between two such questions.
const INTERVAL: Duration = Duration::from_secs(10);
/// The connection is closed after this many questions without an answer, together about 50 s.
const RETRIES: u32 = 3;
/// How long sent data may stay without acknowledgement. As long as the questions take together.
const UNACKNOWLEDGED: Duration = Duration::from_secs(50);
/// How long a new connection may take. The API server is near.
const CONNECT: Duration = Duration::from_secs(10);

/// A client of the executor's cluster. It sends each request once: see [`super::kubeconfig::executor_client`].
pub fn client(config: Config) -> anyhow::Result<Client> {
    if config.proxy_url.is_some() {
        // The connection to a proxy is made by the client library.
        return named_server::client(config);
    }
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_keepalive(Some(IDLE));
    connector.set_keepalive_interval(Some(INTERVAL));
    connector.set_keepalive_retries(Some(RETRIES));
    #[cfg(target_os = "linux")]
    connector.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
    connector.set_connect_timeout(Some(CONNECT));
    let connector =
        config.rustls_https_connector_with_connector(connector).context("the credentials of the cluster")?;
    let client: legacy::Client<_, Body> = legacy::Client::builder(TokioExecutor::new()).build(connector);
    let service = ServiceBuilder::new()
        .map_err(named_server::name_server(&config.cluster_url))
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().context("the credentials of the cluster")?)
        .layer(config.extra_headers_layer().context("the headers for the cluster")?)
        .map_err(BoxError::from)
        .service(client);
    Ok(ClientBuilder::new(service, config.default_namespace).build())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #![allow(clippy::unwrap_used)]

    use k8s_openapi::api::core::v1::Pod;
    use kube::Api;
    use kube::api::WatchParams;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// In the table of connections, the timer of a connection that is idle and watched over has this number.
    const KEEP_ALIVE_TIMER: &str = "02:";

    #[tokio::test]
    async fn an_idle_watch_is_watched_over_by_the_operating_system() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = tokio::spawn(async move {
            let (mut connection, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            let length = connection.read(&mut request).await.unwrap();
            assert!(request[..length].starts_with(b"GET /api/v1/pods?"));
            connection.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await.unwrap();
            connection
        });
        let config = Config::new(format!("http://127.0.0.1:{port}").parse().unwrap());
        let pods: Api<Pod> = Api::all(client(config).unwrap());
        let _changes = pods.watch(&WatchParams::default(), "1").await.unwrap();
        let _connection = server.await.unwrap();
        // The remote address is the third column, the timer the sixth.
        let remote = format!("0100007F:{port:04X}");
        let is_watched_over = || {
            let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
            let columns = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            table.lines().map(columns).any(|row| row[2] == remote && row[5].starts_with(KEEP_ALIVE_TIMER))
        };
        while !is_watched_over() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
