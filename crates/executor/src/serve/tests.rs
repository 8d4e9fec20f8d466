#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Json;
use axum::routing::post;
use http::StatusCode;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusRecorder};
use serde_json::{Value, json};

use super::*;

/// An API server that knows one scraper and one stranger.
fn api(asked: &Arc<AtomicUsize>) -> kube::Client {
    let count = Arc::clone(asked);
    let tokens = post(move |Json(mut review): Json<Value>| async move {
        count.fetch_add(1, Ordering::Relaxed);
        let user = match review["spec"]["token"].as_str().unwrap() {
            "scraper-token" => json!({"username": "scraper", "groups": ["readers"]}),
            "stranger-token" => json!({"username": "stranger"}),
            _ => Value::Null,
        };
        review["status"] = json!({"authenticated": !user.is_null()});
        if !user.is_null() {
            review["status"]["user"] = user;
        }
        Json(review)
    });
    let accesses = post(|Json(mut review): Json<Value>| async move {
        let expected = json!({"path": "/metrics", "verb": "get"});
        let allowed = review["spec"]["groups"] == json!(["readers"])
            && review["spec"]["user"] == "scraper"
            && review["spec"]["nonResourceAttributes"] == expected;
        review["status"] = json!({"allowed": allowed});
        Json(review)
    });
    let router = Router::new()
        .route("/apis/authentication.k8s.io/v1/tokenreviews", tokens)
        .route("/apis/authorization.k8s.io/v1/subjectaccessreviews", accesses);
    kube::Client::new(router, "default")
}

fn recorder() -> PrometheusRecorder {
    let recorder = PrometheusBuilder::new().build_recorder();
    ::metrics::with_local_recorder(&recorder, || ::metrics::counter!("rounds").increment(7));
    recorder
}

fn config() -> ExecutorConfig {
    ExecutorConfig {
        health_probe_bind_address: "127.0.0.1:0".into(),
        metrics_bind_address: "127.0.0.1:0".into(),
        ..ExecutorConfig::default()
    }
}

fn browser() -> reqwest::Client {
    // Another test may have been first; the provider is the same.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().tls_danger_accept_invalid_certs(true).build().unwrap()
}

struct Running {
    health: String,
    metrics: String,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

async fn start(config: &ExecutorConfig, readiness: Readiness, client: kube::Client) -> Running {
    let endpoints = Endpoints::bind(config, readiness, recorder().handle(), client).await.unwrap();
    let scheme = if config.metrics_secure { "https" } else { "http" };
    let health = format!("http://{}", endpoints.health_address().unwrap());
    let metrics = format!("{scheme}://{}/metrics", endpoints.metrics_address().unwrap());
    let stop = CancellationToken::new();
    let task = tokio::spawn(endpoints.run(stop.clone()));
    Running { health, metrics, stop, task }
}

async fn get(url: &str) -> (StatusCode, String) {
    let answer = browser().get(url).send().await.unwrap();
    (answer.status(), answer.text().await.unwrap())
}

#[tokio::test]
async fn probes_tell_alive_from_ready_and_say_what_is_missing() {
    let readiness = Readiness::new();
    let running = start(&config(), readiness.clone(), api(&Arc::default())).await;
    assert_eq!(get(&format!("{}/healthz", running.health)).await, (StatusCode::OK, "ok".into()));
    let ready = format!("{}/readyz", running.health);
    assert_eq!(get(&ready).await, (StatusCode::SERVICE_UNAVAILABLE, "starting\nreadyz check failed\n".into()));

    readiness.set("taskactions", false);
    readiness.set("pods", true);
    let missing = "[-]taskactions not ready\nreadyz check failed\n";
    assert_eq!(get(&ready).await, (StatusCode::SERVICE_UNAVAILABLE, missing.into()));

    readiness.set("taskactions", true);
    assert_eq!(get(&ready).await, (StatusCode::OK, "ok".into()));
    let all = "[+]pods ok\n[+]taskactions ok\nreadyz check passed\n";
    assert_eq!(get(&format!("{ready}?verbose")).await, (StatusCode::OK, all.into()));
}

#[tokio::test]
async fn plain_metrics_are_open_to_everybody() {
    let asked = Arc::default();
    let running = start(&ExecutorConfig { metrics_secure: false, ..config() }, Readiness::new(), api(&asked)).await;
    let (status, page) = get(&running.metrics).await;
    assert_eq!(status, StatusCode::OK);
    assert!(page.contains("# TYPE rounds counter\nrounds 7\n"), "{page}");
    assert_eq!(asked.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn secure_metrics_are_shown_to_those_the_api_server_allows_and_it_is_asked_once() {
    let asked = Arc::default();
    let running = start(&config(), Readiness::new(), api(&asked)).await;
    let browser = browser();
    assert_eq!(get(&running.metrics).await.0, StatusCode::UNAUTHORIZED, "no token");
    assert_eq!(asked.load(Ordering::Relaxed), 0);

    let status = async |token: &str| browser.get(&running.metrics).bearer_auth(token).send().await.unwrap().status();
    assert_eq!(status("made-up").await, StatusCode::UNAUTHORIZED);
    assert_eq!(status("stranger-token").await, StatusCode::FORBIDDEN);
    assert_eq!(status("scraper-token").await, StatusCode::OK);
    assert_eq!(asked.load(Ordering::Relaxed), 3);
    assert_eq!(status("scraper-token").await, StatusCode::OK);
    assert_eq!(status("stranger-token").await, StatusCode::FORBIDDEN);
    assert_eq!(asked.load(Ordering::Relaxed), 3, "decisions are remembered");
}

#[tokio::test]
async fn an_api_server_that_cannot_answer_shows_nothing_and_is_asked_again() {
    let running = start(&config(), Readiness::new(), kube::Client::new(Router::new(), "default")).await;
    for _ in 0..2 {
        let answer = browser().get(&running.metrics).bearer_auth("scraper-token").send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
    }
}

/// The protocol a client that would take either ends up with.
async fn agreed_protocol(enable_http2: bool) -> Option<Vec<u8>> {
    let config = ExecutorConfig { enable_http2, ..config() };
    let running = start(&config, Readiness::new(), api(&Arc::default())).await;
    let mut client = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(trust::Anybody))
        .with_no_client_auth();
    client.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let address = running.metrics.trim_start_matches("https://").trim_end_matches("/metrics").to_owned();
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(client));
    let stream = connector.connect("localhost".try_into().unwrap(), stream).await.unwrap();
    stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec)
}

