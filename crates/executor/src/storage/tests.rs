#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use aileron_idl::flyteidl2::core::{ContainerError, ErrorDocument, LiteralMap, container_error, execution_error};
use axum::Router;
use axum::body::Bytes as Body;
use axum::http::{Method, StatusCode, Uri};
use axum::response::IntoResponse;
use prost::Message;

use super::outputs::{
    OutputsError, Reported, TaskResult, read_error_document, read_inputs, read_result, write_outputs,
};
use super::*;

fn config(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn local(root: &std::path::Path) -> StorageSettings {
    StorageSettings {
        backend: Backend::Local,
        container: "bench".to_owned(),
        config: config(&[("path", root.to_str().unwrap())]),
        ..StorageSettings::default()
    }
}

/// Just enough of S3 to keep objects by path.
async fn fake_s3() -> (String, Arc<Mutex<HashMap<String, Body>>>) {
    let objects = Arc::new(Mutex::new(HashMap::<String, Body>::new()));
    let state = objects.clone();
    let handler = move |method: Method, uri: Uri, body: Body| async move {
        let mut objects = state.lock().unwrap();
        let path = uri.path().to_owned();
        match method {
            Method::PUT => {
                objects.insert(path, body);
                ([("etag", "\"1\"")], "").into_response()
            }
            _ => match objects.get(&path) {
                Some(body) => {
                    let headers = [("etag", "\"1\""), ("last-modified", "Tue, 10 Nov 2009 23:00:00 GMT")];
                    (headers, body.clone()).into_response()
                }
                None => StatusCode::NOT_FOUND.into_response(),
            },
        }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(handler)).await.unwrap() });
    (format!("http://{address}"), objects)
}

#[tokio::test]
async fn files_live_below_the_root_by_container() {
    let root = tempfile::tempdir().unwrap();
    let stores = ObjectStores::new(local(root.path())).unwrap();
    let uri = "file://bench/run/a%20b/outputs.pb";
    assert_eq!(stores.get(uri).await.unwrap(), None);
    assert!(!stores.exists(uri).await.unwrap());
    stores.put(uri, Bytes::from_static(b"x")).await.unwrap();
    assert_eq!(std::fs::read(root.path().join("bench/run/a b/outputs.pb")).unwrap(), b"x");
    assert_eq!(stores.get(uri).await.unwrap().unwrap(), "x");
    assert_eq!(stores.size(uri).await.unwrap(), Some(1));
    // A directory is not a blob, and a path through a file leads nowhere.
    assert_eq!(stores.get("file://bench/run").await.unwrap(), None);
    assert_eq!(stores.get(&format!("{uri}/more")).await.unwrap(), None);
    // No temporary file is left.
    assert_eq!(std::fs::read_dir(root.path().join("bench/run/a b")).unwrap().count(), 1);
}

#[tokio::test]
async fn an_empty_container_is_an_absolute_path_below_the_root() {
    let root = tempfile::tempdir().unwrap();
    let stores = ObjectStores::new(local(root.path())).unwrap();
    let uri = format!("file://{}/elsewhere/in.pb", root.path().display());
    stores.put(&uri, Bytes::from_static(b"in")).await.unwrap();
    assert_eq!(std::fs::read(root.path().join("elsewhere/in.pb")).unwrap(), b"in");
    assert!(stores.copy(&uri, "file://bench/copy.pb").await.unwrap());
    assert_eq!(std::fs::read(root.path().join("bench/copy.pb")).unwrap(), b"in");
    assert!(!stores.copy("file://bench/none", "file://bench/other").await.unwrap());
    let outside = tempfile::tempdir().unwrap();
    let error = stores.get(&format!("file://{}/x", outside.path().display())).await.unwrap_err();
    assert!(matches!(error, StorageError::OutsideBoundary { .. }), "{error}");
}

#[tokio::test]
async fn a_symbolic_link_does_not_lead_out_of_the_root() {
    let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(outside.path().join("secret"), "s").unwrap();
    std::fs::create_dir(root.path().join("bench")).unwrap();
    std::os::unix::fs::symlink(outside.path(), root.path().join("bench/link")).unwrap();
    std::os::unix::fs::symlink(root.path().join("bench/real"), root.path().join("bench/inside")).unwrap();
    let stores = ObjectStores::new(local(root.path())).unwrap();
    for uri in ["file://bench/link/secret", "file://bench/link/absent/new"] {
        assert!(matches!(stores.get(uri).await, Err(StorageError::OutsideBoundary { .. })), "{uri}");
        assert!(matches!(stores.size(uri).await, Err(StorageError::OutsideBoundary { .. })), "{uri}");
        let written = stores.put(uri, Bytes::from_static(b"x")).await;
        assert!(matches!(written, Err(StorageError::OutsideBoundary { .. })), "{uri}");
    }
    stores.put("file://bench/real/x", Bytes::from_static(b"x")).await.unwrap();
    assert_eq!(stores.get("file://bench/inside/x").await.unwrap().unwrap(), "x");
}

