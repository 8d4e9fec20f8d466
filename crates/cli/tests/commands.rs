//! The binary as its users meet it: what it prints, and how it ends.
#![allow(clippy::unwrap_used, missing_docs)]

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

/// Runs the binary far away from any configuration and any cluster.
fn aileron(directory: &Path, arguments: &[&str]) -> Ended {
    let output = command(directory, arguments).output().unwrap();
    Ended {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

fn command(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_aileron"));
    command.args(arguments).current_dir(directory).env_clear().env("HOME", directory);
    command
}

fn anywhere(arguments: &[&str]) -> Ended {
    aileron(tempfile::tempdir().unwrap().path(), arguments)
}

#[test]
fn help_teaches_and_a_missing_command_is_a_usage_error() {
    let help = anywhere(&["--help"]);
    assert_eq!(help.code, Some(0));
    for text in ["To try it", "aileron run --config", "Exit codes: 0 success, 1 failure, 2", "plugins"] {
        assert!(help.out.contains(text), "{text} is not in:\n{}", help.out);
    }
    assert!(!help.out.contains('\u{1b}'), "no colours without a terminal");
    assert_eq!(anywhere(&[]).code, Some(2));
    let wrong = anywhere(&["run", "--kubconfig", "x"]);
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.err.contains("--kubeconfig"), "{}", wrong.err);
}

#[test]
fn version_is_text_or_json() {
    assert!(anywhere(&["version"]).out.starts_with(concat!("aileron ", env!("CARGO_PKG_VERSION"), " ")));
    let json: serde_json::Value = serde_json::from_str(&anywhere(&["version", "-o", "json"]).out).unwrap();
    assert_eq!(json["version"], env!("CARGO_PKG_VERSION"));
    let commit = json["commit"].as_str().unwrap();
    let hash = commit.trim_end_matches("-dirty");
    let is_hash = hash.len() == 40 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    let git = Command::new("git").args(["-C", env!("CARGO_MANIFEST_DIR"), "rev-parse", "HEAD"]).output();
    let is_checkout = git.is_ok_and(|output| output.status.success());
    assert!(is_hash || (hash == "unknown" && !is_checkout), "{commit}");
}

#[test]
fn the_crd_is_the_same_in_both_formats() {
    let json: serde_json::Value = serde_json::from_str(&anywhere(&["crd", "-o", "json"]).out).unwrap();
    assert_eq!(json["kind"], "CustomResourceDefinition");
    assert_eq!(json["metadata"]["name"], "taskactions.flyte.org");
    assert!(json.get("status").is_none());
    let yaml: serde_json::Value = serde_saphyr::from_str(&anywhere(&["crd"]).out).unwrap();
    assert_eq!(yaml, json);
    let refused = anywhere(&["crd", "--executor.cluster", "x"]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.err.contains("--executor.cluster"), "{}", refused.err);
}

#[test]
fn check_reports_all_mistakes_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let text = "executor:\n  clutser: east\n  maxSystemFailures: many\n";
    std::fs::write(directory.path().join("config.yaml"), text).unwrap();
    for arguments in [
        &["config", "check"][..],
        &["config", "check", "--config", "*.yaml"],
        &["config", "check", "--config", "config.yaml"],
    ] {
        let ended = aileron(directory.path(), arguments);
        assert_eq!(ended.code, Some(2), "{}", ended.err);
        assert!(ended.err.contains("config.yaml:2: executor.clutser: unknown key"), "{}", ended.err);
        assert!(ended.err.contains("config.yaml:3: executor.maxSystemFailures"), "{}", ended.err);
        assert!(ended.err.contains("error: storage.container: is not set"), "{}", ended.err);
        assert_eq!(ended.err.matches("error: ").count(), 3, "{}", ended.err);
        assert_eq!(ended.out, "3 mistakes\n");
    }
    let missing = anywhere(&["config", "check", "--config", "nowhere.yaml"]);
    assert_eq!(missing.code, Some(2));
    assert!(missing.err.contains("nowhere.yaml"), "{}", missing.err);
    assert_eq!(missing.err.matches("error: ").count(), 1, "what is missing may be in that file: {}", missing.err);
}

