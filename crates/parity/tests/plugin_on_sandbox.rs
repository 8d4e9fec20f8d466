//! A custom plugin with the real executor on the sandbox, in one process. `docs/testing.md` shows the part between the two
//! marks.
#![allow(clippy::unwrap_used, missing_docs)]

use aileron::{Program, SandboxOptions};
use aileron_machinery::pod::phase::task_phase;
use aileron_machinery::pod::{PodOptions, build_pod};
use aileron_machinery::{K8sPlugin, PhaseContext, PhaseInfo, PluginEntry, PluginError, TaskContext};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::LogParams;

/// A custom plugin: a pod with an additional environment variable.
struct Polite;

impl K8sPlugin for Polite {
    type Resource = Pod;

    fn entry(&self) -> PluginEntry {
        PluginEntry::new("polite", &["polite"])
    }

    fn build(&self, task: &TaskContext) -> Result<Pod, PluginError> {
        let mut draft = build_pod(task, PodOptions::default())?;
        draft.set_variable("PLEASE", "thank you")?;
        Ok(draft.into_pod())
    }

    fn phase(&self, cx: &PhaseContext<'_>, pod: &Pod) -> Result<PhaseInfo, PluginError> {
        Ok(task_phase(cx, pod))
    }
}

// begin: docs/testing.md
#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_runs_its_task() {
    // A cluster inside this process: an API server, a node that runs pods as processes, and the executor with this plugin.
    let sandbox = Program::new().with(Polite).start_sandbox(SandboxOptions::default()).await.unwrap();

    // A task of the plugin's type. `run_task` waits until the task has ended.
    let task = "{name: t, type: polite, image: any, command: [sh, -c, 'echo $PLEASE'], resources: {cpu: 100m}}";
    let finished = sandbox.run_task(task).await.unwrap();
    assert!(finished.is_success(), "{:?}", finished.error());

    // What the executor has created and reported.
    let pods: Api<Pod> = Api::default_namespaced(sandbox.client());
    let log = pods.logs(&format!("{}-0", finished.name()), &LogParams::default()).await.unwrap();
    assert_eq!(log, "thank you\n");
    assert_eq!(sandbox.events().unwrap().last().unwrap()["phase"], "ACTION_PHASE_SUCCEEDED");

    sandbox.stop().await.unwrap();
}
// end: docs/testing.md

#[test]
fn the_page_shows_this_test() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = std::fs::read_to_string(root.join("tests/plugin_on_sandbox.rs")).unwrap();
    let page = std::fs::read_to_string(root.join("../../docs/testing.md")).unwrap();
    let (_, rest) = source.split_once("// begin: docs/testing.md\n").unwrap();
    let (code, _) = rest.split_once("// end: docs/testing.md\n").unwrap();
    assert!(page.contains(&format!("```rust\n{code}```\n")), "docs/testing.md does not show this:\n{code}");
}
