//! Watches see every event once and in order, with random writes and interrupted watches.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::time::Duration;

use aileron_apiserver::{ApiServer, Options};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::runtime::watcher;
use proptest::prelude::*;
use serde_json::json;

const NAMES: usize = 5;

/// Time limit of a wait. It is long because the machine may be busy with other programs.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, Debug)]
enum Write {
    Create(usize),
    Change(usize),
    Nothing(usize),
    Delete(usize),
    /// All watches are closed.
    Drop,
    /// The history is dropped.
    Compact,
}

fn writes() -> impl Strategy<Value = Vec<Write>> {
    let name = || 0..NAMES;
    let write = prop_oneof![
        4 => name().prop_map(Write::Create),
        6 => name().prop_map(Write::Change),
        2 => name().prop_map(Write::Nothing),
        3 => name().prop_map(Write::Delete),
        1 => Just(Write::Drop),
        1 => Just(Write::Compact),
    ];
    prop::collection::vec(write, 1..60)
}

/// The revisions of each object in order; zero for its deletion.
type Seen = BTreeMap<String, Vec<u64>>;

fn version(map: &ConfigMap) -> u64 {
    map.metadata.resource_version.as_deref().unwrap().parse().unwrap()
}

async fn write(server: &ApiServer, writes: &[Write]) -> Seen {
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client());
    let mut history = Seen::new();
    for (step, write) in writes.iter().enumerate() {
        let of = |number: &usize| format!("m{number}");
        match write {
            Write::Create(number) => {
                let metadata = ObjectMeta { name: Some(of(number)), ..ObjectMeta::default() };
                let map = ConfigMap { metadata, ..ConfigMap::default() };
                if let Ok(made) = maps.create(&PostParams::default(), &map).await {
                    history.entry(of(number)).or_default().push(version(&made));
                }
            }
            Write::Change(number) => {
                let patch = Patch::Merge(json!({"data": {"step": step.to_string()}}));
                if let Ok(made) = maps.patch(&of(number), &PatchParams::default(), &patch).await {
                    history.entry(of(number)).or_default().push(version(&made));
                }
            }
            Write::Nothing(number) => {
                let _ = maps.patch(&of(number), &PatchParams::default(), &Patch::Merge(json!({}))).await;
            }
            Write::Delete(number) => {
                if maps.delete(&of(number), &DeleteParams::default()).await.is_ok() {
                    history.entry(of(number)).or_default().push(0);
                }
            }
            Write::Drop => server.faults().drop_watches(),
            Write::Compact => server.store().compact(),
        }
        if step % 7 == 0 {
            tokio::task::yield_now().await;
        }
    }
    history
}

/// Watches from a revision until the config map `end` is created. When the stream ends, continues after the last
/// revision.
async fn follow(server: ApiServer, from: String) -> Seen {
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client());
    let mut seen = Seen::new();
    let mut from = from;
    loop {
        let mut stream = maps.watch(&WatchParams::default(), &from).await.unwrap().boxed();
        while let Some(event) = stream.try_next().await.unwrap() {
            match event {
                WatchEvent::Added(map) | WatchEvent::Modified(map) => {
                    from = map.metadata.resource_version.clone().unwrap();
                    let name = map.metadata.name.clone().unwrap();
                    if name == "end" {
                        return seen;
                    }
                    seen.entry(name).or_default().push(version(&map));
                }
                WatchEvent::Deleted(map) => {
                    from = map.metadata.resource_version.clone().unwrap();
                    seen.entry(map.metadata.name.unwrap()).or_default().push(0);
                }
                WatchEvent::Bookmark(bookmark) => from = bookmark.metadata.resource_version,
                WatchEvent::Error(status) => panic!("{status:?}"),
            }
        }
    }
}

/// Sorts the revisions; deletions (zeros) come first. Two writers that wrote the same content got the same revision,
/// which is kept once.
fn in_order(seen: &Seen) -> Seen {
    let sorted = |all: &Vec<u64>| {
        let mut all = all.clone();
        all.sort_unstable();
        all.dedup_by(|left, right| left == right && *left > 0);
        all
    };
    seen.iter().map(|(name, all)| (name.clone(), sorted(all))).collect()
}

