#![allow(clippy::unwrap_used, clippy::panic)]

mod errors;
mod explanations;
mod sources;
mod upstream_habits;

use super::{Config, Loaded, Loader, SourceFile, Sources};

/// Loads one file.
fn load(text: &str) -> Config {
    loaded(&Sources::file("config.yaml", text)).config
}

fn loaded(sources: &Sources) -> Loaded {
    Loader::new().load(sources).unwrap_or_else(|errors| panic!("{errors}"))
}

/// The sources in order: `a.yaml`, `b.yaml`, ...
fn files(texts: &[&str]) -> Sources {
    let files = texts
        .iter()
        .zip('a'..)
        .map(|(text, letter)| SourceFile { name: format!("{letter}.yaml"), text: (*text).to_owned() })
        .collect();
    Sources { files, ..Sources::default() }
}