/// The name of the temporary file can be guessed: the process writes its first blob.
#[tokio::test]
async fn a_link_with_the_name_of_the_temporary_file_is_not_followed() {
    let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let victim = outside.path().join("victim");
    std::fs::write(&victim, "precious").unwrap();
    let directory = root.path().join("bench");
    std::fs::create_dir(&directory).unwrap();
    let temporary = directory.join(format!(".x.{}-0.part", std::process::id()));
    std::os::unix::fs::symlink(&victim, &temporary).unwrap();
    let stores = ObjectStores::new(local(root.path())).unwrap();
    stores.put("file://bench/x", Bytes::from_static(b"hostile")).await.unwrap();
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
    assert_eq!(stores.get("file://bench/x").await.unwrap().unwrap(), "hostile");
    assert!(!directory.join("x").is_symlink() && !temporary.is_symlink());
}

#[tokio::test]
async fn the_store_in_memory_is_bounded() {
    let memory = MemoryStore::new().with_capacity(20);
    memory.put("mem://a", Bytes::from_static(b"1234567")).await.unwrap();
    let error = memory.put("mem://b", Bytes::from_static(b"1234567")).await.unwrap_err();
    assert!(error.to_string().contains("20 bytes") && error.to_string().contains("mem://b"), "{error}");
    memory.put("mem://a", Bytes::from_static(b"7654321")).await.unwrap();
    assert!(memory.remove("mem://a"));
    memory.put("mem://b", Bytes::from_static(b"1234567")).await.unwrap();
}

#[test]
fn clients_of_other_containers_do_not_pile_up() {
    let settings = StorageSettings {
        container: "b".into(),
        config: config(&[("auth_type", "iam")]),
        multi_container: true,
        ..StorageSettings::default()
    };
    let stores = ObjectStores::new(settings).unwrap();
    for number in 0..100 {
        stores.client("s3", &format!("b{number}")).unwrap();
    }
    assert_eq!(stores.clients(), 32);
}

#[tokio::test]
async fn other_containers_need_permission() {
    let root = tempfile::tempdir().unwrap();
    let stores = ObjectStores::new(local(root.path())).unwrap();
    let error = stores.get("file://other/x").await.unwrap_err();
    assert!(matches!(&error, StorageError::OtherContainer { named, .. } if named == "other"), "{error}");
    assert!(error.to_string().contains("enable-multicontainer"));
    let stores = ObjectStores::new(StorageSettings { multi_container: true, ..local(root.path()) }).unwrap();
    assert_eq!(stores.get("file://other/x").await.unwrap(), None);
    let error = stores.put("weird://other/x", Bytes::from_static(b"1")).await.unwrap_err();
    assert!(matches!(error, StorageError::SchemeNotConfigured { .. }), "{error}");
}

#[tokio::test]
async fn downloads_are_limited() {
    let root = tempfile::tempdir().unwrap();
    let stores = ObjectStores::new(StorageSettings { max_download_mb: 1, ..local(root.path()) }).unwrap();
    let exact = Bytes::from(vec![0; 1 << 20]);
    stores.put("file://bench/exact", exact).await.unwrap();
    assert!(stores.get("file://bench/exact").await.unwrap().is_some());
    stores.put("file://bench/big", Bytes::from(vec![0; (3 << 20) / 2])).await.unwrap();
    let error = stores.get("file://bench/big").await.unwrap_err();
    let expected = "limit exceeded. 1.500000mb > 1mb. You can increase the limit by setting maxDownloadMBs.";
    assert!(error.to_string().starts_with(expected), "{error}");
    let free = ObjectStores::new(StorageSettings { max_download_mb: 0, ..local(root.path()) }).unwrap();
    assert!(free.get("file://bench/big").await.unwrap().is_some());
    let memory = MemoryStore::with_limit(1);
    memory.insert("s3://b/big", vec![0; (1 << 20) + 1]);
    assert!(memory.get("s3://b/big").await.is_err());
}

