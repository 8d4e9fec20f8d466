//! Objects that are restored after the server ended or was killed.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use aileron_apiserver::{ApiServer, Options, PersistError, Persistence};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::json;

/// Time limit of a wait. It is long because the machine may be busy with other programs.
const PATIENCE: Duration = Duration::from_secs(120);
/// Variable with the directory, for the process that is killed.
const DIR: &str = "AILERON_TEST_PERSIST_DIR";

async fn start(dir: &Path) -> (ApiServer, Persistence) {
    let server = ApiServer::new(Options::default());
    let persistence = Persistence::open(dir, &server).await.unwrap();
    (server, persistence)
}

async fn map(server: &ApiServer, name: &str) -> ConfigMap {
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client());
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    maps.create(&PostParams::default(), &ConfigMap { metadata, ..ConfigMap::default() }).await.unwrap()
}

fn definition() -> CustomResourceDefinition {
    let version = json!({
        "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}},
    });
    let names = json!({"plural": "kettles", "kind": "Kettle"});
    serde_json::from_value(json!({
        "metadata": {"name": "kettles.kitchen.example.org"},
        "spec": {"group": "kitchen.example.org", "scope": "Namespaced", "names": names, "versions": [version]},
    }))
    .unwrap()
}

fn names(server: &ApiServer) -> Vec<String> {
    let all = server.store().objects("configmaps");
    all.iter().map(|object| object["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

async fn until_saved(dir: &Path, text: &str) {
    let begin = Instant::now();
    while !fs::read_to_string(dir.join("objects.json")).unwrap_or_default().contains(text) {
        assert!(begin.elapsed() < PATIENCE, "{text} was not saved");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn objects_are_restored_after_a_stop() {
    let dir = tempfile::tempdir().unwrap();
    let (server, persistence) = start(dir.path()).await;
    let made = map(&server, "kept").await;
    let definitions: Api<CustomResourceDefinition> = Api::all(server.client());
    definitions.create(&PostParams::default(), &definition()).await.unwrap();
    persistence.stop().await.unwrap();
    let revision = server.store().revision();

    let (again, _persistence) = start(dir.path()).await;
    let maps: Api<ConfigMap> = Api::default_namespaced(again.client());
    let found = maps.get("kept").await.unwrap();
    assert_eq!(found.metadata.uid, made.metadata.uid);
    assert!(again.store().revision() > revision, "new revisions must be larger than those that clients remember");
    let request = http::Request::get("/apis/kitchen.example.org/v1").body(Vec::new()).unwrap();
    assert!(again.client().request_text(request).await.unwrap().contains("kettles"));
    assert_eq!(again.store().count("namespaces"), server.store().count("namespaces"));
}

#[tokio::test]
async fn changes_are_saved_while_the_server_runs() {
    let dir = tempfile::tempdir().unwrap();
    let (server, persistence) = start(dir.path()).await;
    map(&server, "one").await;
    until_saved(dir.path(), "\"one\"").await;
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client());
    maps.patch("one", &PatchParams::default(), &Patch::Merge(json!({"data": {"a": "changed"}}))).await.unwrap();
    until_saved(dir.path(), "changed").await;
    drop(persistence);
}

#[tokio::test]
async fn a_file_that_is_not_a_snapshot_is_reported_and_not_changed() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("objects.json");
    let whole = json!({"format": 1, "revision": 7, "objects": []}).to_string();
    for (content, reason) in
        [(&whole[..20], "EOF"), ("", "EOF"), (&whole.replace('1', "2"), "its format is 2"), ("[]", "expected")]
    {
        fs::write(&file, content).unwrap();
        let server = ApiServer::new(Options::default());
        let error = Persistence::open(dir.path(), &server).await.unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, PersistError::Corrupt { .. }), "{text}");
        assert!(text.contains(file.to_str().unwrap()) && text.contains("move it away"), "{text}");
        assert!(text.contains(reason), "{content}: {text}");
        assert_eq!(fs::read_to_string(&file).unwrap(), content);
    }
    fs::write(&file, &whole).unwrap();
    fs::write(dir.path().join("objects.json.new"), &whole[..20]).unwrap();
    let (_server, persistence) = start(dir.path()).await;
    persistence.stop().await.unwrap();
}

#[tokio::test]
async fn two_servers_cannot_share_a_directory() {
    let dir = tempfile::tempdir().unwrap();
    let (server, persistence) = start(dir.path()).await;
    let error = Persistence::open(dir.path(), &ApiServer::new(Options::default())).await.unwrap_err();
    assert!(matches!(error, PersistError::InUse(_)), "{error}");
    persistence.stop().await.unwrap();
    Persistence::open(dir.path(), &server).await.unwrap();
}

/// The permissions of a file or directory.
fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn other_users_can_read_neither_the_directory_nor_the_files() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("objects");
    let (server, persistence) = start(&dir).await;
    map(&server, "one").await;
    persistence.stop().await.unwrap();
    let modes = || ["", "objects.json", "objects.lock"].map(|name| mode(&dir.join(name)));
    assert_eq!(modes(), [0o700, 0o600, 0o600]);
    // As earlier versions left them.
    for (name, mode) in [("", 0o755), ("objects.json", 0o644), ("objects.lock", 0o644)] {
        fs::set_permissions(dir.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let (again, persistence) = start(&dir).await;
    assert_eq!(names(&again), ["one"]);
    assert_eq!(modes(), [0o700, 0o600, 0o600]);
    persistence.stop().await.unwrap();
}

#[tokio::test]
async fn a_pipe_instead_of_a_file_is_reported() {
    for name in ["objects.lock", "objects.json", "objects.json.new"] {
        let dir = tempfile::tempdir().unwrap();
        assert!(Command::new("mkfifo").arg(dir.path().join(name)).status().unwrap().success());
        let server = ApiServer::new(Options::default());
        let error = Persistence::open(dir.path(), &server).await.unwrap_err().to_string();
        assert!(error.contains(name) && error.contains("is not a regular file"), "{error}");
    }
}

/// Not a test: the process that [`a_killed_server_leaves_a_complete_file`] kills.
#[tokio::test]
#[ignore = "writes until it is killed; another test starts it"]
async fn writes_until_killed() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let (server, _persistence) = start(Path::new(&dir)).await;
    let first = names(&server).len();
    for number in first.. {
        map(&server, &format!("m{number:06}")).await;
        if number % 50 == 0 {
            until_saved(Path::new(&dir), &format!("m{number:06}")).await;
            println!("saved {number}");
        }
    }
}

#[tokio::test]
async fn a_killed_server_leaves_a_complete_file() {
    let dir = tempfile::tempdir().unwrap();
    let mut saved = 0;
    for round in 0..4 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "writes_until_killed", "--nocapture"])
            .env(DIR, dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut numbers = lines.filter_map(|line| line.split_once("saved ")?.1.trim().parse::<usize>().ok());
        saved = numbers.next().unwrap().max(saved);
        // Different delays, so that the process is killed between saves and during saves.
        std::thread::sleep(Duration::from_millis(round * 90));
        child.kill().unwrap();
        child.wait().unwrap();

        let (server, persistence) = start(dir.path()).await;
        let found = names(&server);
        assert!(found.len() > saved, "{} objects, but {saved} were reported as saved", found.len());
        assert!(found.iter().enumerate().all(|(at, name)| *name == format!("m{at:06}")), "some are missing: {found:?}");
        persistence.stop().await.unwrap();
    }
}
