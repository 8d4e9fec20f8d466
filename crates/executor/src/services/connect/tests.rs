#![allow(clippy::unwrap_used, clippy::panic)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::Bytes;
use axum::extract::ConnectInfo;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use axum::routing::post;
use prost_types::Duration as Payload;
use tokio_util::sync::CancellationToken;

use super::*;

async fn serve(router: Router) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await.unwrap() });
    format!("http://{address}")
}

fn client(base: &str) -> ConnectClient {
    ConnectClient::new(base, ConnectOptions::default()).unwrap()
}

async fn failing(status: StatusCode, body: &'static str) -> ConnectError {
    let base = serve(Router::new().route("/pkg.S/M", post(move || async move { (status, body) }))).await;
    client(&base).call::<_, Payload>("pkg.S/M", &Payload::default()).await.unwrap_err()
}

#[tokio::test]
async fn carries_messages_and_headers_over_one_connection() {
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let peers = seen.clone();
    let echo = post(move |ConnectInfo(peer): ConnectInfo<SocketAddr>, headers: HeaderMap, body: Bytes| async move {
        peers.lock().unwrap().push(peer);
        assert_eq!(headers["content-type"], "application/proto");
        assert_eq!(headers["connect-protocol-version"], "1");
        assert_eq!(headers["connect-timeout-ms"], "30000");
        ([("content-type", "application/proto")], body).into_response()
    });
    // A base address with a path keeps it.
    let base = serve(Router::new().route("/api/pkg.Service/Method", echo)).await;
    let client = client(&format!("{base}/api"));
    let request = Payload { seconds: 7, nanos: 9 };
    for _ in 0..3 {
        let answer: Payload = client.call("pkg.Service/Method", &request).await.unwrap();
        assert_eq!(answer, request);
    }
    let seen = seen.lock().unwrap();
    assert!(seen.iter().all(|peer| *peer == seen[0]), "connections are kept: {seen:?}");
}

#[tokio::test]
async fn reads_the_error_of_the_service() {
    let error = failing(StatusCode::NOT_FOUND, r#"{"code":"not_found","message":"no such key","details":[]}"#).await;
    assert_eq!(error, ConnectError::new(Code::NotFound, "no such key"));
    // A code nobody knows falls back to the status.
    let error = failing(StatusCode::SERVICE_UNAVAILABLE, r#"{"code":"tired"}"#).await;
    assert_eq!(error.code, Code::Unavailable);
}

#[tokio::test]
async fn reads_the_status_of_something_else() {
    let error = failing(StatusCode::BAD_GATEWAY, "<html>upstream down</html>").await;
    assert_eq!(error.code, Code::Unavailable);
    assert!(error.message.contains("502") && error.message.contains("upstream down"), "{error}");
    assert!(error.message.starts_with("http://127.0.0.1:"), "the server is named: {error}");
    assert_eq!(failing(StatusCode::NOT_FOUND, "").await.code, Code::Unimplemented);
    // A page with status 200 is not an empty answer.
    assert_eq!(failing(StatusCode::OK, "<html>welcome</html>").await.code, Code::Internal);
}

#[tokio::test]
async fn unreachable_is_unavailable() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = client(&base).call::<_, Payload>("pkg.S/M", &Payload::default()).await.unwrap_err();
    assert_eq!(error.code, Code::Unavailable);
    assert!(error.message.to_lowercase().contains("refused"), "the reason is kept: {error}");
    assert!(error.message.starts_with(&base), "the server is named: {error}");
}

#[tokio::test]
async fn slow_is_deadline_exceeded_and_dropping_ends_the_exchange() {
    let closed = CancellationToken::new();
    let guarded = closed.clone();
    let slow = post(move || async move {
        // The handler never ends by itself: this is dropped when the server sees the connection close.
        let _guard = guarded.drop_guard();
        std::future::pending::<()>().await;
    });
    let base = serve(Router::new().route("/pkg.S/M", slow)).await;
    let timeout = Duration::from_millis(50);
    let error = client(&base).call_within::<_, Payload>("pkg.S/M", &Payload::default(), timeout).await.unwrap_err();
    assert_eq!(error.code, Code::DeadlineExceeded);
    tokio::time::timeout(Duration::from_secs(120), closed.cancelled())
        .await
        .expect("the server sees the connection close");
}

#[tokio::test]
async fn refuses_an_answer_beyond_the_limit() {
    let big = post(|| async { ([("content-type", "application/proto")], vec![0_u8; 5000]) });
    let base = serve(Router::new().route("/pkg.S/M", big)).await;
    let options = ConnectOptions { max_response_bytes: 4096, ..ConnectOptions::default() };
    let client = ConnectClient::new(&base, options).unwrap();
    let error = client.call::<_, Payload>("pkg.S/M", &Payload::default()).await.unwrap_err();
    assert_eq!(error.code, Code::ResourceExhausted);
}

#[test]
fn explains_a_bad_address() {
    for address in ["localhost:8090", "ftp://x", ""] {
        let error = ConnectClient::new(address, ConnectOptions::default()).unwrap_err();
        assert!(error.to_string().contains("http://host:port"), "{error}");
    }
}

#[test]
fn names_are_a_bijection() {
    for code in Code::ALL {
        assert_eq!(Code::from_name(code.name()), Some(code));
    }
    assert_eq!(Code::from_name("ok"), None);
}

#[tokio::test]
async fn a_service_that_hung_is_noticed_when_it_answers_again() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let service = post(move |body: Bytes| async move {
        // The first request was accepted while the service hung, and is never answered.
        if counted.fetch_add(1, Ordering::SeqCst) == 0 {
            std::future::pending::<()>().await;
        }
        ([("content-type", "application/proto")], body).into_response()
    });
    let base = serve(Router::new().route("/pkg.S/M", service)).await;
    let request = Payload { seconds: 7, nanos: 9 };
    let timeout = Duration::from_secs(600);
    let answer: Payload = client(&base).call_within("pkg.S/M", &request, timeout).await.unwrap();
    assert_eq!((answer, calls.load(Ordering::SeqCst)), (request, 2));
}