#[test]
fn check_refuses_exactly_what_run_refuses() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("config.yaml");
    let mem = "storage: {type: mem}\n";
    let cases = [
        (String::new(), vec!["storage.container: is not set"]),
        (
            format!("{mem}executor:\n  EventsServiceURL: localhost:8090\n"),
            vec!["./config.yaml:3: executor.EventsServiceURL: "],
        ),
        (format!("{mem}executor:\n  EventsServiceURL: ''\n"), vec!["./config.yaml:3: executor.EventsServiceURL: "]),
        (
            format!("{mem}executor:\n  healthProbeBindAddress: ':http'\n"),
            vec!["./config.yaml:3: executor.healthProbeBindAddress: \":http\" is not an address to listen on"],
        ),
        (
            "storage:\n  type: s4\n  container: c\n".into(),
            vec!["./config.yaml:2: storage.type: this executor has no storage"],
        ),
        (format!("{mem}executor:\n  requeueDuration: 10\n"), vec!["./config.yaml:3: executor.requeueDuration: "]),
        (
            format!("{mem}plugins:\n  k8s:\n    default-node-selector:\n      a b: c\n"),
            vec!["./config.yaml:5: plugins.k8s.default-node-selector.a b: "],
        ),
        (format!("{mem}logger:\n  formatter: {{type: xml}}\n"), vec!["./config.yaml:3: logger.formatter.type: "]),
        (
            format!(
                "{mem}executor:\n  clutser: east\n  healthProbeBindAddress: x\ntasks:\n  pools:\n    licences: {{quota: -1}}\n  \
                 task-plugins:\n    enabled-plugins:\n      - spark\n      - sprak\n"
            ),
            vec![
                "./config.yaml:3: executor.clutser: unknown key; did you mean \"cluster\"?",
                "./config.yaml:7: tasks.pools.licences.quota: expected a whole number from 0 to 4294967295",
                "./config.yaml:4: executor.healthProbeBindAddress: \"x\" is not an address",
                "./config.yaml:11: tasks.task-plugins.enabled-plugins.1: there is no plugin \"sprak\"; did you mean \"spark\"?",
            ],
        ),
    ];
    for (text, expected) in cases {
        std::fs::write(&file, &text).unwrap();
        let checked = aileron(directory.path(), &["config", "check"]);
        let run = aileron(directory.path(), &["run", "--kubeconfig", "/nowhere"]);
        assert_eq!((checked.code, run.code), (Some(2), Some(2)), "{text}\n{}\n{}", checked.err, run.err);
        assert_eq!(checked.err, run.err, "{text}");
        for words in &expected {
            assert!(checked.err.contains(&format!("error: {words}")), "{words} is not in:\n{}", checked.err);
        }
        assert_eq!(checked.err.matches("error: ").count(), expected.len(), "{text}\n{}", checked.err);
    }
    std::fs::write(&file, mem).unwrap();
    assert_eq!(aileron(directory.path(), &["config", "check"]).code, Some(0));
    let run = aileron(directory.path(), &["run", "--kubeconfig", "/nowhere"]);
    assert_eq!(run.code, Some(1), "the configuration is fine, the cluster is missing: {}", run.err);
}

#[test]
fn a_pattern_without_files_is_an_error_and_no_file_at_all_is_told() {
    for command in [&["config", "check"][..], &["run"], &["config", "show"]] {
        let ended = anywhere(&[command, &["--config", "nothing/*.yaml"]].concat());
        assert_eq!(ended.code, Some(2), "{}", ended.err);
        assert!(ended.err.contains("error: nothing/*.yaml: cannot read the file: the pattern matches no file"));
    }
    for command in [&["config", "check"][..], &["run", "--kubeconfig", "/nowhere"]] {
        let ended = anywhere(command);
        assert_eq!(ended.code, Some(2), "{}", ended.err);
        assert!(
            ended.err.contains("note: no configuration file was read, because neither ./config.yaml"),
            "{}",
            ended.err
        );
        assert!(ended.err.contains("error: storage.container: is not set"), "{}", ended.err);
    }
    let enough = anywhere(&["config", "check", "--storage.type", "mem"]);
    assert_eq!(enough.code, Some(0), "{}", enough.err);
    assert_eq!(enough.out, "the configuration is valid (no files)\n");
}

#[test]
fn stock_configurations_of_flyte_are_accepted_by_check_and_run() {
    let stock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/tests/stock");
    for folder in std::fs::read_dir(stock).unwrap() {
        let pattern = folder.unwrap().path().join("*.yaml").display().to_string();
        let checked = anywhere(&["config", "check", "--config", &pattern]);
        assert_eq!(checked.code, Some(0), "{pattern}\n{}", checked.err);
        assert!(
            checked.err.contains("note: not read, because they belong to other parts of Flyte: "),
            "{}",
            checked.err
        );
        assert_eq!(checked.err.matches("have no effect").count(), 1, "{}", checked.err);
        let run = anywhere(&["run", "--config", &pattern, "--kubeconfig", "/nowhere"]);
        assert_eq!(run.code, Some(1), "only the cluster is missing: {}", run.err);
        let array = "default-for-task-types.container_array: plugin \"k8s-array\" of Flyte 1 does not exist here";
        let names_array = std::fs::read_to_string(pattern.replace("*", "001-plugins")).is_ok();
        if names_array {
            assert!(
                checked.err.contains(&format!("001-plugins.yaml:5: tasks.task-plugins.{array}")),
                "{}",
                checked.err
            );
            for command in [&["config", "check", "--strict"][..], &["run", "--strict", "--kubeconfig", "/nowhere"]] {
                let strict = anywhere(&[command, &["--config", &pattern]].concat());
                assert_eq!(strict.code, Some(2), "{}", strict.err);
                assert!(strict.err.contains(array) && strict.err.matches("error: ").count() == 1, "{}", strict.err);
            }
        }
    }
}

