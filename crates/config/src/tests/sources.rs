//! Files, environment variables and flags, and which of them wins.

use std::collections::BTreeMap;

use super::{files, load, loaded};
use crate::{Loader, Origin, files as read_files, parse_arguments};

#[test]
fn nothing_set_is_the_default() {
    assert_eq!(load(""), super::Config::default());
}

#[test]
fn a_later_file_wins_and_maps_are_merged() {
    let sources = files(&[
        "executor: {cluster: first, maxSystemFailures: 7}\nplugins: {k8s: {default-labels: {a: '1', b: '1'}}}",
        "executor: {cluster: second}\nplugins: {k8s: {default-labels: {b: '2', c: '2'}}}",
    ]);
    let config = loaded(&sources).config;
    assert_eq!(config.executor.cluster, "second");
    assert_eq!(config.executor.max_system_failures, 7);
    let labels: BTreeMap<_, _> = [("a", "1"), ("b", "2"), ("c", "2")].map(|(k, v)| (k.into(), v.into())).into();
    assert_eq!(config.plugins.k8s.default_labels, labels);
}

#[test]
fn lists_are_replaced_and_so_are_maps_written_as_lists() {
    let sources = files(&[
        "plugins: {k8s: {default-env-from-secrets: [a, b], default-env-vars: [{A: '1'}]}}",
        "plugins: {k8s: {default-env-from-secrets: [c], default-env-vars: [{B: '2'}]}}",
    ]);
    let k8s = loaded(&sources).config.plugins.k8s;
    assert_eq!(k8s.default_env_from_secrets, ["c"]);
    assert_eq!(k8s.default_env_vars.into_iter().collect::<Vec<_>>(), [("B".to_owned(), "2".to_owned())]);
}

#[test]
fn flags_win_over_environment_and_environment_over_files() {
    let mut sources = files(&["executor: {cluster: file, defaultK8sServiceAccount: file, EventsServiceURL: file}"]);
    sources.environment.insert("EXECUTOR.CLUSTER".into(), "env".into());
    sources.environment.insert("EXECUTOR.DEFAULTK8SSERVICEACCOUNT".into(), "env".into());
    sources.flags.push(("executor.cluster".into(), "flag".into()));
    let loaded = loaded(&sources);
    let executor = &loaded.config.executor;
    assert_eq!(executor.cluster, "flag");
    assert_eq!(executor.default_k8s_service_account, "env");
    assert_eq!(executor.events_service_url, "file");
    let origin = |key| loaded.set.origin(&["executor", key]);
    assert_eq!(origin("cluster"), Origin::Flag("executor.cluster".into()));
    assert_eq!(origin("defaultK8sServiceAccount"), Origin::Env("EXECUTOR.DEFAULTK8SSERVICEACCOUNT".into()));
    assert_eq!(origin("EventsServiceURL"), Origin::File { name: "a.yaml".into(), line: 1 });
    assert_eq!(origin("leaderElect"), Origin::Default);
}

#[test]
fn environment_variables_are_named_after_keys() {
    let mut sources = files(&["storage: {stow: {config: {endpoint: e}}}"]);
    for (name, value) in [
        ("PLUGINS.K8S.DEFAULT_CPUS", "250m"),
        ("PLUGINS.K8S.DEFAULT-MEMORY", "2Gi"),
        ("PLUGINS.K8S.DEFAULT_ENV_FROM_SECRETS", "a,b"),
        ("STORAGE.STOW.CONFIG.SECRET_KEY", "hush"),
        ("EXECUTOR.LEADERELECT", "true"),
        ("EXECUTOR.CLUSTER", ""),
        ("executor.cluster", "lower case is not ours"),
        ("PATH", "/bin"),
        ("OTHER.THING", "1"),
        ("EXECUTOR.NOPE", "1"),
    ] {
        sources.environment.insert(name.into(), value.into());
    }
    let loaded = loaded(&sources);
    let config = &loaded.config;
    assert_eq!(config.plugins.k8s.default_cpus.to_string(), "250m");
    assert_eq!(config.plugins.k8s.default_memory.to_string(), "2Gi");
    assert_eq!(config.plugins.k8s.default_env_from_secrets, ["a", "b"]);
    assert_eq!(config.storage.stow.config["secret_key"], "hush");
    assert_eq!(config.storage.stow.config["endpoint"], "e");
    assert!(config.executor.leader_elect);
    assert_eq!(config.executor.cluster, "");
    let warnings: Vec<String> = loaded.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings, ["environment variable EXECUTOR.NOPE: is ignored: it names no configuration key"]);
}

