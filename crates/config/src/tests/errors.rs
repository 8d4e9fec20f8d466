//! Mistakes and how they are told.

use super::super::{Loader, Sources, check};
use super::{files, load};

fn errors(text: &str) -> String {
    Loader::new().load(&Sources::file("config.yaml", text)).unwrap_err().to_string()
}

#[test]
fn four_different_mistakes_are_told_at_once() {
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
fn mistakes_of_all_sources_are_told_together() {
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
fn a_key_in_the_wrong_section_is_sent_home() {
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
fn values_that_fit_and_cannot_be_used() {
    assert_eq!(
        errors("executor:\n  maxSystemFailures: -1\n  requeueDuration: -1s\notel: {sampler: {traceIdRatio: 2}}\n"),
        "config.yaml:2: executor.maxSystemFailures: executor: maxSystemFailures must be non-negative, got -1\n\
         config.yaml:3: executor.requeueDuration: executor: requeueDuration must not be negative, got -1s\n\
         config.yaml:4: otel.sampler.traceIdRatio: must lie between 0 and 1, got 2"
    );
}

#[test]
fn words_must_be_known_ones() {
    assert_eq!(load("cache: {type: redis}").cache.kind, super::super::sections::cache::CacheType::Redis);
    assert_eq!(
        errors("cache: {type: disk}"),
        "config.yaml:1: cache.type: expected one of InMemoryFixedSize, Redis, found the text \"disk\""
    );
}

#[test]
fn sections_of_other_services_are_only_warned_about() {
    let report = check(&files(&["runs: {server: {port: 1}}\nexecutor: {cluster: c}\n"]));
    assert!(report.is_ok());
    assert_eq!(report.render(), "warning: a.yaml:1: runs: section of another Flyte service, not read here\n");
}