#[test]
fn an_unknown_section_is_a_warning_and_in_strict_mode_an_error() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("config.yaml"), "storage: {type: mem}\nexecuter: {cluster: c}\n").unwrap();
    let lenient = aileron(directory.path(), &["config", "check"]);
    assert_eq!(lenient.code, Some(0), "{}", lenient.err);
    let words = "./config.yaml:2: executer: unknown section; did you mean \"executor\"?";
    assert!(lenient.err.contains(&format!("warning: {words}")), "{}", lenient.err);
    for command in [&["config", "check", "--strict"][..], &["run", "--strict", "--kubeconfig", "/nowhere"]] {
        let strict = aileron(directory.path(), command);
        assert_eq!(strict.code, Some(2), "{}", strict.err);
        assert!(strict.err.contains(&format!("error: {words}")), "{}", strict.err);
    }
}

#[test]
fn rules_and_pools_are_checked_against_the_plugins() {
    let directory = tempfile::tempdir().unwrap();
    let check = |tasks: &str| {
        std::fs::write(directory.path().join("config.yaml"), format!("tasks:\n  {tasks}\n")).unwrap();
        aileron(directory.path(), &["config", "check", "--storage.type", "mem"])
    };
    let unheld = check("pools: {licences: {quota: 1, task-types: [core-sleep]}}");
    assert_eq!(unheld.code, Some(2), "{}", unheld.out);
    let words = "config.yaml:2: tasks.pools.licences.task-types.0: plugin \"core-sleep\" serves \"core-sleep\"";
    assert!(unheld.err.contains(words), "{}", unheld.err);
    let unknown = check("task-plugins: {enabled-plugins: [sprak]}");
    assert_eq!(unknown.code, Some(2), "{}", unknown.out);
    assert!(unknown.err.contains("did you mean \"spark\"?"), "{}", unknown.err);
    let odd = check("pools: {licences: {quota: 1, task-types: [sparc]}}");
    assert_eq!(odd.code, Some(0), "{}", odd.err);
    assert!(odd.err.contains("did you mean \"spark\"?"), "{}", odd.err);
    assert_eq!(check("pools: {licences: {quota: 1, task-types: [spark, matlab]}}").err, "");
}

#[test]
fn an_unknown_key_on_the_command_line_gets_a_suggestion() {
    for arguments in [["run", "--executor.maxSystemFailure", "5"], ["config", "check", "--executor.maxSystemFailure=5"]]
    {
        let ended = anywhere(&arguments);
        assert_eq!(ended.code, Some(2));
        assert!(ended.err.contains("did you mean --executor.maxSystemFailures?"), "{}", ended.err);
    }
}

