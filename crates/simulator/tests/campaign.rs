//! A short form of the campaigns that `make simulate` runs.
#![allow(missing_docs, clippy::unwrap_used)]

use std::process::{Command, Output};

fn simulate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_aileron-simulator")).args(arguments).output().unwrap()
}

#[track_caller]
fn succeeds(arguments: &[&str]) {
    let output = simulate(arguments);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}\n{}", text, String::from_utf8_lossy(&output.stderr));
}

#[test]
fn executors_keep_their_promises_in_a_faulty_cluster() {
    succeeds(&["campaign", "--seeds", "120"]);
}

#[test]
fn a_crash_or_a_loss_at_any_write_and_any_change_breaks_no_promise() {
    succeeds(&["patterns", "--every", "5"]);
}

#[test]
fn the_same_seed_gives_the_same_history() {
    for seed in ["3", "19", "57"] {
        let one = simulate(&["run", "--seed", seed, "--history"]);
        let other = simulate(&["run", "--seed", seed, "--history"]);
        assert!(one.stdout.len() > 1_000);
        assert_eq!(String::from_utf8_lossy(&one.stdout), String::from_utf8_lossy(&other.stdout));
    }
}
