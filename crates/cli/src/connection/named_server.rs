//! A client whose connection errors name the server.

use anyhow::Context;
use http::Uri;
use kube::client::ClientBuilder;
use kube::{Client, Config};
use tower::BoxError;
use tower::util::MapErrLayer;

/// The request did not get an answer.
#[derive(Debug, thiserror::Error)]
#[error("the request to the API server {server} failed")]
struct RequestFailed {
    server: String,
    #[source]
    source: BoxError,
}

/// A client of the cluster, with the retries of the client library.
pub fn client(config: Config) -> anyhow::Result<Client> {
    let layer = MapErrLayer::new(name_server(&config.cluster_url));
    let builder = ClientBuilder::try_from(config).context("cannot create a client of the cluster")?;
    Ok(builder.with_layer(&layer).build())
}

/// Adds the server to an error. Errors of the client library itself, such as credentials that cannot be used, stay as they are.
pub fn name_server(url: &Uri) -> impl Fn(BoxError) -> BoxError + Clone + Send + Sync + 'static {
    let server = address(url);
    move |source| {
        if source.is::<kube::Error>() { source } else { RequestFailed { server: server.clone(), source }.into() }
    }
}

/// The address of a server for messages, without path and credentials: the address of a sandbox contains its token.
pub fn address(url: &Uri) -> String {
    let scheme = url.scheme_str().unwrap_or("https");
    let host = url.host().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{scheme}://{host}:{port}"),
        None => format!("{scheme}://{host}"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use aileron_executor::cluster::request_error_text;

    use super::*;

    #[tokio::test]
    async fn a_connection_error_names_the_server_and_no_token() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let mut config = Config::new(format!("{server}/secret-token").parse().unwrap());
        config.default_retry = false;
        for client in [client(config.clone()).unwrap(), super::super::keep_alive::client(config).unwrap()] {
            let text = request_error_text(&client.apiserver_version().await.unwrap_err());
            assert!(text.starts_with(&format!("the request to the API server {server} failed: ")), "{text}");
            assert!(text.contains("onnection refused") && !text.contains("secret-token"), "{text}");
        }
    }
}
