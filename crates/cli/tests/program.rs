//! The binary of a plugin author: every command knows the author's plugin.
//!
//! This test has no test harness. It starts itself as the author's binary: with the variable [`AS_PROGRAM`] in its
//! environment, `main` is the whole `main` function of such a binary.
#![allow(clippy::unwrap_used, missing_docs)]

use std::path::Path;
use std::process::{Command, ExitCode};

use aileron::Program;
use aileron_machinery::pod::phase::{is_terminal, pod_phase};
use aileron_machinery::pod::{PodOptions, build_pod};
use aileron_machinery::{K8sPlugin, PhaseContext, PhaseInfo, PluginEntry, PluginError, TaskContext, TaskInfo};
use k8s_openapi::api::core::v1::{EnvVar, Pod};
use serde_json::Value;

/// Set in the environment of a process that is to be the author's binary.
const AS_PROGRAM: &str = "AILERON_TEST_AS_PROGRAM";

const TASK: &str = "\
# Prints the variable that the plugin sets, as an output.
name: greet
type: polite
image: any
outputs: {answer: string}
command: [sh, -c, 'aileron io write {{.outputPrefix}} answer=\"$PLEASE\"']
expect: {phase: succeeded, attempts: 1, outputs: {answer: thank you}}
";

/// The author's plugin: a pod with one more environment variable.
struct Polite;

impl K8sPlugin for Polite {
    type Resource = Pod;

    fn entry(&self) -> PluginEntry {
        PluginEntry::new("polite", &["polite"])
    }

    fn build(&self, task: &TaskContext) -> Result<Pod, PluginError> {
        let mut draft = build_pod(task, PodOptions::default())?;
        let variable = EnvVar { name: "PLEASE".into(), value: Some("thank you".into()), value_from: None };
        draft.primary()?.env.get_or_insert_default().push(variable);
        Ok(Pod { metadata: draft.metadata, spec: Some(draft.spec), status: None })
    }

    fn phase(&self, cx: &PhaseContext<'_>, pod: &Pod) -> Result<PhaseInfo, PluginError> {
        let phase = pod_phase(pod, &cx.task.platform.k8s, cx.task.now, TaskInfo::at(cx.task.now));
        Ok(phase.newer_than(cx.prior))
    }

    fn is_terminal(&self, pod: &Pod) -> bool {
        is_terminal(pod)
    }
}

fn main() -> ExitCode {
    if std::env::var_os(AS_PROGRAM).is_some() {
        return Program::new().with(Polite).with_name("polite").with_version("7.0").main();
    }
    // `cargo test -- --list` asks for the names of tests; there are none.
    if std::env::args().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS;
    }
    for (name, test) in [
        ("plugins_lists_the_plugin", plugins_lists_the_plugin as fn()),
        ("render_and_explain_show_the_object_of_the_plugin", render_and_explain_show_the_object_of_the_plugin),
        ("config_check_knows_the_name_of_the_plugin", config_check_knows_the_name_of_the_plugin),
        ("demo_runs_a_task_of_the_plugin", demo_runs_a_task_of_the_plugin),
        ("help_and_version_show_the_name_of_the_program", help_and_version_show_the_name_of_the_program),
    ] {
        test();
        println!("test {name} ... ok");
    }
    ExitCode::SUCCESS
}

struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

/// Runs the author's binary.
fn polite(directory: &Path, arguments: &[&str]) -> Ended {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(arguments).current_dir(directory).env_clear().env("HOME", directory).env(AS_PROGRAM, "1");
    let output = command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ended { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// A directory with the task file `task.yaml`.
fn directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("task.yaml"), TASK).unwrap();
    directory
}

fn plugins_lists_the_plugin() {
    let listed = polite(directory().path(), &["plugins", "-o", "json"]);
    assert_eq!(listed.code, Some(0), "{}", listed.err);
    let listed: Value = serde_json::from_str(&listed.out).unwrap();
    let plugins = listed["plugins"].as_array().unwrap();
    let own = plugins.iter().find(|plugin| plugin["id"] == "polite").unwrap();
    assert_eq!((&own["taskTypes"][0], &own["kind"]["kind"]), (&"polite".into(), &"Pod".into()));
    assert!(plugins.iter().any(|plugin| plugin["id"] == "spark"), "the built-in plugins are there, too");
}

fn render_and_explain_show_the_object_of_the_plugin() {
    let directory = directory();
    let rendered = polite(directory.path(), &["render", "task.yaml", "-o", "json"]);
    assert_eq!(rendered.code, Some(0), "{}", rendered.err);
    let object: Value = serde_json::from_str(&rendered.out).unwrap();
    let env = object["spec"]["containers"][0]["env"].as_array().unwrap();
    assert!(env.iter().any(|one| one["name"] == "PLEASE" && one["value"] == "thank you"), "{object:#}");
    let explained = polite(directory.path(), &["explain", "task.yaml"]);
    assert_eq!(explained.code, Some(0), "{}", explained.err);
    assert!(explained.out.contains("\"PLEASE\""), "{}", explained.out);
}

fn config_check_knows_the_name_of_the_plugin() {
    let directory = directory();
    let enabled =
        |name: &str| polite(directory.path(), &["config", "check", "--tasks.task-plugins.enabled-plugins", name]);
    let good = enabled("polite");
    assert_eq!(good.code, Some(0), "{}", good.err);
    let wrong = enabled("polit");
    assert_eq!(wrong.code, Some(2), "{}", wrong.out);
    assert!(wrong.err.contains("did you mean \"polite\"?"), "{}", wrong.err);
}

/// The sandbox runs the author's plugin, and its tasks find the author's binary as `aileron`.
fn demo_runs_a_task_of_the_plugin() {
    let directory = directory();
    // The binary in the sandbox is this test: its tasks must start it as the author's binary, too.
    let task = TASK.replace("aileron io", &format!("{AS_PROGRAM}=1 aileron io"));
    std::fs::write(directory.path().join("task.yaml"), task).unwrap();
    let demo = polite(directory.path(), &["demo", "task.yaml"]);
    assert_eq!(demo.code, Some(0), "{}{}", demo.out, demo.err);
    assert!(demo.out.contains("1 task in "), "{}", demo.out);
}

fn help_and_version_show_the_name_of_the_program() {
    let directory = directory();
    let help = polite(directory.path(), &["--help"]);
    assert_eq!(help.code, Some(0));
    assert!(help.out.contains("Usage: polite <COMMAND>") && help.out.contains("polite demo"), "{}", help.out);
    assert!(!help.out.contains("aileron"), "{}", help.out);
    let version = polite(directory.path(), &["version"]).out;
    assert!(version.starts_with("polite 7.0 ") && version.contains(", based on aileron "), "{version}");
    assert_eq!(polite(directory.path(), &["--version"]).out, "polite 7.0\n");
    let refused = polite(directory.path(), &["get", "--executor.cluster", "x"]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.err.contains("`polite get` does not read the configuration"), "{}", refused.err);
    let alone = polite(directory.path(), &["get"]);
    assert!(alone.err.contains("`polite sandbox`"), "{}", alone.err);
}