#[test]
fn flags_are_split_and_typed() {
    let arguments = [
        "--executor.leaderElect",
        "--executor.metricsSecure=false",
        "--executor.maxsystemfailures",
        "9",
        "--storage.stow.config",
        "access_key_id=k,endpoint=http://e",
        "--storage.stow.config",
        "region=r",
        "--plugins.k8s.default-env-from-secrets=a",
        "--plugins.k8s.default-env-from-secrets=b,c",
        "--plugins.k8s.default-tolerations=[{key: t}]",
    ];
    let mut sources = files(&[]);
    sources.flags = parse_arguments(&arguments).unwrap();
    let config = loaded(&sources).config;
    assert!(config.executor.leader_elect);
    assert!(!config.executor.metrics_secure);
    assert_eq!(config.executor.max_system_failures, 9);
    let stow: Vec<_> = config.storage.stow.config.iter().map(|(key, value)| format!("{key}={value}")).collect();
    assert_eq!(stow, ["access_key_id=k", "endpoint=http://e", "region=r"]);
    assert_eq!(config.plugins.k8s.default_env_from_secrets, ["a", "b", "c"]);
    assert_eq!(config.plugins.k8s.default_tolerations[0].key.as_deref(), Some("t"));
}

#[test]
fn bad_flags_are_all_reported() {
    let errors = parse_arguments(&["executor.cluster", "--executor.cluster"]).unwrap_err();
    assert_eq!(
        errors.to_string(),
        "flag --executor.cluster: expected a flag such as --section.key\nflag --executor.cluster: needs a value"
    );
    let mut sources = files(&[]);
    sources.flags = vec![("executor.clutser".into(), "x".into()), ("executor.gc.interval".into(), "often".into())];
    let errors = Loader::new().load(&sources).unwrap_err();
    assert_eq!(
        errors.to_string(),
        "flag --executor.clutser: unknown key; did you mean --executor.cluster?\n\
         flag --executor.gc.interval: executor.gc.interval: expected a duration such as 30s, 5m or 1h30m, found the \
         text \"often\""
    );
}

#[test]
fn patterns_are_expanded_and_files_read_once() {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in [("b.yaml", "executor: {cluster: b}"), ("a.yaml", "executor: {cluster: a}"), ("c.txt", "no")] {
        std::fs::write(directory.path().join(name), text).unwrap();
    }
    let path = |name: &str| directory.path().join(name).display().to_string();
    let files = read_files::read(&[path("*.yaml"), path("a.yaml")]).unwrap();
    assert_eq!(files.iter().map(|file| file.name.clone()).collect::<Vec<_>>(), [path("a.yaml"), path("b.yaml")]);
    assert_eq!(files[1].text, "executor: {cluster: b}");
    let errors = read_files::read(&[path("missing.yaml"), path("none-*.yaml")]).unwrap_err();
    assert_eq!(errors.0.len(), 2);
    let (missing, nothing) = (errors.0[1].to_string(), errors.0[0].to_string());
    assert!(missing.starts_with(&format!("{}: cannot read the file: ", path("missing.yaml"))), "{errors}");
    assert_eq!(nothing, format!("{}: cannot read the file: the pattern matches no file", path("none-*.yaml")));
}
