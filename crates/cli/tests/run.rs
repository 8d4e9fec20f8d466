//! `aileron run` with an API server that serves nothing: it starts, answers probes, and stops on a signal.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// An API server that answers everything with 404.
fn empty_cluster() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
                let body = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}"#;
                let mut stream = stream;
                let _ = write!(
                    stream,
                    "HTTP/1.1 404 Not Found\r\ncontent-type: application/json\r\nconnection: close\r\n\
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
    Command::new(env!("CARGO_BIN_EXE_aileron"))
        .args(["run", "--kubeconfig", &kubeconfig(directory, empty_cluster())])
        .args(["--executor.healthProbeBindAddress", health, "--executor.metricsBindAddress", metrics])
        .args(["--executor.metricsSecure", "false", "--storage.type", "mem", "--log-level", "info"])
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
