//! An HTTP server on loopback that passes every call to a handler.

use std::io;
use std::net::Ipv4Addr;

use axum::Router;
use axum::body::Bytes;
use axum::extract::Path;
use axum::routing::post;
use http::HeaderMap;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::connect::{Refusal, response};
use crate::services::Call;

/// The HTTP server of the local services. It stops when this value is dropped.
#[derive(Debug)]
pub struct Server {
    url: String,
    serving: JoinHandle<io::Result<()>>,
}

impl Server {
    /// Listens on a free port of loopback and answers every call with the outcome of `handler`.
    ///
    /// With a `secret`, the services are below the path `/<secret>`: a process that does not know the secret cannot call
    /// them.
    ///
    /// # Errors
    /// No port is free.
    pub async fn start<H, F>(secret: Option<&str>, handler: H) -> io::Result<Self>
    where
        H: Fn(Call) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<Bytes, Refusal>> + Send + 'static,
    {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (url, routes) = match secret {
            Some(secret) => {
                (format!("http://{address}/{secret}"), Router::new().nest(&format!("/{secret}"), routes(handler)))
            }
            None => (format!("http://{address}"), routes(handler)),
        };
        let serving = tokio::spawn(async move { axum::serve(listener, routes).await });
        Ok(Self { url, serving })
    }

    /// The base address of both services, for the executor's configuration.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn routes<H, F>(handler: H) -> Router
where
    H: Fn(Call) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Result<Bytes, Refusal>> + Send + 'static,
{
    let answer = async move |Path((service, method)): Path<(String, String)>, headers: HeaderMap, body: Bytes| {
        response(handler(Call { procedure: format!("{service}/{method}"), headers, body }).await)
    };
    Router::new().route("/{service}/{method}", post(answer))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::{Arc, Mutex};

    use aileron_idl::flyteidl2::common::ActionIdentifier;
    use aileron_idl::flyteidl2::workflow::{ActionEvent, RecordRequest};
    use axum::body::{Body, to_bytes};
    use http::Request;
    use jiff::Timestamp;
    use prost::Message;
    use tower::ServiceExt;

    use super::*;
    use crate::connect::Code;
    use crate::events::EventStore;
    use crate::services::Services;

    const RECORD_PATH: &str = "/flyteidl2.workflow.EventsProxyService/Record";

    #[derive(Default)]
    struct Attempts(Vec<u32>);

    impl EventStore for Attempts {
        fn store(&mut self, events: Vec<ActionEvent>, _now: Timestamp) -> Result<(), Refusal> {
            self.0.extend(events.iter().map(|event| event.attempt));
            Ok(())
        }
    }

    fn services() -> (Arc<Mutex<Services<Attempts>>>, Router) {
        let services = Arc::new(Mutex::new(Services::new(Attempts::default())));
        let shared = Arc::clone(&services);
        let routes =
            routes(move |call| std::future::ready(shared.lock().unwrap().answer(&call, Timestamp::UNIX_EPOCH)));
        (services, routes)
    }

    async fn send(routes: &Router, path: &str, content_type: &str, body: Vec<u8>) -> (u16, Bytes) {
        let request = Request::post(path).header("content-type", content_type).body(Body::from(body)).unwrap();
        let response = routes.clone().oneshot(request).await.unwrap();
        (response.status().as_u16(), to_bytes(response.into_body(), usize::MAX).await.unwrap())
    }

    fn event() -> Vec<u8> {
        let id = Some(ActionIdentifier { name: "a".to_owned(), ..ActionIdentifier::default() });
        RecordRequest { events: vec![ActionEvent { id, attempt: 1, ..ActionEvent::default() }] }.encode_to_vec()
    }

    #[tokio::test]
    async fn an_event_reaches_the_store() {
        let (services, routes) = services();
        assert_eq!(send(&routes, RECORD_PATH, "application/proto", event()).await.0, 200);
        assert_eq!(services.lock().unwrap().events.0, [1]);
    }

    #[tokio::test]
    async fn a_refusal_is_a_connect_error() {
        let (_, routes) = services();
        let (status, body) =
            send(&routes, "/flyteidl2.cacheservice.v2.CacheService/Get", "application/proto", Vec::new()).await;
        assert_eq!(status, 400);
        let error: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(error["code"], "invalid_argument");
        assert_eq!(error["message"], "base_request.key is required");
    }

    #[tokio::test]
    async fn other_procedures_and_content_types_are_unimplemented() {
        let (_, routes) = services();
        let erase = "/flyteidl2.workflow.EventsProxyService/Erase";
        assert_eq!(send(&routes, erase, "application/proto", event()).await.0, 501);
        assert_eq!(send(&routes, RECORD_PATH, "application/json", b"{}".to_vec()).await.0, 501);
    }

    /// Sends an empty request and returns the status line.
    async fn status_line(address: &str, path: &str) -> String {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer.lines().next().unwrap_or_default().to_owned()
    }

    #[tokio::test]
    async fn a_caller_needs_the_secret() {
        let handler = |_| std::future::ready(Err(Code::PermissionDenied.with_message("the handler was called")));
        let server = Server::start(Some("secret"), handler).await.unwrap();
        let address = server.url().strip_prefix("http://").unwrap().strip_suffix("/secret").unwrap();
        assert_eq!(status_line(address, &format!("/secret{RECORD_PATH}")).await, "HTTP/1.1 403 Forbidden");
        assert_eq!(status_line(address, &format!("/guess{RECORD_PATH}")).await, "HTTP/1.1 404 Not Found");
        assert_eq!(status_line(address, RECORD_PATH).await, "HTTP/1.1 404 Not Found");
    }
}
