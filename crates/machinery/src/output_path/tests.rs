#![allow(clippy::unwrap_used)]

use super::*;
use proptest::prelude::*;

fn prefix(base: &str) -> String {
    action_output_prefix("ns", "n", base, "a", 1).unwrap()
}

#[test]
fn the_shard_stands_behind_the_bucket() {
    for (base, want) in [
        ("s3://bkt/base/run", "s3://bkt/gh/base/run/a/1"),
        ("s3://bkt/base/run/", "s3://bkt/gh/base/run/a/1"),
        ("s3://bkt", "s3://bkt/gh/a/1"),
        ("gs://b/x//y", "gs://b/gh/x//y/a/1"),
        ("abfs://c@acct/x", "abfs://c@acct/gh/x/a/1"),
        ("S3://b:9000/x", "s3://b:9000/gh/x/a/1"),
        ("/local/path", "/gh/local/path/a/1"),
        ("local", "/gh/local/a/1"),
        ("", "/gh/a/1"),
    ] {
        assert_eq!(prefix(base), want);
    }
}

#[test]
fn local_directories_are_not_left() {
    assert_eq!(prefix("file:///tmp/x"), "file:///tmp/x/gh/a/1");
    assert_eq!(prefix("file:///tmp/x/"), "file:///tmp/x/gh/a/1");
    assert_eq!(prefix("file:/tmp/x"), "file:/tmp/x/gh/a/1");
    assert_eq!(prefix("file:///"), "file:///gh/a/1");
}

#[test]
fn paths_are_escaped_as_go_escapes_them() {
    for (base, want) in [
        ("s3://b/a b", "s3://b/gh/a%20b/a/1"),
        ("s3://b/a%20b", "s3://b/gh/a%20b/a/1"),
        ("s3://b/a%2fb", "s3://b/gh/a/b/a/1"),
        ("s3://b/ü(1)", "s3://b/gh/%C3%BC%281%29/a/1"),
        ("s3://b/x=1,y@2;z", "s3://b/gh/x=1,y@2;z/a/1"),
        ("s3://b/x?v=1#f", "s3://b/gh/x/a/1?v=1#f"),
    ] {
        assert_eq!(prefix(base), want);
    }
}

#[test]
fn unusable_bases_are_refused() {
    for base in ["s3://b/%zz", "s3://b/%a", "://b", "s3:b", "s3://b\n", "s3://b c/x", "a:b/c", "s3://b:port/x", "1:/x"]
    {
        let error = action_output_prefix("ns", "n", base, "a", 1).unwrap_err();
        assert!(error.to_string().starts_with(&format!("invalid RunOutputBase {base:?}: ")), "{error}");
    }
}

#[test]
fn attempts_and_actions_are_kept_apart() {
    let path = |action, attempt| action_output_prefix("ns", "n", "s3://b/x", action, attempt).unwrap();
    assert_eq!(path("a0", u32::MAX), "s3://b/gh/x/a0/4294967295");
    assert_ne!(path("a", 1), path("a", 2));
    assert_ne!(path("a", 1), path("b", 1));
}

proptest! {
    #[test]
    fn any_base_gives_a_path_or_an_error(base in "(s3|file|)(:/{0,3})?\\PC{0,20}") {
        let _ = action_output_prefix("ns", "n", &base, "a", 1);
    }

    #[test]
    fn names_pick_one_of_all_shards(name in "[a-z0-9-]{1,20}") {
        let path = action_output_prefix("ns", &name, "s3://b/x", "a", 1).unwrap();
        let shard = path.strip_prefix("s3://b/").unwrap().strip_suffix("/x/a/1").unwrap();
        prop_assert!(shard.len() == 2 && shard.bytes().all(|byte| SHARD_CHARACTERS.contains(&byte)));
    }
}
