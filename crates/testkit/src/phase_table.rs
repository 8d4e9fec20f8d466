//! Many states of an object with the phase of each, compared at once.

use std::sync::Arc;

use aileron_machinery::k8s_openapi::api::core::v1::Pod;
use aileron_machinery::{K8sPlugin, ObservedPhase, Phase, PhaseContext, TaskContext};
use serde_json::Value;

/// The states of a plugin's object and the phases that it must read from them. All rows that are wrong are reported at once.
///
/// ```
/// use aileron_machinery::Phase;
/// use aileron_machinery::serde_json::{Value, json};
/// use aileron_testkit::{PhaseTable, task};
/// # use aileron_machinery::k8s_openapi::api::core::v1::Pod;
/// # use aileron_machinery::pod::{PodOptions, build_pod, phase::task_phase};
/// # use aileron_machinery::{K8sPlugin, PhaseContext, PhaseInfo, PluginEntry, PluginError, TaskContext};
/// # struct Hello;
/// # impl K8sPlugin for Hello {
/// #     type Resource = Pod;
/// #     fn entry(&self) -> PluginEntry { PluginEntry::new("hello", &["hello"]) }
/// #     fn build(&self, task: &TaskContext) -> Result<Pod, PluginError> {
/// #         Ok(build_pod(task, PodOptions::default())?.into_pod())
/// #     }
/// #     fn phase(&self, cx: &PhaseContext<'_>, pod: &Pod) -> Result<PhaseInfo, PluginError> {
/// #         Ok(task_phase(cx, pod))
/// #     }
/// # }
///
/// PhaseTable::of(&Hello, &task("hello", &Value::Null))
///     .row(json!({"phase": "Pending"}), Phase::Queued, "")
///     .row(json!({"phase": "Failed", "reason": "Evicted"}), Phase::RetryableFailure, "Evicted")
///     .assert();
/// ```
#[must_use = "nothing is compared before `assert`"]
pub struct PhaseTable<'a, P: K8sPlugin> {
    plugin: &'a P,
    task: &'a TaskContext,
    pods: Vec<Arc<Pod>>,
    rows: usize,
    problems: Vec<String>,
}

impl<'a, P: K8sPlugin> PhaseTable<'a, P> {
    /// A table without rows, for objects that the plugin builds for this task.
    pub fn of(plugin: &'a P, task: &'a TaskContext) -> Self {
        Self { plugin, task, pods: Vec::new(), rows: 0, problems: Vec::new() }
    }

    /// In the rows that follow, the attempt has these pods. They are what a plugin gets that [needs](aileron_machinery::Needs)
    /// the pods. Without this call the attempt has none.
    ///
    /// ```
    /// use aileron_machinery::Phase;
    /// use aileron_machinery::serde_json::{Value, json};
    /// use aileron_testkit::{PhaseTable, pod, task};
    /// # use aileron_machinery::k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
    /// # use aileron_machinery::pod::phase::task_phase;
    /// # use aileron_machinery::{K8sPlugin, Needs, PhaseContext, PhaseInfo, PluginEntry, PluginError, TaskContext};
    /// # struct Jobs;
    /// # impl K8sPlugin for Jobs {
    /// #     type Resource = Job;
    /// #     fn entry(&self) -> PluginEntry { PluginEntry::new("job", &["job"]) }
    /// #     fn needs(&self, task: &TaskContext) -> Needs { Needs::of_pod(task).with_pods() }
    /// #     fn build(&self, _: &TaskContext) -> Result<Job, PluginError> { Ok(Job::default()) }
    /// #     fn phase(&self, cx: &PhaseContext<'_>, _: &Job) -> Result<PhaseInfo, PluginError> {
    /// #         Ok(cx.pods.first().map_or_else(PhaseInfo::undefined, |pod| task_phase(cx, pod)))
    /// #     }
    /// # }
    ///
    /// PhaseTable::of(&Jobs, &task("job", &Value::Null))
    ///     .row(json!({"active": 1}), Phase::Undefined, "")
    ///     .with_pods([pod("worker-0", "main", &json!({"phase": "Failed", "reason": "Evicted"}))])
    ///     .row(json!({"active": 1}), Phase::RetryableFailure, "Evicted")
    ///     .assert();
    /// ```
    pub fn with_pods(mut self, pods: impl IntoIterator<Item = Arc<Pod>>) -> Self {
        self.pods = pods.into_iter().collect();
        self
    }

    /// An object with this status is in this phase. `text` must be a part of the reason, or of the code or message of the
    /// error; an empty text fits always.
    pub fn row(mut self, status: Value, phase: Phase, text: &str) -> Self {
        self.rows += 1;
        let row = format!("row {}, status {status}", self.rows);
        match self.read(status) {
            Ok((is, said)) if is == phase && said.contains(text) => {}
            Ok((is, said)) => {
                self.problems.push(format!("{row}: expected {phase} {text:?}, but the plugin reads {is} {said:?}"));
            }
            Err(error) => self.problems.push(format!("{row}: {error}")),
        }
        self
    }

    /// Compares all rows.
    ///
    /// # Panics
    /// A row is wrong.
    #[track_caller]
    pub fn assert(self) {
        assert!(self.problems.is_empty(), "{}", self.problems.join("\n"));
    }

    fn read(&self, status: Value) -> Result<(Phase, String), String> {
        let built = self.plugin.build(self.task).map_err(|error| format!("build: {error}"))?;
        let mut document = serde_json::to_value(built).map_err(|error| error.to_string())?;
        document["status"] = status;
        let object: P::Resource =
            serde_json::from_value(document).map_err(|error| format!("the status does not fit the type: {error}"))?;
        let prior = ObservedPhase::default();
        let info = self
            .plugin
            .phase(&PhaseContext::new(self.task, &prior).with_pods(&self.pods), &object)
            .map_err(|error| format!("phase: {error}"))?;
        let error = info.error().map(|error| format!(" [{}] {}", error.code, error.message)).unwrap_or_default();
        Ok((info.phase(), format!("{}{error}", info.reason())))
    }
}
