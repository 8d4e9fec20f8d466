//! With a seed, an injected clock and a paused runtime, two runs with the same requests are equal in every byte.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aileron_apiserver::{ApiServer, Clock, Fault, Match, Options};
use futures::{StreamExt, TryStreamExt};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, DeleteParams, ObjectMeta, PostParams, WatchEvent, WatchParams};
use serde_json::json;
use tokio::time::Instant;

/// How many watches read the same changes. With so many, a random order would almost never be the same twice.
const WATCHES: usize = 8;

fn server(seed: u64) -> ApiServer {
    let begin = Instant::now();
    let day: Timestamp = "2030-01-02T03:04:05Z".parse().unwrap();
    let clock = Clock::from_fn(move || day + SignedDuration::try_from(begin.elapsed()).unwrap());
    ApiServer::new(Options { clock, seed: Some(seed), ..Options::default() })
}

fn map(generate: &str) -> ConfigMap {
    let metadata = ObjectMeta { generate_name: Some(generate.to_owned()), ..ObjectMeta::default() };
    ConfigMap { metadata, ..ConfigMap::default() }
}

/// Everything that clients see of one run, in the order in which they see it.
async fn run(seed: u64) -> Vec<String> {
    let server = server(seed);
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let note = |text: String| seen.lock().unwrap().push(text);
    let mut watches = Vec::new();
    for number in 0..WATCHES {
        let (maps, seen) = (maps.clone(), seen.clone());
        watches.push(tokio::spawn(async move {
            // Longer than two bookmarks.
            let mut events = maps.watch(&WatchParams::default().timeout(150), "0").await.unwrap().boxed();
            while let Some(event) = events.next().await {
                seen.lock().unwrap().push(format!("watch {number}: {}", describe(event.unwrap())));
            }
            seen.lock().unwrap().push(format!("watch {number} ended"));
        }));
    }
    server.faults().add(Fault::Sometimes(Match::of("get", "configmaps"), 503, 0.5));
    for step in 0..5 {
        let made = maps.create(&PostParams::default(), &map("m-")).await.unwrap();
        note(serde_json::to_string(&made).unwrap());
        let name = made.metadata.name.unwrap();
        note(format!(
            "get: {:?}",
            maps.get(&name).await.map(|map| map.metadata.uid).map_err(|error| error.to_string())
        ));
        if step % 2 == 0 {
            maps.delete(&name, &DeleteParams::default()).await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(700)).await;
    }
    let pod = json!({"metadata": {"generateName": "p-"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    let made = pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    let deleted = pods.delete(&made.metadata.name.unwrap(), &DeleteParams::default()).await.unwrap();
    note(format!("{:?}", deleted.left().map(|pod| pod.metadata.deletion_timestamp)));
    for watch in watches {
        watch.await.unwrap();
    }
    note(server.new_token());
    note(format!("{:?}", server.store().snapshot()));
    seen.lock().unwrap().clone()
}

fn describe(event: WatchEvent<ConfigMap>) -> String {
    match event {
        WatchEvent::Added(map) => format!("added {}", serde_json::to_string(&map).unwrap()),
        WatchEvent::Modified(map) => format!("modified {}", serde_json::to_string(&map).unwrap()),
        WatchEvent::Deleted(map) => format!("deleted {}", serde_json::to_string(&map).unwrap()),
        WatchEvent::Bookmark(bookmark) => format!("bookmark {}", bookmark.metadata.resource_version),
        WatchEvent::Error(error) => panic!("{error:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn two_runs_with_the_same_seed_are_equal() {
    let first = run(7).await;
    let count = |text: &str| first.iter().filter(|line| line.contains(text)).count();
    assert_eq!((count("added"), count("bookmark"), count("ended")), (5 * WATCHES, 2 * WATCHES, WATCHES), "{first:#?}");
    assert_eq!(count("get: Ok") + count("get: Err"), 5);
    for _ in 0..3 {
        assert_eq!(first, run(7).await);
    }
    assert_ne!(first, run(8).await);
}

#[tokio::test(start_paused = true)]
async fn the_injected_clock_gives_all_timestamps() {
    let server = server(1);
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client());
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let made = maps.create(&PostParams::default(), &map("m-")).await.unwrap();
    assert_eq!(made.metadata.creation_timestamp.unwrap().0.to_string(), "2030-01-02T04:04:05Z");
}

/// A client of the router needs no TCP port, and its watch sees the writes of another client.
#[tokio::test(start_paused = true)]
async fn a_client_in_the_same_process_creates_and_watches() {
    let server = server(1);
    let watching: Api<ConfigMap> = Api::default_namespaced(server.client());
    let mut events = watching.watch(&WatchParams::default().timeout(10), "0").await.unwrap().boxed();
    let writing: Api<ConfigMap> = Api::default_namespaced(kube::Client::new(server.router(), "default"));
    let made = writing.create(&PostParams::default(), &map("m-")).await.unwrap();
    let begin = Instant::now();
    match events.try_next().await.unwrap() {
        Some(WatchEvent::Added(seen)) => assert_eq!(seen, made),
        other => panic!("{other:?}"),
    }
    assert!(events.try_next().await.unwrap().is_none(), "the watch ends at its timeout");
    assert_eq!(begin.elapsed(), Duration::from_secs(10));
}
