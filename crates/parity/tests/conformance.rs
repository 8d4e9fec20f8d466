//! Compares the sandbox API with a real kube-apiserver: the same requests must have the same answers.
//!
//! The cases are in `conformance/*.txt`. Each case runs on both servers in its own namespace. The answers to every step are
//! compared, except times, UIDs and resource versions. `conformance/script.rs` describes the format of a case.
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

/// The minimum number of cases. Fewer means that a file is missing.
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
    // The real API server runs without controllers here, so the sandbox does too.
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

/// The comparison must find differences; otherwise these tests prove nothing.
#[test]
fn a_difference_is_found() {
    let step = script::parse("# x\nGET pods/p").unwrap().remove(0).steps.remove(0);
    let answer = |text: &str| play::Answer { code: 404, body: serde_json::from_str(text).unwrap() };
    assert!(normal::difference(&step, &answer(r#"{"message":"a"}"#), &answer(r#"{"message":"b"}"#)).is_some());
    assert!(normal::difference(&step, &answer(r#"{"message":"a"}"#), &answer(r#"{"message":"a"}"#)).is_none());
}
