//! Connections: accepted, encrypted if wanted, and ended in good order.

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

/// How bytes travel.
#[derive(Clone)]
pub(super) enum Transport {
    /// As they are, HTTP/1.1 only.
    Plain,
    /// Encrypted; the protocols offered are in the acceptor's configuration.
    Tls(TlsAcceptor),
}

/// What is spoken on a connection. HTTP/2 must have been agreed on: a peer that just begins with it is refused.
#[derive(Clone, Copy)]
enum Protocol {
    Http1,
    Http2,
}

/// A peer that says nothing for this long is not a client; controller-runtime's servers wait as long for headers.
const PATIENCE: Duration = Duration::from_secs(32);

/// Open requests get this long to end once the server stops. Answers take milliseconds, and a pod has 30 s in all.
const DRAIN: Duration = Duration::from_secs(5);

/// Pause after the system refused a connection, most likely because file handles ran out: not a busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

/// Answers connections until told to stop.
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
                        Transport::Tls(acceptor) => match tokio::time::timeout(PATIENCE, acceptor.accept(stream)).await
                        {
                            Ok(Ok(stream)) => {
                                let agreed = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                                let protocol = if agreed { Protocol::Http2 } else { Protocol::Http1 };
                                answer(stream, protocol, router, stop).await;
                            }
                            Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
                            Err(_) => tracing::debug!("TLS handshake took too long"),
                        },
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    connections.close();
    if tokio::time::timeout(DRAIN, connections.wait()).await.is_err() {
        tracing::warn!(open = connections.len(), "connections still open at the end are dropped");
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
    builder.http1().timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(PATIENCE);
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
