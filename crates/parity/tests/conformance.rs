//! The sandbox API beside a real kube-apiserver: the same exchanges, the same answers.
//!
//! `conformance/*.txt` hold the cases. Each is played against both servers in a namespace of its own, and after every
//! step the two answers are compared, apart from times, uids and revisions. `conformance/script.rs` says how a case
//! is written.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

#[path = "conformance/normal.rs"]
mod normal;
#[path = "conformance/play.rs"]
mod play;
#[path = "conformance/script.rs"]
mod script;

use aileron_apiserver::{ApiServer, Options};
use aileron_parity::cluster::{Cluster, User};
use anyhow::Result;

/// How many cases there are at least; fewer means that a file was lost.
const CASES: usize = 120;

const FILES: [(&str, &str); 9] = [
    ("create", include_str!("conformance/create.txt")),
    ("update", include_str!("conformance/update.txt")),
    ("patch", include_str!("conformance/patch.txt")),
    ("delete", include_str!("conformance/delete.txt")),
    ("list", include_str!("conformance/list.txt")),
    ("watch", include_str!("conformance/watch.txt")),
    ("custom", include_str!("conformance/custom.txt")),
    ("pods", include_str!("conformance/pods.txt")),
    ("limits", include_str!("conformance/limits.txt")),
];

async fn compare(file: &str) -> Result<()> {
    let (name, text) = FILES.iter().find(|(name, _)| *name == file).unwrap();
    let cases = script::parse(text)?;
    let real = play::Side::new(Cluster::shared().await?.client(User::Admin).await?);
    // A bare API server has no controllers, so neither has ours here.
    let ours = play::Side::new(ApiServer::new(Options { controllers: false, ..Options::default() }).client());
    real.prepare().await?;
    ours.prepare().await?;
    let only = std::env::var("ONLY").unwrap_or_default();
    let mut differences = Vec::new();
    for (index, case) in cases.iter().enumerate().filter(|(_, case)| case.name.contains(&only)) {
        let namespace = format!("{name}-{index}");
        let expected = real.play(case, &namespace).await?;
        let found = ours.play(case, &namespace).await?;
        for (step, (expected, found)) in case.steps.iter().zip(expected.iter().zip(&found)) {
            if let Some(difference) = normal::difference(step, expected, found) {
                differences.push(format!("{name}: {}\n  {}\n{difference}", case.name, step.text));
                break;
            }
        }
    }
    let (count, total) = (differences.len(), cases.len());
    assert!(differences.is_empty(), "{count} of {total} cases differ\n\n{}", differences.join("\n"));
    Ok(())
}

macro_rules! files {
    ($($file:ident),*) => {$(
        #[tokio::test]
        async fn $file() -> Result<()> {
            compare(stringify!($file)).await
        }
    )*};
}

files!(create, update, patch, delete, list, watch, custom, pods, limits);

#[test]
fn there_are_enough_cases() {
    let count: usize = FILES.iter().map(|(_, text)| script::parse(text).unwrap().len()).sum();
    assert!(count >= CASES, "{count}");
}

/// The comparison must see differences, else the suites prove nothing.
#[test]
fn a_difference_is_seen() {
    let step = script::parse("# x\nGET pods/p").unwrap().remove(0).steps.remove(0);
    let answer = |text: &str| play::Answer { code: 404, body: serde_json::from_str(text).unwrap() };
    assert!(normal::difference(&step, &answer(r#"{"message":"a"}"#), &answer(r#"{"message":"b"}"#)).is_some());
    assert!(normal::difference(&step, &answer(r#"{"message":"a"}"#), &answer(r#"{"message":"a"}"#)).is_none());
}
