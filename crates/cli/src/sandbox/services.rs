//! The control-plane services of the sandbox: events go to a file, the task cache is in memory.
//!
//! The executor needs the events service: it records a new state in the status of an action only after the events service
//! has accepted the event about it.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use aileron_flyte_local::{EventsFile, Server, Services};
use jiff::Timestamp;

/// The running services. They stop when this value is dropped.
#[derive(Debug)]
pub struct LocalServices {
    server: Server,
}

impl LocalServices {
    /// Starts both services on loopback, below a secret path. Events are appended to the file `events`.
    pub async fn start(events: &Path, secret: &str) -> io::Result<Self> {
        let services = Arc::new(Mutex::new(Services::new(EventsFile::open(events)?)));
        let server = Server::start(Some(secret), move |call| {
            let mut services = services.lock().unwrap_or_else(PoisonError::into_inner);
            std::future::ready(services.answer(&call, Timestamp::now()))
        });
        Ok(Self { server: server.await? })
    }

    /// The base address of both services.
    pub fn url(&self) -> &str {
        self.server.url()
    }
}