async fn finish(server: &ApiServer) {
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client());
    let metadata = ObjectMeta { name: Some("end".to_owned()), ..ObjectMeta::default() };
    maps.create(&PostParams::default(), &ConfigMap { metadata, ..ConfigMap::default() }).await.unwrap();
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Watches that continue after their last revision see every write once and in order.
    #[test]
    fn every_change_is_seen_once_and_in_order(writes in writes()) {
        let writes: Vec<_> = writes.into_iter().filter(|write| !matches!(write, Write::Compact)).collect();
        runtime().block_on(async {
            let server = ApiServer::new(Options::default());
            let maps: Api<ConfigMap> = Api::default_namespaced(server.client());
            let from = maps.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
            let watchers: Vec<_> = (0..3).map(|_| tokio::spawn(follow(server.clone(), from.clone()))).collect();
            let history = write(&server, &writes).await;
            finish(&server).await;
            for watcher in watchers {
                let seen = tokio::time::timeout(PATIENCE, watcher).await.unwrap().unwrap();
                assert_eq!(seen, history);
            }
        });
    }

    /// Several writers change the same objects at the same time. All watches see the same events in the order of the
    /// revisions, and every answered write is among them.
    #[test]
    fn many_writers_have_one_order(writers in prop::collection::vec(writes(), 2..5)) {
        runtime().block_on(async {
            let server = ApiServer::new(Options::default());
            let maps: Api<ConfigMap> = Api::default_namespaced(server.client());
            let from = maps.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
            let watchers: Vec<_> = (0..3).map(|_| tokio::spawn(follow(server.clone(), from.clone()))).collect();
            let writing: Vec<_> = writers
                .into_iter()
                .map(|writes| {
                    let writes: Vec<_> = writes.into_iter().filter(|write| !matches!(write, Write::Compact)).collect();
                    let server = server.clone();
                    tokio::spawn(async move { write(&server, &writes).await })
                })
                .collect();
            let mut written = Seen::new();
            for writer in writing {
                for (name, revisions) in writer.await.unwrap() {
                    written.entry(name).or_default().extend(revisions);
                }
            }
            finish(&server).await;
            for watcher in watchers {
                let seen = tokio::time::timeout(PATIENCE, watcher).await.unwrap().unwrap();
                for (name, revisions) in &seen {
                    let alive: Vec<_> = revisions.iter().copied().filter(|revision| *revision > 0).collect();
                    assert!(alive.is_sorted_by(|left, right| left < right), "{name}: {revisions:?}");
                    // Only an existing object can be deleted.
                    assert!(revisions.first() != Some(&0) && revisions.windows(2).all(|pair| pair != [0, 0]), "{name}: {revisions:?}");
                }
                assert_eq!(in_order(&seen), in_order(&written));
            }
        });
    }

    /// The watcher of kube-rs, which lists again if necessary, ends with the objects of the store.
    #[test]
    fn a_kube_watcher_ends_with_the_objects_of_the_store(writes in writes(), streaming in any::<bool>()) {
        runtime().block_on(async {
            // A short history, so that watches fall behind and have to list again.
            let server = ApiServer::new(Options { history: 8, ..Options::default() });
            let maps: Api<ConfigMap> = Api::default_namespaced(server.client());
            let config = if streaming { watcher::Config::default().streaming_lists() } else { watcher::Config::default() };
            let (reader, writer) = kube::runtime::reflector::store();
            let stream = kube::runtime::reflector(writer, watcher(maps, config));
            let watcher = tokio::spawn(stream.for_each(|_| std::future::ready(())));
            write(&server, &writes).await;
            finish(&server).await;
            let truth = server.store().count("configmaps");
            let deadline = tokio::time::Instant::now() + PATIENCE;
            let versions = |all: Vec<u64>| { let mut all = all; all.sort_unstable(); all };
            loop {
                let seen: Vec<u64> = reader.state().iter().map(|map| version(map)).collect();
                let objects = server.store().objects("configmaps");
                let there = objects.iter().map(|o| o["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap());
                if versions(seen.clone()) == versions(there.collect()) {
                    break;
                }
                assert!(tokio::time::Instant::now() < deadline, "{seen:?}, of {truth}");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            watcher.abort();
        });
    }
}
