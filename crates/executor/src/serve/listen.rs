//! Accepts connections, with or without TLS, and serves HTTP on them until shutdown.

use std::pin::pin;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Whether connections use TLS.
#[derive(Clone)]
pub(super) enum Transport {
    /// No TLS, HTTP/1.1 only.
    Plain,
    /// TLS. The offered protocols are in the configuration of the acceptor.
    Tls(TlsAcceptor),
}

/// The protocol of a connection. HTTP/2 is used only if it was negotiated with ALPN.
#[derive(Clone, Copy)]
enum Protocol {
    Http1,
    Http2,
}

/// The timeout of the TLS handshake and of the request headers. The servers of controller-runtime wait as long for headers.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(32);

/// Open requests get this long to finish when the server stops. Answers take milliseconds, and Kubernetes gives a pod 30 s
/// to terminate.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// The pause after a failed accept. The likely cause is that file descriptors are used up; without a pause this would be a
/// busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

/// Serves connections until cancelled.
pub(super) async fn serve(listener: TcpListener, router: Router, transport: Transport, stop: CancellationToken) {
    let connections = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                let (router, transport, stop) = (router.clone(), transport.clone(), stop.clone());
                connections.spawn(async move {
                    match transport {
                        Transport::Plain => answer(stream, Protocol::Http1, router, stop).await,
                        Transport::Tls(acceptor) => {
                            match tokio::time::timeout(CLIENT_TIMEOUT, acceptor.accept(stream)).await {
                                Ok(Ok(stream)) => {
                                    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                                    let protocol = if is_http2 { Protocol::Http2 } else { Protocol::Http1 };
                                    answer(stream, protocol, router, stop).await;
                                }
                                Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
                                Err(_) => tracing::debug!("TLS handshake timed out"),
                            }
                        }
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "failed to accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    connections.close();
    if tokio::time::timeout(DRAIN_TIMEOUT, connections.wait()).await.is_err() {
        tracing::warn!(open = connections.len(), "closing connections that did not finish in time");
    }
}

async fn answer(
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
    protocol: Protocol,
    router: Router,
    stop: CancellationToken,
) {
    let builder = Builder::new(TokioExecutor::new());
    let mut builder = match protocol {
        Protocol::Http1 => builder.http1_only(),
        Protocol::Http2 => builder.http2_only(),
    };
    builder.http1().timer(TokioTimer::new()).header_read_timeout(CLIENT_TIMEOUT);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(CLIENT_TIMEOUT);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(error, "connection ended early");
    }
}
