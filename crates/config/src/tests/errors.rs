//! How mistakes are reported.

use super::{files, load, loaded};
use crate::{Loader, Sources, check};

fn errors(text: &str) -> String {
    Loader::new().draft(&Sources::file("config.yaml", text)).finish().unwrap_err().to_string()
}

#[test]
fn four_different_mistakes_are_reported_at_once() {
    let text = "\
executor:
  maxSystemFailure: 3
  requeueDuration: soon
plugins:
  k8s:
    default-tolerations:
      - key: a
        efect: NoSchedule
    inject-finalizer: perhaps
";
    assert_eq!(
        errors(text),
        "\
config.yaml:2: executor.maxSystemFailure: unknown key; did you mean \"maxSystemFailures\"?
config.yaml:3: executor.requeueDuration: expected a duration such as 30s, 5m or 1h30m, found the text \"soon\"
config.yaml:8: plugins.k8s.default-tolerations.0.efect: unknown key; did you mean \"effect\"?
config.yaml:9: plugins.k8s.inject-finalizer: expected true or false, found the text \"perhaps\""
    );
}

#[test]
fn mistakes_of_all_sources_are_reported_together() {
    let mut sources = files(&["executor: 5\n", "a: [1\nb: 2\n", "webhook:\n  listenPort: [1]\n"]);
    sources.environment.insert("LOGGER.LEVEL".into(), "loud".into());
    let report = check(&sources);
    let text = report.render();
    let starts = [
        "error: a.yaml:1: executor: expected a map of settings, found the number 5\n",
        "error: b.yaml:2: not valid YAML: ",
        "error: c.yaml:2: webhook.listenPort: expected a whole number, found a list\n",
        "error: environment variable LOGGER.LEVEL: logger.level: expected a whole number, found the text \"loud\"\n",
    ];
    for start in starts {
        assert!(text.contains(start), "{start}\nis not in\n{text}");
    }
    assert!(!report.is_ok());
    assert_eq!(text.lines().filter(|line| line.starts_with("error: ")).count(), 4, "{text}");
}

#[test]
fn a_key_in_the_wrong_section_gets_the_right_section_as_a_suggestion() {
    assert_eq!(
        errors("plugins:\n  maxSystemFailures: 3\n  requeueDuration: 1s\n"),
        "config.yaml:2: plugins.maxSystemFailures: unknown key; did you mean executor.maxSystemFailures or \
         plugins.connector-service.webApi.caching.maxSystemFailures?\n\
         config.yaml:3: plugins.requeueDuration: unknown key; did you mean executor.requeueDuration?"
    );
}

#[test]
fn a_dotted_key_is_not_a_path() {
    assert_eq!(errors("executor.cluster: x\n"), "config.yaml:1: executor.cluster: unknown key");
}

#[test]
fn values_of_the_right_type_that_cannot_be_used_are_errors() {
    assert_eq!(
        errors("executor:\n  maxSystemFailures: -1\n  requeueDuration: -1s\notel: {sampler: {traceIdRatio: 2}}\n"),
        "config.yaml:2: executor.maxSystemFailures: executor: maxSystemFailures must be non-negative, got -1\n\
         config.yaml:3: executor.requeueDuration: executor: requeueDuration must not be negative, got -1s\n\
         config.yaml:4: otel.sampler.traceIdRatio: must lie between 0 and 1, got 2"
    );
}

#[test]
fn a_word_must_be_one_of_the_enumeration() {
    assert_eq!(load("cache: {type: redis}").cache.kind, crate::sections::cache::CacheType::Redis);
    assert_eq!(
        errors("cache: {type: disk}"),
        "config.yaml:1: cache.type: expected one of InMemoryFixedSize, Redis, found the text \"disk\""
    );
}

#[test]
fn a_section_of_another_service_gives_only_a_note() {
    let sources = files(&["runs: {server: {port: 1}}\nexecutor: {cluster: c}\nplugins: {K8s-Array: {a: b}}\n"]);
    let report = check(&sources);
    assert!(report.is_ok());
    assert_eq!(
        report.render(),
        "note: not read, because they belong to other parts of Flyte: runs (a.yaml:1): the runs service; \
         plugins.K8s-Array (a.yaml:3): Flyte 1\n"
    );
    assert!(Loader::new().strict(true).load(&sources).is_ok());
}

#[test]
fn a_section_that_nobody_knows_gives_a_warning_and_in_strict_mode_an_error() {
    let sources = files(&["executer: {cluster: c}\nplugins:\n  sprak: {features: []}\nnothing: {like: it}\n"]);
    let report = check(&sources);
    assert_eq!(
        report.render(),
        "\
warning: a.yaml:1: executer: unknown section; did you mean \"executor\"?; it is not read, and --strict makes it an error
warning: a.yaml:3: plugins.sprak: unknown section; did you mean \"spark\"?; it is not read, and --strict makes it an error
warning: a.yaml:4: nothing: unknown section; it is not read, and --strict makes it an error
"
    );
    assert_eq!(
        Loader::new().strict(true).load(&sources).unwrap_err().to_string(),
        "a.yaml:1: executer: unknown section; did you mean \"executor\"?\n\
         a.yaml:3: plugins.sprak: unknown section; did you mean \"spark\"?\n\
         a.yaml:4: nothing: unknown section"
    );
    assert_eq!(errors("nothing: 5\n"), "config.yaml:1: nothing: unknown key", "a single value is no section");
}