#[tokio::test]
async fn speaks_to_an_s3_endpoint() {
    let (endpoint, objects) = fake_s3().await;
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), "s\n").unwrap();
    let settings = StorageSettings {
        container: "bkt".to_owned(),
        config: config(&[
            ("auth_type", "accesskey"),
            ("access_key_id", "k"),
            ("secret_key_path", secret.path().to_str().unwrap()),
            ("endpoint", &endpoint),
            ("disable_ssl", "true"),
        ]),
        ..StorageSettings::default()
    };
    let stores = ObjectStores::new(settings).unwrap();
    let uri = "s3://bkt/z3/run(1)/a%20b=c/outputs.pb";
    assert_eq!(stores.get(uri).await.unwrap(), None);
    assert_eq!(stores.size(uri).await.unwrap(), None);
    stores.put(uri, Bytes::from_static(b"out")).await.unwrap();
    assert_eq!(stores.get(uri).await.unwrap().unwrap(), "out");
    assert_eq!(stores.size(uri).await.unwrap(), Some(3));
    let paths: Vec<String> = objects.lock().unwrap().keys().cloned().collect();
    assert_eq!(paths, ["/bkt/z3/run%281%29/a%20b%3Dc/outputs.pb"], "path style, key escaped once");
    // A backend that fails is an error, not an absence.
    let down = StorageSettings {
        container: "bkt".to_owned(),
        config: config(&[("access_key_id", "k"), ("secret_key", "s"), ("endpoint", "http://127.0.0.1:1")]),
        ..StorageSettings::default()
    };
    assert!(matches!(ObjectStores::new(down).unwrap().get(uri).await, Err(StorageError::Backend { .. })));
}

#[test]
fn wrong_settings_show_at_the_start() {
    let wrong = |settings: StorageSettings| ObjectStores::new(settings).unwrap_err().to_string();
    let s3 = |pairs| StorageSettings { container: "b".into(), config: config(pairs), ..StorageSettings::default() };
    assert!(wrong(StorageSettings::default()).contains("storage.container"));
    assert!(wrong(s3(&[])).contains("access_key_id"));
    assert!(wrong(s3(&[("access_key_id", "k")])).contains("secret_key"));
    assert!(wrong(s3(&[("auth_type", "magic")])).contains("accesskey or iam"));
    assert!(wrong(s3(&[("access_key_id", "k"), ("secret_key_path", "/nowhere/x")])).contains("secret_key_path"));
    assert!(wrong(StorageSettings { backend: Backend::Azure, ..s3(&[]) }).contains("account"));
    assert!(wrong(StorageSettings { backend: Backend::Local, ..s3(&[]) }).contains("path"));
    assert!(ObjectStores::new(s3(&[("auth_type", "iam")])).is_ok());
    let azure = config(&[("account", "a"), ("key", "a2V5")]);
    let azure = StorageSettings { backend: Backend::Azure, container: "c".into(), config: azure, ..s3(&[]) };
    assert!(ObjectStores::new(azure).is_ok());
}

#[test]
fn backends_by_configured_names() {
    assert_eq!(Backend::from_config("stow", ""), Some(Backend::S3));
    assert_eq!(Backend::from_config("stow", "google"), Some(Backend::Gcs));
    assert_eq!(Backend::from_config("minio", "s3"), Some(Backend::S3));
    assert_eq!(Backend::from_config("mem", ""), Some(Backend::Memory));
    assert_eq!(Backend::from_config("redis", ""), None);
}

const OUT: &str = "s3://bkt/p/outputs.pb";
const ERR: &str = "s3://bkt/p/error.pb";

fn document(kind: container_error::Kind, origin: execution_error::ErrorKind) -> Vec<u8> {
    let error = ContainerError {
        code: "ValueError".into(),
        message: "bad value".into(),
        kind: kind.into(),
        origin: origin.into(),
    };
    ErrorDocument { error: Some(error) }.encode_to_vec()
}

#[tokio::test]
async fn an_error_document_wins_over_outputs() {
    for (kind, origin, recoverable) in [
        (container_error::Kind::Recoverable, execution_error::ErrorKind::User, true),
        (container_error::Kind::NonRecoverable, execution_error::ErrorKind::System, false),
        (container_error::Kind::NonRecoverable, execution_error::ErrorKind::Unknown, false),
    ] {
        let store = MemoryStore::new();
        store.insert(OUT, Bytes::new());
        store.insert(ERR, document(kind, origin));
        let TaskResult::Error(Reported { recoverable: found, error }) =
            read_result(&store, OUT, ERR, true).await.unwrap()
        else {
            panic!("expected an error");
        };
        assert_eq!((found, error.kind(), error.recoverability()), (recoverable, origin, kind));
        assert_eq!((error.code.as_str(), error.message.as_str()), ("ValueError", "bad value"));
    }
}

