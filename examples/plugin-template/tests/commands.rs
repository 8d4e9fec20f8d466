//! The commands of the binary know the plugin: its kind, its objects and its section.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;

use aileron_machinery::serde_json::{Value, from_str, json};

// TODO(plugin): 4c. Fields of your message, your resource and your section, in what the commands print.
struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

/// Runs the binary in a directory that has the file `config.yaml` with this text.
fn run(config: &str, arguments: &[&str]) -> Ended {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("config.yaml"), config).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_aileron-batch"));
    let output = command.args(arguments).current_dir(directory.path()).env_clear().output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ended { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// The output of a command that succeeds.
fn output(config: &str, arguments: &[&str]) -> String {
    let ended = run(config, arguments);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    ended.out
}

#[test]
fn plugins_lists_the_plugin_with_its_kind() {
    let listed: Value = from_str(&output("", &["plugins", "-o", "json"])).unwrap();
    let plugins = listed["plugins"].as_array().unwrap();
    let own = plugins.iter().find(|plugin| plugin["id"] == "batch").unwrap();
    assert_eq!((&own["kind"]["group"], &own["kind"]["kind"]), (&json!("compute.example.org"), &json!("BatchJob")));
}

#[test]
fn render_shows_the_object_with_values_of_the_section_and_of_the_message() {
    let task = Path::new(env!("CARGO_MANIFEST_DIR")).join("demo/task.yaml");
    let render = |config: &str| -> Value {
        let arguments = ["render", task.to_str().unwrap(), "-o", "json", "--config", "config.yaml"];
        from_str(&output(config, &arguments)).unwrap()
    };
    let job = render("{}\n");
    assert_eq!((&job["apiVersion"], &job["kind"]), (&json!("compute.example.org/v1"), &json!("BatchJob")));
    assert_eq!((&job["spec"]["queue"], &job["spec"]["parallelism"]), (&json!("standard"), &json!(2)));
    assert_eq!(job["spec"]["template"]["spec"]["containers"][0]["image"], "debian:stable-slim");
    let job = render("plugins: {batch: {default-queue: nightly}}\n");
    assert_eq!(job["spec"]["queue"], "nightly");
}

#[test]
fn config_knows_the_section() {
    let config = "plugins:\n  batch:\n    default-queue: nightly\n";
    assert_eq!(
        output(config, &["config", "show", "--config", "config.yaml"]),
        "plugins:\n  batch:\n    default-queue: nightly # config.yaml:3\n"
    );
    output(config, &["config", "check", "--config", "config.yaml", "--storage.type", "mem"]);
    let schema: Value = from_str(&output("", &["config", "schema"])).unwrap();
    let description = &schema["$defs"]["BatchConfig"]["properties"]["default-queue"]["description"];
    assert_eq!(description, "The queue of tasks that name none.");
}

#[test]
fn config_check_refuses_mistakes_in_the_section_with_file_and_line() {
    let refused = |config: &str, part: &str| {
        let ended = run(config, &["config", "check", "--config", "config.yaml"]);
        assert_eq!(ended.code, Some(2), "{}", ended.out);
        assert!(ended.err.contains("config.yaml:3") && ended.err.contains(part), "{}", ended.err);
    };
    refused("plugins:\n  batch:\n    default-que: nightly\n", "default-queue");
    refused("plugins:\n  batch:\n    default-queue: ''\n", "must name a queue");
}
