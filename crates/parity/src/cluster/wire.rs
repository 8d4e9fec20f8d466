//! The network between a client and a server. It can swallow all bytes while connections stay open, as a firewall does
//! that has forgotten them: neither side is told.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use kube::Client;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::locked;
use super::proxy::client_of;

/// Forwards connections until dropped.
#[derive(Debug)]
pub struct Wire {
    url: String,
    state: Arc<WireState>,
    _stop: DropGuard,
}

#[derive(Debug)]
struct WireState {
    server: SocketAddr,
    swallows: AtomicBool,
    /// Closes all connections that are open now.
    reset: Mutex<CancellationToken>,
}

impl Wire {
    /// Starts to forward connections to a server with an address of the form `http://<ip>:<port>`.
    ///
    /// # Errors
    /// No port is free, or the address has another form.
    pub async fn start(server: &str) -> Result<Self> {
        let server = server.trim_start_matches("http://").parse().with_context(|| format!("{server} has no port"))?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("listening on loopback")?;
        let url = format!("http://{}", listener.local_addr()?);
        let state = Arc::new(WireState { server, swallows: AtomicBool::new(false), reset: Mutex::default() });
        let stop = CancellationToken::new();
        tokio::spawn(stop.clone().run_until_cancelled_owned(accept(listener, Arc::clone(&state))));
        Ok(Self { url, state, _stop: stop.drop_guard() })
    }

    /// A client whose requests go through here. It does not retry.
    ///
    /// # Errors
    /// The client cannot be created.
    pub fn client(&self) -> Result<Client> {
        client_of(&self.url)
    }

    /// From now on all bytes in both directions are lost, on open connections and on new ones.
    pub fn swallow(&self) {
        self.state.swallows.store(true, Ordering::SeqCst);
    }

    /// Closes all connections, and forwards new ones again.
    pub fn reset(&self) {
        self.state.swallows.store(false, Ordering::SeqCst);
        std::mem::take(&mut *locked(&self.state.reset)).cancel();
    }
}

async fn accept(listener: TcpListener, state: Arc<WireState>) {
    while let Ok((client, _)) = listener.accept().await {
        let (state, reset) = (Arc::clone(&state), locked(&state.reset).clone());
        tokio::spawn(reset.run_until_cancelled_owned(carry(client, state)));
    }
}

async fn carry(client: TcpStream, state: Arc<WireState>) {
    let Ok(server) = TcpStream::connect(state.server).await else { return };
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    tokio::select! {
        () = copy(from_client, to_server, &state) => {}
        () = copy(from_server, to_client, &state) => {}
    }
}

/// Copies until one side closes the connection. Once bytes were swallowed the connection is of no use: it stays open, and
/// nothing passes any more.
async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, state: &WireState) {
    let mut buffer = vec![0; 16 * 1024];
    let mut is_dead = false;
    loop {
        let length = from.read(&mut buffer).await.unwrap_or(0);
        is_dead |= state.swallows.load(Ordering::SeqCst);
        if length == 0 && is_dead {
            std::future::pending::<()>().await;
        }
        if length == 0 || (!is_dead && to.write_all(&buffer[..length]).await.is_err()) {
            return;
        }
    }
}