#[test]
fn an_unknown_key_where_nothing_has_an_effect_gives_a_warning() {
    let sources = files(&["webhook:\n  fromTheFuture: 1\nplugins:\n  connector-service: {webApi: {later: {}}}\n"]);
    let report = check(&sources);
    assert!(report.is_ok());
    let text = report.render();
    assert!(text.contains("warning: a.yaml:2: webhook.fromTheFuture: unknown key; it is not read"), "{text}");
    assert!(text.contains("warning: a.yaml:4: plugins.connector-service.webApi.later: unknown key"), "{text}");
    assert_eq!(Loader::new().strict(true).load(&sources).unwrap_err().0.len(), 2);
}

#[test]
fn values_that_do_not_fit_their_type_are_reported_with_their_line() {
    let text = "\
tasks:
  pools:
    matlab:
      quota: -1
plugins:
  k8s:
    accelerator-device-classes:
      NVIDIA_GPU:
        pod-template: {template: {spec: {containers: [{name: a, livenessProbe: {httpGet: {port: 99999999999}}}]}}}
executor:
  clutser: x
  maxConcurrentReconciles: -1
";
    let said = errors(text);
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(
        lines[0],
        "config.yaml:4: tasks.pools.matlab.quota: expected a whole number from 0 to 4294967295, found the number -1"
    );
    assert!(lines[1].starts_with("config.yaml:11: executor.clutser: unknown key"), "{said}");
    assert!(lines[2].starts_with("config.yaml:9: plugins.k8s.accelerator-device-classes.nvidia_gpu.pod-template"));
    assert!(lines[2].contains("the value cannot be used: "), "{said}");
    assert_eq!(lines[3], "config.yaml:12: executor.maxConcurrentReconciles: must not be negative, got -1");
    assert_eq!(lines.len(), 4, "{said}");
}

#[test]
fn keys_that_differ_only_in_letter_case_are_reported() {
    let text = "\
tasks:
  pools:
    matlab: {quota: 1}
    Matlab: {quota: 2}
executor:
  cluster: a
  Cluster: b
";
    assert_eq!(
        errors(text),
        "config.yaml:4: tasks.pools.matlab: \"Matlab\" is the same key as \"matlab\" in line 3, because the letter case \
         does not matter; remove one of them\n\
         config.yaml:7: executor.cluster: \"Cluster\" is the same key as \"cluster\" in line 6, because the letter case \
         does not matter; remove one of them"
    );
    load("plugins: {k8s: {default-env-vars: [{A: x}, {a: y}]}}");
}

#[test]
fn a_take_over_needs_a_lease() {
    assert_eq!(
        errors("executor:\n  leaderElectTakeOver: true\n"),
        "config.yaml:2: executor.leaderElectTakeOver: needs executor.leaderElect: true, because the lease is what is \
         taken over"
    );
}

#[test]
fn a_duration_without_a_unit_is_not_taken_for_seconds() {
    assert_eq!(
        errors("executor:\n  requeueDuration: 10\n"),
        "config.yaml:2: executor.requeueDuration: expected a duration with a unit, such as 10s; a number without a unit \
         counts nanoseconds, found the number 10"
    );
    let shown = loaded(&files(&["executor: {requeueDuration: 10}"]));
    assert_eq!(shown.config.executor.requeue_duration.as_nanos(), 10, "`config show` tells what upstream would do");
    assert!(shown.warnings[0].message.ends_with("`run` refuses it"), "{:?}", shown.warnings);
    assert_eq!(load("executor: {requeueDuration: 0}").executor.requeue_duration.as_nanos(), 0);
}

#[test]
fn labels_selectors_and_tolerations_that_kubernetes_refuses_are_reported() {
    let text = "\
plugins:
  k8s:
    default-node-selector:
      not/a/key: x
      pool: not a value
    default-tolerations:
      - {key: a, effect: NoSchedule}
      - {key: a, effect: Never}
    interruptible-node-selector-requirement: {key: a, operator: In}
    default-labels:
      - Team: \"-x\"
    image-pull-policy: sometimes
";
    let said = errors(text);
    let starts = [
        "config.yaml:11: plugins.k8s.default-labels.Team: Kubernetes does not allow such a value",
        "config.yaml:4: plugins.k8s.default-node-selector.not/a/key: Kubernetes does not allow such a key",
        "config.yaml:5: plugins.k8s.default-node-selector.pool: Kubernetes does not allow such a value",
        "config.yaml:8: plugins.k8s.default-tolerations.1: effect \"Never\" is unknown",
        "config.yaml:9: plugins.k8s.interruptible-node-selector-requirement: the operator In needs values",
        "config.yaml:12: plugins.k8s.image-pull-policy: \"sometimes\" is unknown",
    ];
    assert_eq!(said.lines().count(), starts.len(), "{said}");
    for (line, start) in said.lines().zip(starts) {
        assert!(line.starts_with(start), "{line}\ndoes not begin with\n{start}");
    }
}

#[test]
fn a_value_that_is_already_wrong_is_not_checked_again() {
    let mut draft = Loader::new().draft(&files(&["storage: {container: [a]}\nexecutor: {cluster: c}\n"]));
    draft.reject(&["storage", "container"], "is not set");
    draft.reject(&["executor", "cluster"], "is odd");
    let said: Vec<_> = draft.errors().iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        ["a.yaml:1: storage.container: expected a text, found a list", "a.yaml:2: executor.cluster: is odd"]
    );
}

#[test]
fn values_are_not_missing_while_a_file_cannot_be_read() {
    let mut draft = Loader::new().draft(&files(&["a: [1\nb: 2\n", "executor: {cluster: c}\n"]));
    draft.reject(&["storage", "container"], "is not set");
    draft.reject(&["executor", "cluster"], "is odd");
    assert_eq!(draft.errors().len(), 2, "{:?}", draft.errors());
    let mut draft = Loader::new().draft(&files(&["executor: {cluster: c}\n"]));
    draft.reject(&["storage", "container"], "is not set");
    assert_eq!(draft.errors()[0].to_string(), "storage.container: is not set");
}
