//! The binary of a plugin author: every command knows the author's plugins.
//!
//! This test has no test harness. It starts itself as the author's binary: with the variable [`AS_PROGRAM`] in its
//! environment, `main` is the whole `main` function of such a binary.
#![allow(clippy::unwrap_used, missing_docs)]

use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;

use aileron::Program;
use aileron_machinery::pod::phase::pod_phase;
use aileron_machinery::pod::{PodOptions, build_pod};
use aileron_machinery::schemars::{self, JsonSchema};
use aileron_machinery::{
    AnyResource, CorePlugin, CoreRequest, CoreStep, ExecutionError, JsonObject, K8sPlugin, ObjectPlugin, PhaseContext,
    PhaseInfo, PluginEntry, PluginError, PluginSection, PluginSources, ResourceKind, TaskContext, TaskInfo,
    async_trait,
};
use k8s_openapi::api::core::v1::{EnvVar, Pod};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

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
        Ok(pod_phase(pod, &cx.task.platform.k8s, cx.task.now, TaskInfo::at(cx.task.now)))
    }
}

/// The section `plugins.oracle`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct OracleConfig {
    /// The word in the error of each task.
    word: String,
}

impl PluginSection for OracleConfig {
    const KEY: &'static str = "oracle";
}

/// The author's plugin without an object and with a section: each task fails with the configured word.
struct Oracle(OracleConfig);

#[async_trait]
impl CorePlugin for Oracle {
    fn entry(&self) -> PluginEntry {
        PluginEntry::new("oracle", &["oracle"])
    }

    async fn handle(&self, request: &CoreRequest<'_>) -> Result<CoreStep, PluginError> {
        let error = ExecutionError::user("Oracle", format!("the word is {}", self.0.word));
        Ok(CoreStep::of(PhaseInfo::permanent_failure(error, TaskInfo::at(request.task.now))))
    }

    async fn abort(&self, _: &CoreRequest<'_>) -> Result<(), PluginError> {
        Ok(())
    }

    async fn finalize(&self, _: &CoreRequest<'_>) -> Result<(), PluginError> {
        Ok(())
    }
}

/// A plugin without an object and without settings: each task succeeds at once.
struct Yes;

#[async_trait]
impl CorePlugin for Yes {
    fn entry(&self) -> PluginEntry {
        PluginEntry::new("yes", &["yes"])
    }

    async fn handle(&self, request: &CoreRequest<'_>) -> Result<CoreStep, PluginError> {
        Ok(CoreStep::of(PhaseInfo::success(TaskInfo::at(request.task.now))))
    }

    async fn abort(&self, _: &CoreRequest<'_>) -> Result<(), PluginError> {
        Ok(())
    }

    async fn finalize(&self, _: &CoreRequest<'_>) -> Result<(), PluginError> {
        Ok(())
    }
}

/// A plugin whose kind is a value. Several of them differ in their id.
struct Note(&'static str);

#[async_trait]
impl ObjectPlugin for Note {
    fn entry(&self) -> PluginEntry {
        PluginEntry::new(self.0, &[self.0])
    }

    fn kind(&self) -> ResourceKind {
        ResourceKind::new("", "v1", "ConfigMap", "configmaps")
    }

    async fn build(&self, _: &TaskContext) -> Result<Box<dyn AnyResource>, PluginError> {
        Ok(Box::new(JsonObject::new(self.kind(), json!({"data": {"by": self.0}}))?))
    }

    async fn phase(&self, cx: &PhaseContext<'_>, note: &dyn AnyResource) -> Result<PhaseInfo, PluginError> {
        let info = TaskInfo::at(cx.task.now);
        let is_own = note.to_json()?["data"]["by"] == self.0;
        Ok(if is_own { PhaseInfo::success(info) } else { PhaseInfo::running(info) })
    }
}

/// The plugins of a crate, as its author offers them.
fn more_plugins(sources: PluginSources) -> PluginSources {
    sources.with_object_plugin(Arc::new(Note("memo")))
}

/// The author's binary.
fn program() -> Program {
    Program::new()
        .with(Polite)
        .with_core_section(Oracle)
        .with_core(Yes)
        .with_object_plugin(Arc::new(Note("note")))
        .with_plugins(more_plugins)
        .with_name("polite")
        .with_version("7.0")
        .with_about("Runs tasks politely.")
}

fn main() -> ExitCode {
    if std::env::var_os(AS_PROGRAM).is_some() {
        return program().main();
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
        ("demo_runs_tasks_of_plugins_of_every_form", demo_runs_tasks_of_plugins_of_every_form),
        ("the_section_of_a_core_plugin_is_checked", the_section_of_a_core_plugin_is_checked),
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
    let enabled = |name: &str| {
        let arguments = ["config", "check", "--storage.type", "mem", "--tasks.task-plugins.enabled-plugins", name];
        polite(directory.path(), &arguments)
    };
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

/// A plugin without an object, with and without a section, and plugins whose kind is a value, added in both ways.
fn demo_runs_tasks_of_plugins_of_every_form() {
    let directory = tempfile::tempdir().unwrap();
    let succeeds = |name: &str| format!("{{name: {name}, type: {name}, image: any, expect: {{phase: succeeded}}}}");
    let tasks = [
        ("oracle", "{name: oracle, type: oracle, expect: {phase: failed, error: the word is maybe}}".to_owned()),
        ("yes", succeeds("yes")),
        ("note", succeeds("note")),
        ("memo", succeeds("memo")),
    ];
    for (name, task) in tasks {
        std::fs::write(directory.path().join(format!("{name}.yaml")), format!("# A task of type {name}.\n{task}\n"))
            .unwrap();
    }
    let demo = polite(directory.path(), &["demo", ".", "--plugins.oracle.word", "maybe"]);
    assert_eq!(demo.code, Some(0), "{}{}", demo.out, demo.err);
    assert!(demo.out.contains("4 tasks in "), "{}", demo.out);
}

fn the_section_of_a_core_plugin_is_checked() {
    let directory = directory();
    let wrong = polite(directory.path(), &["config", "check", "--plugins.oracle.wrod", "maybe"]);
    assert_eq!(wrong.code, Some(2), "{}", wrong.out);
    assert!(wrong.err.contains("plugins.oracle.wrod") && wrong.err.contains("word"), "{}", wrong.err);
    let shown = polite(directory.path(), &["config", "reference"]);
    assert!(shown.out.contains("The word in the error of each task."), "{}", shown.out);
}

fn help_and_version_show_the_name_of_the_program() {
    let directory = directory();
    let help = polite(directory.path(), &["--help"]);
    assert_eq!(help.code, Some(0));
    assert!(help.out.starts_with("Runs tasks politely.\n"), "{}", help.out);
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
