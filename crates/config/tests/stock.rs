//! Configurations with the keys of Flyte's charts can be used as they are.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::path::Path;

use aileron_config::{Loaded, Loader, Sources, files};

/// The folders below `tests/stock`, one for each configuration.
const ALL: [&str; 4] = ["flyte-binary", "flyte-devbox", "from-flyte-1", "local-manager"];

fn sources(name: &str) -> Sources {
    let pattern = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stock").join(name).join("*.yaml");
    let files = files::read(&[pattern.display().to_string()]).unwrap();
    Sources { files, ..Sources::default() }
}

fn loaded(name: &str) -> Loaded {
    Loader::new().draft(&sources(name)).finish().unwrap_or_else(|errors| panic!("{name}:\n{errors}"))
}

#[test]
fn every_folder_is_tested() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stock");
    let mut found: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    found.sort_unstable();
    assert_eq!(found, ALL);
}

#[test]
fn stock_configurations_are_accepted_also_in_strict_mode() {
    for name in ALL {
        loaded(name);
        let strict = Loader::new().strict(true).draft(&sources(name)).finish();
        assert!(strict.is_ok(), "{name}: {:?}", strict.err());
    }
}

#[test]
fn sections_of_other_services_are_named_once_and_settings_without_effect_too() {
    for name in ALL {
        let loaded = loaded(name);
        assert_eq!(loaded.notes.len(), 1, "{name}: {:?}", loaded.notes);
        let without_effect = loaded.warnings.iter().filter(|warning| warning.message.contains("have no effect"));
        assert_eq!(without_effect.count(), 1, "{name}: {:?}", loaded.warnings);
        // The charts write booleans for texts. Upstream makes digits of them.
        let others = loaded.warnings.iter().filter(|warning| !warning.message.contains("have no effect"));
        assert!(others.clone().all(|it| it.path.starts_with("storage.stow.config.")), "{name}: {:?}", loaded.warnings);
    }
    let note = loaded("flyte-binary").notes.remove(0);
    for section in ["actions (", "dataproxy (", "; runs (", "secret (", "plugins.k8s-array ("] {
        assert_eq!(note.matches(section).count(), 1, "{section}: {note}");
    }
}

#[test]
fn values_of_stock_configurations_reach_their_keys() {
    let binary = loaded("flyte-binary").config;
    assert_eq!(binary.storage.container, "example-metadata");
    assert_eq!(binary.plugins.k8s.co_pilot.storage_config_secret_name, "copilot-storage");
    assert_eq!(binary.tasks.task_plugins.default_for_task_types["container_array"], "k8s-array");
    let devbox = loaded("flyte-devbox").config;
    assert_eq!(devbox.plugins.k8s.default_env_vars["_U_USE_ACTIONS"], "1", "the later file replaces the list");
    assert_eq!(devbox.storage.stow.config["endpoint"], "http://objects.sandbox:9000");
    assert_eq!(devbox.storage.stow.config["secret_key"], "not-a-secret", "maps of two files are merged");
    assert_eq!(devbox.plugins.k8s.default_cpus.to_string(), "1", "no part of Flyte 2 reads task_resources");
}
