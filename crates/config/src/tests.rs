#![allow(clippy::unwrap_used, clippy::panic)]

mod errors;
mod explanations;
mod hidden_credentials;
mod no_effect;
mod plugin_sections;
mod sources;
mod unread_fields;
mod upstream_rules;

use crate::{Config, Loaded, Loader, SourceFile, Sources};

/// The configuration of a single file.
fn load(text: &str) -> Config {
    loaded(&Sources::file("config.yaml", text)).config
}

fn loaded(sources: &Sources) -> Loaded {
    Loader::new().load(sources).unwrap_or_else(|errors| panic!("{errors}"))
}

/// Files with these texts, named `a.yaml`, `b.yaml` and so on.
fn files(texts: &[&str]) -> Sources {
    let files = texts
        .iter()
        .zip('a'..)
        .map(|(text, letter)| SourceFile { name: format!("{letter}.yaml"), text: (*text).to_owned() })
        .collect();
    Sources { files, ..Sources::default() }
}
