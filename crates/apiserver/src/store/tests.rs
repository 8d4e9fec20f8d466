#![allow(clippy::unwrap_used)]

use serde_json::json;

use super::*;
use crate::kinds::registry::Registry;

fn map(name: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "n", "uid": name}})
}

#[test]
fn a_cursor_reads_each_change_once() {
    let (store, kind) = (Store::new(10), Registry::new().by_resource("configmaps").unwrap());
    store.lock().put(&kind, map("a"));
    let (listed, mut cursor) = store.open(&kind.resource, "", WatchStart::Now).unwrap();
    assert_eq!(listed.len(), 1);
    assert!(cursor.advance(&store).unwrap().is_empty());
    store.lock().put(&kind, map("b"));
    store.lock().remove(&kind, &Key::new("n", "a")).unwrap();
    let seen: Vec<_> =
        cursor.advance(&store).unwrap().iter().map(|c| (c.change_type, c.object.key.name.clone())).collect();
    assert_eq!(seen, [(ChangeType::Added, "b".to_owned()), (ChangeType::Deleted, "a".to_owned())]);
    assert!(cursor.advance(&store).unwrap().is_empty());
}

#[test]
fn a_cursor_that_is_too_far_behind_is_told_so() {
    let (store, kind) = (Store::new(2), Registry::new().by_resource("configmaps").unwrap());
    let (_, mut cursor) = store.open(&kind.resource, "", WatchStart::Now).unwrap();
    for name in ["a", "b", "c", "d"] {
        store.lock().put(&kind, map(name));
    }
    let error = cursor.advance(&store).unwrap_err();
    assert_eq!((error.code, error.message.as_str()), (410, "too old resource version: 0 (2)"));
    assert!(store.open(&kind.resource, "", WatchStart::After(1)).is_err());
    assert_eq!(store.open(&kind.resource, "", WatchStart::After(2)).unwrap().1.advance(&store).unwrap().len(), 2);
    store.compact();
    assert!(store.open(&kind.resource, "", WatchStart::After(3)).is_err());
    assert!(store.open(&kind.resource, "", WatchStart::After(4)).is_ok());
}

#[test]
fn renumbered_objects_are_the_same_with_lower_revisions() {
    let (store, kind) = (Store::new(10), Registry::new().by_resource("configmaps").unwrap());
    for name in ["b", "a", "c", "b"] {
        store.lock().put(&kind, map(name));
    }
    store.renumber();
    let versions: Vec<_> = store
        .objects("configmaps")
        .iter()
        .map(|object| format!("{}@{}", object["metadata"]["name"], object["metadata"]["resourceVersion"]))
        .collect();
    assert_eq!(versions, ["\"a\"@\"1\"", "\"b\"@\"3\"", "\"c\"@\"2\""]);
    assert_eq!(store.lock().put(&kind, map("d")).revision, 4);
}

#[test]
fn a_cursor_that_has_read_everything_goes_on_after_the_history_was_dropped() {
    let (store, registry) = (Store::new(10), Registry::new());
    let (maps, others) = (registry.by_resource("configmaps").unwrap(), registry.by_resource("secrets").unwrap());
    let (_, mut reader) = store.open(&maps.resource, "", WatchStart::Now).unwrap();
    let (_, mut late) = store.open(&maps.resource, "", WatchStart::Now).unwrap();
    store.lock().put(&maps, map("a"));
    assert_eq!(reader.advance(&store).unwrap().len(), 1);
    // Changes of other resources raise the revision, but the reader has missed none of its own.
    store.lock().put(&others, map("b"));
    store.compact();
    store.lock().put(&maps, map("c"));
    assert_eq!(reader.advance(&store).unwrap().len(), 1);
    assert_eq!(late.advance(&store).unwrap_err().code, 410);
}

#[test]
fn an_observer_receives_every_write_however_short_the_history_is() {
    let (store, kind) = (Store::new(1), Registry::new().by_resource("configmaps").unwrap());
    store.lock().put(&kind, map("a"));
    let mut observer = store.observe();
    drop(store.observe());
    store.lock().put(&kind, map("a"));
    store.compact();
    store.lock().put(&kind, map("b"));
    store.lock().remove(&kind, &Key::new("n", "a"));
    let mut seen = Vec::new();
    while let Ok(Observed { change_type, revision, object, .. }) = observer.try_recv() {
        seen.push((change_type, revision, object.key.name.clone()));
    }
    let expected = [
        (ChangeType::Added, 1, "a"),
        (ChangeType::Modified, 2, "a"),
        (ChangeType::Added, 3, "b"),
        (ChangeType::Deleted, 4, "a"),
    ];
    assert_eq!(seen, expected.map(|(change_type, revision, name)| (change_type, revision, name.to_owned())));
    assert_eq!(store.lock().content.observers.len(), 1, "an observer that is gone is dropped");
}
