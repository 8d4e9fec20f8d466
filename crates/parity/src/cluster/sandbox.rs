//! The sandbox's API server on loopback, with users and a record of requests. It can be stopped like a killed process.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use aileron_apiserver::{ApiServer, Options};
use anyhow::{Context, Result};
use axum::middleware;
use tokio_util::sync::CancellationToken;

use super::journal::{self, Journal};
use super::process::Process;
use super::{POLL_INTERVAL, locked};

/// How long a restart waits for its port, which another program may use for a moment.
const PORT_TIMEOUT: Duration = Duration::from_secs(60);

/// The server and the thread that serves it.
#[derive(Debug)]
pub(super) struct Sandbox {
    server: ApiServer,
    address: SocketAddr,
    journal: Arc<Journal>,
    serving: Mutex<Option<ServerThread>>,
    /// Removes the directory if this process is killed or never drops this value.
    _guard: Process,
}

/// A thread with its own runtime. All connections end with it at once, and it does not depend on the runtime of a test,
/// which may end earlier.
#[derive(Debug)]
struct ServerThread {
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Sandbox {
    pub(super) fn start(dir: &Path, controllers: bool) -> Result<Self> {
        let guard = ["tail", "-f", "/dev/null"].map(str::to_owned);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("listening on loopback")?;
        let sandbox = Self {
            server: ApiServer::new(Options { controllers, ..Options::default() }),
            address: listener.local_addr()?,
            journal: Arc::default(),
            serving: Mutex::default(),
            _guard: Process::spawn(dir, "guard", &guard)?,
        };
        sandbox.serve(listener)?;
        Ok(sandbox)
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) fn server(&self) -> &ApiServer {
        &self.server
    }

    pub(super) fn journal(&self) -> &Arc<Journal> {
        &self.journal
    }

    /// Ends all connections and frees the port.
    pub(super) fn stop(&self) {
        locked(&self.serving).take();
    }

    /// Serves again with the same objects. The history of changes is dropped, as a real server's watch cache is empty after
    /// a restart.
    pub(super) async fn resume(&self) -> Result<()> {
        let begin = Instant::now();
        let listener = loop {
            match TcpListener::bind(self.address) {
                Err(_) if begin.elapsed() < PORT_TIMEOUT => tokio::time::sleep(POLL_INTERVAL).await,
                outcome => break outcome.with_context(|| format!("listening on {} again", self.address))?,
            }
        };
        self.server.store().compact();
        self.serve(listener)
    }

    fn serve(&self, listener: TcpListener) -> Result<()> {
        let router =
            self.server.router().layer(middleware::from_fn_with_state(Arc::clone(&self.journal), journal::record));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        listener.set_nonblocking(true)?;
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let serve = move || {
            runtime.block_on(async {
                let served = async { axum::serve(tokio::net::TcpListener::from_std(listener)?, router).await };
                if let Some(Err(error)) = stopped.run_until_cancelled(served).await {
                    tracing::warn!(%error, "the sandbox's API server stopped");
                }
            });
        };
        let thread = thread::Builder::new().name("sandbox-api".to_owned()).spawn(serve)?;
        *locked(&self.serving) = Some(ServerThread { stop, thread: Some(thread) });
        Ok(())
    }
}

impl Drop for ServerThread {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            // A panicked thread has released its port and connections too.
            let _ = thread.join();
        }
    }
}
