//! Processes of pods end in time, even if the sandbox is killed.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "node/cluster.rs"]
mod cluster;

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use aileron_apiserver::{Fault, Match};
use aileron_sandbox::NodeOptions;
use kube::api::DeleteParams;
use serde_json::json;

use cluster::{Cluster, phase, sh, status_of, value};

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_is_deleted_without_grace_period_leaves_no_process() {
    let cluster = Cluster::start().await;
    cluster.create("p", json!({"containers": [sh("main", "echo $$; sleep 1000")]})).await;
    let pid = cluster.first_line("p", "main").await;
    cluster.pods().delete("p", &DeleteParams::default().grace_period(0)).await.unwrap();
    cluster::gone(&pid).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_left_its_group_ends_with_the_container() {
    let cluster = Cluster::start().await;
    // The process forks twice in its own session, so it is neither a child nor in the group of the container.
    cluster.create("p", json!({"restartPolicy": "Never", "containers": [sh("main", "(setsid sh -c 'echo $$; exec sleep 1000' &) ; sleep 0.3")]})).await;
    cluster.ended("p").await;
    cluster::gone(&cluster.first_line("p", "main").await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_above_its_memory_limit_is_killed() {
    let cluster = Cluster::start().await;
    let mut hungry = sh("hungry", "x=0123456789abcdef; while :; do x=$x$x; sleep 0.02; done");
    hungry["resources"] = json!({"limits": {"memory": "40Mi"}});
    let mut modest = sh("modest", "sleep 0.5");
    modest["resources"] = json!({"limits": {"memory": "40Mi"}});
    cluster.create("p", json!({"restartPolicy": "Never", "containers": [hungry, modest]})).await;
    let pod = cluster.ended("p").await;
    let terminated = status_of(&pod, "hungry")["state"]["terminated"].clone();
    assert_eq!((&terminated["exitCode"], &terminated["reason"]), (&json!(137), &json!("OOMKilled")));
    assert_eq!(status_of(&pod, "modest")["state"]["terminated"]["exitCode"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_node_leaves_no_process_and_the_next_one_reports_lost_pods() {
    let cluster = Cluster::start().await;
    cluster.create("p", json!({"containers": [sh("main", "echo $$; sleep 1000")]})).await;
    let pid = cluster.first_line("p", "main").await;
    cluster.until("p", |pod| phase(pod) == "Running").await;
    let server = cluster.stop().await;
    cluster::gone(&pid).await;
    let cluster = Cluster::on(server, NodeOptions::default()).await;
    let pod = cluster.ended("p").await;
    let status = value(&pod)["status"].clone();
    assert_eq!((&status["phase"], &status["reason"]), (&json!("Failed"), &json!("NodeLost")));
    assert_eq!(status_of(&pod, "main")["state"]["terminated"]["exitCode"], 137);
}

#[test]
fn processes_end_with_the_runtime() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let options = NodeOptions { dir: dir.path().to_owned(), ..NodeOptions::default() };
    let (cluster, pid) = runtime.block_on(async {
        let cluster = Cluster::with(options).await;
        cluster.create("p", json!({"containers": [sh("main", "trap '' TERM; echo $$; sleep 1000")]})).await;
        let pid = cluster.first_line("p", "main").await;
        (cluster, pid)
    });
    // The runtime ends without stopping the node: no task of the node runs again.
    std::mem::forget(cluster);
    runtime.shutdown_background();
    let other = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    other.block_on(cluster::gone(&pid));
}

/// Not a test: the sandbox that the next test kills.
#[test]
#[ignore = "runs until it is killed"]
fn sandbox_that_is_killed() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let dir = std::env::var("SANDBOX_DIR").unwrap().into();
        let cluster = Cluster::with(NodeOptions { dir, ..NodeOptions::default() }).await;
        let stubborn = "trap '' TERM HUP; echo $$; while :; do sleep 1000; done";
        let hidden = "(setsid sh -c 'echo $$; exec sleep 1000' &); sleep 1000";
        cluster.create("p", json!({"containers": [sh("stubborn", stubborn), sh("hidden", hidden)]})).await;
        for container in ["stubborn", "hidden"] {
            println!("\nprocess {}", cluster.first_line("p", container).await);
        }
        std::future::pending::<()>().await;
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_end_with_a_sandbox_that_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let mut sandbox = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "sandbox_that_is_killed", "--nocapture"])
        .env("SANDBOX_DIR", dir.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(sandbox.stdout.take().unwrap()).lines().map_while(Result::ok);
    let processes = lines.filter_map(|line| line.strip_prefix("process ").map(str::to_owned));
    let processes: Vec<String> = processes.take(2).collect();
    assert_eq!(processes.len(), 2);
    for process in &processes {
        assert!(cluster::is_alive(process), "{process} must run while the sandbox runs");
    }
    sandbox.kill().unwrap();
    sandbox.wait().unwrap();
    for process in &processes {
        cluster::gone(process).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_survives_an_api_server_that_fails() {
    let cluster = Cluster::start().await;
    let faults = cluster.server().faults();
    faults.add(Fault::Times(Match::of("patch", "pods/status"), 500, 3));
    faults.add(Fault::Times(Match::of("create", "pods/binding"), 503, 2));
    faults.add(Fault::Times(Match::of("create", "events"), 500, 2));
    cluster.create("p", json!({"restartPolicy": "Never", "containers": [sh("main", "sleep 0.2; exit 5")]})).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    faults.drop_watches();
    let pod = cluster.ended("p").await;
    assert_eq!(status_of(&pod, "main")["state"]["terminated"]["exitCode"], 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_pods_that_were_deleted_meanwhile_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let options = NodeOptions { dir: dir.path().to_owned(), ..NodeOptions::default() };
    let left = dir.path().join("pods/some-uid/volumes/v");
    std::fs::create_dir_all(&left).unwrap();
    let cluster = Cluster::with(options).await;
    cluster.create("p", json!({"restartPolicy": "Never", "containers": [sh("main", "sleep 0.3; touch x")]})).await;
    let pod = cluster.ended("p").await;
    assert_eq!(phase(&pod), "Succeeded");
    assert!(cluster.files(&pod).join("containers/main/root/x").exists(), "files of a new pod are kept");
    assert!(!left.exists());
}
