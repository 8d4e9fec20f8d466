//! Every file of `fuzz/corpus` through its target: no panic, within a time and without much memory.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use aileron_fuzz_targets::{NAMES, Target};

/// A file takes about a millisecond; this is for a machine that is busy with other tests, and still finds what hangs.
const LONGEST: Duration = Duration::from_secs(20);

/// Files are a few kilobytes. Whoever needs this much for one of them uses memory without bound.
const MOST_MEMORY: u64 = 256 << 20;

/// The corpus is part of the repository, so it stays small.
const LARGEST_CORPUS: u64 = 1 << 20;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus")
}

fn files(target: &str) -> Vec<PathBuf> {
    let folder = corpus().join(target);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// The most memory that this process ever had; 0 where the system does not tell.
fn peak_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")).map_or(0, |number| number.parse::<u64>().unwrap() << 10)
}

/// Runs the target on a thread of its own, so that an input that hangs is named.
fn replay(name: &str) {
    let target = Target::new(name).unwrap();
    for file in files(name) {
        let data = fs::read(&file).unwrap();
        let before = peak_memory();
        let (done, ended) = mpsc::channel();
        let target = target.clone();
        let run = thread::spawn(move || {
            target.run(&data);
            let _ = done.send(());
        });
        match ended.recv_timeout(LONGEST) {
            Ok(()) => run.join().unwrap(),
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("{} takes longer than {LONGEST:?}", file.display()),
            Err(mpsc::RecvTimeoutError::Disconnected) => panic!("{} makes the target panic", file.display()),
        }
        let more = peak_memory().saturating_sub(before);
        assert!(more < MOST_MEMORY, "{} needs {} MiB", file.display(), more >> 20);
    }
}

/// One test after the other in one process: the memory that is measured is that of one input.
#[test]
fn every_file_of_the_corpus_is_answered() {
    for name in NAMES {
        replay(name);
    }
}

#[test]
fn every_target_has_a_corpus_and_a_binary() {
    let names: BTreeSet<_> = NAMES.iter().map(ToString::to_string).collect();
    let folders = fs::read_dir(corpus()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(folders.collect::<BTreeSet<_>>(), names);
    let binaries = fs::read_dir(corpus().join("../fuzz_targets")).unwrap();
    let binaries = binaries.map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned());
    assert_eq!(binaries.collect::<BTreeSet<_>>(), names);
    for name in NAMES {
        assert!(files(name).len() >= 10, "the corpus of {name} has few files");
    }
    let bytes: u64 = NAMES.iter().flat_map(|name| files(name)).map(|file| fs::metadata(file).unwrap().len()).sum();
    assert!(bytes < LARGEST_CORPUS, "the corpus has {bytes} bytes");
}

#[test]
fn an_unknown_target_is_an_error_that_lists_the_others() {
    let error = Target::new("nothing").err().unwrap().to_string();
    assert!(error.contains("task_template"), "{error}");
}
