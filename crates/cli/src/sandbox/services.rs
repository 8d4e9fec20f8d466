//! The services of a control plane that the executor calls: events and the task cache, both on loopback.
//!
//! Without them nothing would move: the executor shows nobody a state whose event was not taken. Events go to a file, a
//! JSON object on each line; the cache is kept in memory.

mod cache;

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::path::Path as FilePath;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aileron_idl::flyteidl2::workflow::{RecordRequest, RecordResponse};
use aileron_idl::message_to_json;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use jiff::Timestamp;
use prost::Message;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use self::cache::Cache;

const RECORD: (&str, &str) = ("flyteidl2.workflow.EventsProxyService", "Record");
const CACHE: &str = "flyteidl2.cacheservice.v2.CacheService";

/// The services, until dropped.
#[derive(Debug)]
pub struct Services {
    url: String,
    serving: JoinHandle<io::Result<()>>,
}

/// Why a call is refused, in the terms of the Connect protocol.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Invalid(String),
    NotFound(String),
    AlreadyExists(String),
    Unimplemented(String),
    Internal(String),
}

#[derive(Debug)]
struct Books {
    events: File,
    cache: Cache,
}

impl Services {
    /// Serves on loopback, below a path that only those know who are told.
    pub async fn start(events: &FilePath, secret: &str) -> io::Result<Self> {
        let events = OpenOptions::new().create(true).append(true).open(events)?;
        let books = Arc::new(Mutex::new(Books { events, cache: Cache::default() }));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let url = format!("http://{}/{secret}", listener.local_addr()?);
        let routes = Router::new().route("/{service}/{method}", post(answer)).with_state(books);
        let routes = Router::new().nest(&format!("/{secret}"), routes);
        let serving = tokio::spawn(async move { axum::serve(listener, routes).await });
        Ok(Self { url, serving })
    }

    /// Where both services are.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Services {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Refusal {
    fn on_the_wire(self) -> (StatusCode, &'static str, String) {
        match self {
            Self::Invalid(message) => (StatusCode::BAD_REQUEST, "invalid_argument", message),
            Self::NotFound(message) => (StatusCode::NOT_FOUND, "not_found", message),
            Self::AlreadyExists(message) => (StatusCode::CONFLICT, "already_exists", message),
            Self::Unimplemented(message) => (StatusCode::NOT_IMPLEMENTED, "unimplemented", message),
            Self::Internal(message) => (StatusCode::INTERNAL_SERVER_ERROR, "internal", message),
        }
    }
}

impl Books {
    fn record(&mut self, body: &Bytes) -> Result<Bytes, Refusal> {
        let request: RecordRequest = decode(body)?;
        let mut lines = Vec::new();
        for event in &request.events {
            let event = message_to_json(event).map_err(|error| Refusal::Internal(error.to_string()))?;
            writeln!(lines, "{event}").map_err(|error| Refusal::Internal(error.to_string()))?;
        }
        self.events.write_all(&lines).map_err(|error| Refusal::Internal(error.to_string()))?;
        Ok(encode(&RecordResponse {}))
    }
}

async fn answer(
    State(books): State<Arc<Mutex<Books>>>,
    Path((service, method)): Path<(String, String)>,
    body: Bytes,
) -> Response {
    let outcome = match (service.as_str(), method.as_str()) {
        RECORD => lock(&books).record(&body),
        (CACHE, method) => lock(&books).cache.call(method, &body, Timestamp::now()),
        _ => Err(Refusal::Unimplemented(format!("{service}/{method}"))),
    };
    match outcome {
        Ok(body) => ([(CONTENT_TYPE, "application/proto")], body).into_response(),
        Err(refusal) => {
            let (status, code, message) = refusal.on_the_wire();
            (status, axum::Json(json!({"code": code, "message": message}))).into_response()
        }
    }
}

fn lock(books: &Mutex<Books>) -> MutexGuard<'_, Books> {
    books.lock().unwrap_or_else(PoisonError::into_inner)
}

fn decode<M: Message + Default>(body: &Bytes) -> Result<M, Refusal> {
    M::decode(body.as_ref()).map_err(|error| Refusal::Invalid(error.to_string()))
}

fn encode(message: &impl Message) -> Bytes {
    message.encode_to_vec().into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use aileron_executor::services::connect::{ConnectClient, ConnectOptions};
    use aileron_idl::flyteidl2::workflow::ActionEvent;

    use super::*;

    #[tokio::test]
    async fn events_are_kept_a_line_each() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.jsonl");
        let services = Services::start(&path, "secret").await.unwrap();
        let client = ConnectClient::new(services.url(), ConnectOptions::default()).unwrap();
        let request =
            RecordRequest { events: [1, 2].map(|attempt| ActionEvent { attempt, ..Default::default() }).into() };
        let procedure = "flyteidl2.workflow.EventsProxyService/Record";
        let RecordResponse {} = client.call(procedure, &request).await.unwrap();
        let text = std::fs::read_to_string(path).unwrap();
        let attempts: Vec<_> = text
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["attempt"].clone())
            .collect();
        assert_eq!(attempts, [1, 2]);

        let stranger = services.url().replace("secret", "guess");
        let stranger = ConnectClient::new(&stranger, ConnectOptions::default()).unwrap();
        assert!(stranger.call::<_, RecordResponse>(procedure, &request).await.is_err());
    }
}
