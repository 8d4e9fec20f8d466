//! `aileron run` with an API server that serves nothing: it starts, answers probes, and stops on a signal.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// An API server that answers everything with 404, as for a missing object.
fn empty_cluster() -> SocketAddr {
    let body = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}"#;
    answering("404 Not Found", body)
}

/// An API server that answers everything with this.
fn answering(code: &'static str, body: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
                let mut stream = stream;
                let _ = write!(
                    stream,
                    "HTTP/1.1 {code}\r\ncontent-type: application/json\r\nconnection: close\r\n\
                     content-length: {}\r\n\r\n{body}",
                    body.len()
                );
            });
        }
    });
    address
}

fn kubeconfig(directory: &Path, server: SocketAddr) -> String {
    let path = directory.join("kubeconfig");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
         clusters: [{{name: c, cluster: {{server: 'http://{server}'}}}}]\nusers: [{{name: u, user: {{}}}}]\n"
    );
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn start(directory: &Path, health: &str, metrics: &str) -> Child {
    start_on(empty_cluster(), directory, health, metrics, &["--log-level", "info"])
}

fn start_on(cluster: SocketAddr, directory: &Path, health: &str, metrics: &str, flags: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_aileron"))
        .args(["run", "--kubeconfig", &kubeconfig(directory, cluster)])
        .args(["--executor.healthProbeBindAddress", health, "--executor.metricsBindAddress", metrics])
        .args(["--executor.metricsSecure", "false", "--storage.type", "mem"])
        .args(flags)
        .current_dir(directory)
        .env_clear()
        .env("HOME", directory)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn get(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

/// Limit for one step. Steps take milliseconds; this is for a machine whose processors are busy with other programs.
const PATIENCE: Duration = Duration::from_secs(120);

fn eventually<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn signal(child: &Child, name: &str) {
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
}

#[test]
fn answers_probes_and_metrics_and_stops_on_sigterm() {
    let directory = tempfile::tempdir().unwrap();
    let (health, metrics) = (free_port(), free_port());
    let mut child = start(directory.path(), &format!("127.0.0.1:{health}"), &format!("127.0.0.1:{metrics}"));
    let alive = eventually(|| get(health, "/healthz"));
    assert!(alive.starts_with("HTTP/1.1 200") && alive.ends_with("ok"), "{alive}");
    let ready = get(health, "/readyz").unwrap();
    assert!(ready.starts_with("HTTP/1.1 503"), "a cluster without TaskActions is not ready: {ready}");
    assert!(get(metrics, "/metrics").unwrap().starts_with("HTTP/1.1 200"));

    signal(&child, "TERM");
    let status = eventually(|| child.try_wait().unwrap());
    let mut logs = String::new();
    child.stderr.take().unwrap().read_to_string(&mut logs).unwrap();
    assert_eq!(status.code(), Some(0), "{logs}");
    for line in logs.lines() {
        let record: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("not a record: {line}"));
        assert!(record["msg"].is_string() && record["level"].is_string(), "{line}");
    }
    assert!(logs.contains("\"msg\":\"started\"") && logs.contains("\"signal\":\"SIGTERM\""), "{logs}");
}

#[test]
fn a_port_in_use_is_an_error_that_names_the_key() {
    let directory = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let ended = start(directory.path(), &taken.local_addr().unwrap().to_string(), "0").wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    let logs = String::from_utf8(ended.stderr).unwrap();
    assert!(logs.contains("executor.healthProbeBindAddress: cannot listen on"), "{logs}");
}

#[test]
fn without_a_cluster_the_error_says_how_to_name_one() {
    let directory = tempfile::tempdir().unwrap();
    let ended = Command::new(env!("CARGO_BIN_EXE_aileron"))
        .args(["run", "--storage.type", "mem"])
        .current_dir(directory.path())
        .env_clear()
        .env("HOME", directory.path())
        .output()
        .unwrap();
    assert_eq!(ended.status.code(), Some(1));
    let logs = String::from_utf8(ended.stderr).unwrap();
    assert!(logs.contains("give --kubeconfig, set KUBECONFIG"), "{logs}");
}

/// The records of an executor with the default log level that has run for a few seconds.
fn records(cluster: SocketAddr) -> Vec<serde_json::Value> {
    let directory = tempfile::tempdir().unwrap();
    let mut child = start_on(cluster, directory.path(), "127.0.0.1:0", "0", &[]);
    // Long enough for several tries of each watch: the first pauses are about a second.
    std::thread::sleep(Duration::from_secs(6));
    signal(&child, "TERM");
    eventually(|| child.try_wait().unwrap());
    let mut logs = String::new();
    child.stderr.take().unwrap().read_to_string(&mut logs).unwrap();
    logs.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("not a record: {line}"))).collect()
}

/// The errors of the records about interrupted watches.
fn interruptions(records: &[serde_json::Value]) -> Vec<String> {
    let interrupted = records.iter().filter(|one| one["msg"] == "the watch was interrupted and reconnects");
    interrupted.map(|one| one["json"]["error"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_first_records_say_what_runs_and_an_outage_is_told_once() {
    let cluster = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let records = records(cluster);
    let of = |message: &str| {
        let found = records.iter().find(|one| one["msg"] == message);
        found.unwrap_or_else(|| panic!("{message}: {records:#?}"))["json"].clone()
    };
    assert_eq!(of("started")["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(of("this replica leads without a lease")["namespace"], "flyte");
    assert_eq!(of("services")["events"], "http://localhost:8090");
    assert!(of("services")["storage"].as_str().unwrap().starts_with("mem://"));
    assert!(of("plugins")["plugins"].as_str().unwrap().contains("spark"));
    assert!(of("listening")["health"].as_str().unwrap().starts_with("127.0.0.1:"));
    let interruptions = interruptions(&records);
    assert_eq!(interruptions.len(), 1, "{records:#?}");
    assert!(interruptions[0].contains(&format!("http://{cluster}")), "{interruptions:?}");
    assert!(interruptions[0].contains("onnection refused"), "{interruptions:?}");
    assert!(records.len() < 12, "{records:#?}");
}

#[test]
fn a_missing_definition_and_missing_permissions_are_told_with_their_remedy() {
    let missing = interruptions(&records(answering("404 Not Found", "404 page not found\n")));
    assert!(
        missing.iter().any(|text| text.contains("install it with `aileron crd | kubectl apply -f -`")),
        "{missing:?}"
    );
    let body = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","reason":"Forbidden","code":403,
        "message":"pods is forbidden: User \"ada\" cannot list resource \"pods\""}"#;
    let forbidden = interruptions(&records(answering("403 Forbidden", body)));
    assert_eq!(forbidden.len(), 1, "{forbidden:?}");
    assert!(forbidden[0].starts_with("pods is forbidden: User \"ada\""), "{forbidden:?}");
    assert!(forbidden[0].contains("`aileron doctor`") && !forbidden[0].contains("Status {"), "{forbidden:?}");
}