#[tokio::test]
async fn http2_is_offered_only_when_switched_on() {
    assert_eq!(agreed_protocol(false).await.as_deref(), Some(b"http/1.1".as_slice()));
    assert_eq!(agreed_protocol(true).await.as_deref(), Some(b"h2".as_slice()));
}

#[tokio::test]
async fn stops_when_told_and_leaves_the_port() {
    let running = start(&config(), Readiness::new(), api(&Arc::default())).await;
    get(&format!("{}/healthz", running.health)).await;
    // A connection that says nothing must not hold the stop up for longer than the drain.
    let idle = tokio::net::TcpStream::connect(running.health.trim_start_matches("http://")).await.unwrap();
    running.stop.cancel();
    tokio::time::timeout(std::time::Duration::from_secs(10), running.task).await.unwrap().unwrap();
    drop(idle);
    assert!(browser().get(format!("{}/healthz", running.health)).send().await.is_err());
}

#[tokio::test]
async fn a_taken_port_and_a_bad_address_name_the_key() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let bind = async |config: ExecutorConfig| {
        Endpoints::bind(&config, Readiness::new(), recorder().handle(), api(&Arc::default())).await.err().unwrap()
    };
    let error = bind(ExecutorConfig { metrics_bind_address: address.clone(), ..config() }).await.to_string();
    assert!(error.starts_with(&format!("executor.metricsBindAddress: cannot listen on {address}: ")), "{error}");
    let error = bind(ExecutorConfig { health_probe_bind_address: "8081".into(), ..config() }).await.to_string();
    assert!(error.starts_with("executor.healthProbeBindAddress: \"8081\" is not an address"), "{error}");
    let error = bind(ExecutorConfig { metrics_cert_path: "/nonexistent".into(), ..config() }).await.to_string();
    assert!(error.contains("/nonexistent/tls.crt"), "{error}");
}

#[tokio::test]
async fn disabled_addresses_open_nothing_and_still_stop() {
    let config = ExecutorConfig {
        health_probe_bind_address: "0".into(),
        metrics_bind_address: String::new(),
        ..ExecutorConfig::default()
    };
    let endpoints =
        Endpoints::bind(&config, Readiness::new(), recorder().handle(), api(&Arc::default())).await.unwrap();
    assert_eq!((endpoints.health_address(), endpoints.metrics_address()), (None, None));
    let stop = CancellationToken::new();
    stop.cancel();
    endpoints.run(stop).await;
}

/// A client that takes any certificate; only what is negotiated matters here.
mod trust {
    use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
    use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
    use rustls::{DigitallySignedStruct, Error, SignatureScheme};

    #[derive(Debug)]
    pub struct Anybody;

    impl ServerCertVerifier for Anybody {
        fn verify_server_cert(
            &self,
            _: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: &ServerName<'_>,
            _: &[u8],
            _: UnixTime,
        ) -> Result<ServerCertVerified, Error> {
            Ok(ServerCertVerified::assertion())
        }

        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn verify_tls13_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            rustls::crypto::ring::default_provider().signature_verification_algorithms.supported_schemes()
        }
    }
}