#[test]
fn the_example_changes_nothing_and_the_schema_is_json() {
    let directory = tempfile::tempdir().unwrap();
    let example = anywhere(&["config", "example"]).out;
    std::fs::write(directory.path().join("config.yaml"), &example).unwrap();
    let ended = aileron(directory.path(), &["config", "check", "--storage.type", "mem"]);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    let ended = aileron(directory.path(), &["config", "check"]);
    assert_eq!(ended.code, Some(2), "the defaults name no container, and `run` refuses them");
    let with = aileron(directory.path(), &["config", "show", "--all", "-o", "json"]).out;
    let without = anywhere(&["config", "show", "--all", "-o", "json"]).out;
    let values = |text: &str| {
        let rows: Vec<serde_json::Value> = serde_json::from_str(text).unwrap();
        rows.into_iter().map(|row| (row["key"].clone(), row["value"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(values(&with), values(&without));
    let schema: serde_json::Value = serde_json::from_str(&anywhere(&["config", "schema"]).out).unwrap();
    assert!(schema["properties"]["executor"].is_object());
}

#[test]
fn show_prints_where_values_come_from() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("a.yaml"), "executor:\n  cluster: east\n").unwrap();
    std::fs::write(directory.path().join("b.yaml"), "executor:\n  cluster: west\n  metricsSecure: false\n").unwrap();
    let arguments = ["config", "show", "--config", "a.yaml", "b.yaml", "--executor.maxSystemFailures", "5"];
    let shown = aileron(directory.path(), &arguments);
    assert_eq!(shown.code, Some(0), "{}", shown.err);
    assert!(shown.out.contains("cluster: west # b.yaml:2"), "{}", shown.out);
    assert!(shown.out.contains("metricsSecure: false # b.yaml:3"), "{}", shown.out);
    assert!(shown.out.contains("maxSystemFailures: 5 # flag --executor.maxSystemFailures"), "{}", shown.out);
    assert!(!shown.out.contains("# default"), "{}", shown.out);
    assert!(anywhere(&["config", "show", "--all"]).out.contains("cluster: \"\" # default"));
}

#[test]
fn a_closed_pipe_is_not_a_failure() {
    let directory = tempfile::tempdir().unwrap();
    let mut child = command(directory.path(), &["config", "example"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), String::from_utf8(ended.stderr).unwrap()), (Some(0), String::new()));
}

#[test]
fn plugins_are_listed_without_a_cluster() {
    let table = anywhere(&["plugins"]);
    assert_eq!(table.code, Some(0), "{}", table.err);
    let header = table.out.lines().next().unwrap();
    let columns: Vec<_> = header.split("   ").filter(|cell| !cell.is_empty()).map(str::trim).collect();
    assert_eq!(columns, ["ID", "TASK TYPES", "KIND", "DEFAULT", "ENABLED", "STATUS"]);
    let pod = table.out.lines().find(|line| line.contains(" v1/Pod ")).unwrap();
    assert!(pod.ends_with("unknown (no cluster)"), "{pod}");

    let json = anywhere(&["plugins", "-o", "json", "--tasks.task-plugins.enabled-plugins", "core-sleep"]);
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    for plugin in json["plugins"].as_array().unwrap() {
        assert_eq!(plugin["enabled"], plugin["id"] == "core-sleep", "{plugin}");
    }
    let wrong = anywhere(&["plugins", "--tasks.task-plugins.enabled-plugins", "sprak"]);
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.err.contains("enabled-plugins.0: there is no plugin \"sprak\""), "{}", wrong.err);
    assert_eq!(anywhere(&["plugins", "--kubeconfig", "/nowhere"]).code, Some(1));
    assert_eq!(anywhere(&["plugins", "-o", "wide"]).err, "", "the defaults deserve no warning");
}

/// A kubeconfig for an address where nothing listens, and that address.
fn dead_cluster(directory: &Path) -> (String, String) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    let file = format!(
        "{{apiVersion: v1, kind: Config, current-context: east, contexts: [{{name: east, context: {{cluster: c}}}}], \
         clusters: [{{name: c, cluster: {{server: '{server}'}}}}]}}"
    );
    let path = directory.join("kubeconfig");
    std::fs::write(&path, file).unwrap();
    (path.display().to_string(), server)
}

#[test]
fn a_cluster_that_is_away_is_named_and_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let (kubeconfig, server) = dead_cluster(directory.path());
    for command in [&["get"][..], &["describe", "hello"], &["plugins"], &["plugins", "-o", "json"]] {
        let ended = aileron(directory.path(), &[command, &["--kubeconfig", &kubeconfig]].concat());
        assert_eq!(ended.code, Some(1), "{command:?}: {}", ended.err);
        assert!(ended.err.contains(&server) && ended.err.contains("onnection refused"), "{command:?}: {}", ended.err);
    }
    let listed = aileron(directory.path(), &["plugins", "--kubeconfig", &kubeconfig]);
    assert!(listed.out.contains("unknown (no cluster)"), "{}", listed.out);
}

#[test]
fn an_unknown_context_and_a_missing_file_are_told_in_one_sentence() {
    let directory = tempfile::tempdir().unwrap();
    let (kubeconfig, _) = dead_cluster(directory.path());
    for command in ["get", "plugins", "run"] {
        let with = |arguments: &[&str]| {
            let storage = if command == "run" { &["--storage.type", "mem"][..] } else { &[] };
            aileron(directory.path(), &[&[command][..], arguments, storage].concat())
        };
        let unknown = with(&["--kubeconfig", &kubeconfig, "--context", "west"]);
        assert_eq!(unknown.code, Some(1), "{command}: {}", unknown.err);
        assert!(unknown.err.contains("has no context west; it has east"), "{command}: {}", unknown.err);
        let missing = with(&["--kubeconfig", "/nowhere/k"]);
        assert!(
            missing.err.contains("--kubeconfig: cannot use /nowhere/k: No such file"),
            "{command}: {}",
            missing.err
        );
        assert_eq!(missing.err.matches("/nowhere/k").count(), 1, "{command}: {}", missing.err);
    }
}