#[tokio::test]
async fn an_empty_error_document_is_a_system_error() {
    let store = MemoryStore::new();
    store.insert(ERR, Bytes::new());
    let TaskResult::Error(Reported { recoverable, error }) = read_result(&store, OUT, ERR, true).await.unwrap() else {
        panic!("expected an error");
    };
    assert!(recoverable);
    assert_eq!(error.code, "ErrorFileBadFormat");
    assert_eq!(error.message, format!("error not formatted correctly, nil error @path [{ERR}]"));
    assert_eq!(error.kind(), execution_error::ErrorKind::System);
}

#[tokio::test]
async fn success_needs_the_outputs_that_are_declared_and_writes_nothing() {
    let store = MemoryStore::new();
    let missing = read_result(&store, OUT, ERR, true).await.unwrap_err();
    assert!(matches!(missing, OutputsError::MissingOutputs { .. }), "{missing}");
    assert_eq!(read_result(&store, OUT, ERR, false).await.unwrap(), TaskResult::Succeeded);
    store.insert(OUT, Bytes::new());
    assert_eq!(read_result(&store, OUT, ERR, true).await.unwrap(), TaskResult::Succeeded);
    assert_eq!(store.snapshot(), [(OUT.to_owned(), Bytes::new())], "twice observed, still only the outputs");
    store.insert(OUT, Bytes::from_static(b"\xff\xff"));
    let malformed = read_result(&store, OUT, ERR, true).await.unwrap_err().to_string();
    assert!(malformed.starts_with(&format!("failed to read data from dataDir [{OUT}]. Error: unmarshall: {OUT}: ")));
}

#[tokio::test]
async fn an_error_without_a_code_stays_without_one() {
    let store = MemoryStore::new();
    let error = ContainerError { message: "m".into(), ..ContainerError::default() };
    store.insert(ERR, ErrorDocument { error: Some(error) }.encode_to_vec());
    let TaskResult::Error(Reported { recoverable, error }) = read_result(&store, OUT, ERR, true).await.unwrap() else {
        panic!("expected an error");
    };
    assert_eq!((recoverable, error.code.as_str(), error.message.as_str()), (false, "", "m"));
}

#[tokio::test]
async fn an_unreadable_error_document_hides_a_success_and_says_nothing_about_a_failure() {
    let store = MemoryStore::with_limit(1);
    store.insert(OUT, Bytes::new());
    assert_eq!(read_error_document(&store, ERR).await.unwrap(), None);
    store.insert(ERR, Bytes::from_static(b"\xff\xff"));
    let malformed = read_result(&store, OUT, ERR, true).await.unwrap_err().to_string();
    assert!(malformed.starts_with(&format!("failed to read error data from task @[{ERR}]: unmarshall: {ERR}: ")));
    assert_eq!(read_error_document(&store, ERR).await.unwrap(), Some(ErrorDocument::default()));
    store.insert(ERR, vec![0; (1 << 20) + 1]);
    assert_eq!(read_error_document(&store, ERR).await.unwrap(), Some(ErrorDocument::default()));
}

#[tokio::test]
async fn outputs_too_large_to_read_are_there_and_inputs_tell_why() {
    let store = MemoryStore::with_limit(1);
    store.insert(OUT, vec![0; (1 << 20) + 1]);
    assert_eq!(read_result(&store, OUT, ERR, true).await.unwrap(), TaskResult::Succeeded);
    let told = read_inputs(&store, OUT).await.unwrap_err().to_string();
    assert!(told.starts_with("failed to read inputs of the task: limit exceeded."), "{told}");
    assert!(told.contains("maxDownloadMBs"), "{told}");
}

#[tokio::test]
async fn inputs_must_exist() {
    let store = MemoryStore::new();
    assert_eq!(
        read_inputs(&store, "s3://bkt/in/inputs.pb").await.unwrap_err().to_string(),
        "[READ_FAILED] failed to read data from dataDir [s3://bkt/in/inputs.pb]., caused by: \
         path:s3://bkt/in/inputs.pb: file does not exist"
    );
    write_outputs(&store, "s3://bkt/in/inputs.pb", &LiteralMap::default()).await.unwrap();
    assert_eq!(read_inputs(&store, "s3://bkt/in/inputs.pb").await.unwrap(), LiteralMap::default());
}
