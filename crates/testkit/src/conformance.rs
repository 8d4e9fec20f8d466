//! One call that checks everything the executor expects of a plugin.

mod faults;
mod functions;
mod names;
mod pod_labels;

use std::sync::Arc;

use aileron_machinery::{CorePlugin, K8sPlugin, ObjectPlugin, PluginEntry, TaskContext, erase};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use crate::life::Life;
use crate::report::{Check, Report};
use crate::trial::Subject;

/// Checks a plugin: its functions on plain values, and tasks of it in a simulated cluster in which one thing after the other
/// fails.
///
/// Give it at least one task, and the lives of objects ([`Life`]): one that succeeds, and those that fail. The report lists
/// what was checked and what was wrong.
///
/// | promise | how it is checked |
/// | --- | --- |
/// | `build` gives the same object each time, of the kind of the plugin, and reads it back | on each task |
/// | names, labels and containers are valid, however long the name of the attempt is | names of 1 to 253 characters |
/// | pod templates have the labels of the attempt, if the plugin needs pods | on each task |
/// | phases are those of the lives, only move forward, and success never precedes the end | on each state of each life |
/// | fields that the type does not know do no harm | on each state of each life |
/// | `on_abort` can be repeated | on each task |
/// | a task ends as its objects do; versions grow when reasons change | one run for each life |
/// | nothing is lost when the executor is killed before or after a write, or when an answer is lost | at each write |
/// | nothing is lost when a write is refused: quota, 409, 429, 500 | at each write |
/// | nothing is lost when a watch misses a change, must list again (410), or is late | at each change |
/// | nothing is lost when the executor starts again, or when somebody deletes the object | at each state |
/// | an abort at any state leaves nothing behind, also when the executor is killed meanwhile | at each state and write |
/// | labels and annotations of others stay | at each state |
#[must_use = "nothing is checked before `check`"]
pub struct Conformance {
    subject: Subject,
    tasks: Vec<TaskContext>,
    lives: Vec<Life>,
    definition: Option<CustomResourceDefinition>,
    every: usize,
}

impl Conformance {
    fn new(subject: Subject) -> Self {
        Self { subject, tasks: Vec::new(), lives: Vec::new(), definition: None, every: 1 }
    }

    /// Checks this plugin.
    pub fn of(plugin: impl K8sPlugin) -> Self {
        Self::of_object_plugin(erase(plugin))
    }

    /// Checks a plugin whose kind is known at run time.
    pub fn of_object_plugin(plugin: Arc<dyn ObjectPlugin>) -> Self {
        Self::new(Subject::Object(plugin))
    }

    /// Checks a plugin without an object. Its task must end by itself, well, within a few minutes.
    pub fn of_core_plugin(plugin: Arc<dyn CorePlugin>) -> Self {
        Self::new(Subject::Core(plugin))
    }

    /// With this task. The first task is the one that runs in the simulated cluster; the functions of the plugin are
    /// called with all of them.
    pub fn task(mut self, task: TaskContext) -> Self {
        self.tasks.push(task);
        self
    }

    /// With objects that live like this.
    pub fn life(mut self, life: Life) -> Self {
        self.lives.push(life);
        self
    }

    /// With this definition of the plugin's kind. Without it, the kind accepts any object.
    pub fn definition(mut self, definition: CustomResourceDefinition) -> Self {
        self.definition = Some(definition);
        self
    }

    /// Tries only every n-th fault, for a quicker test.
    pub fn every(mut self, n: usize) -> Self {
        self.every = n.max(1);
        self
    }

    /// Checks everything.
    pub fn check(self) -> Report {
        let mut checks = vec![self.is_complete()];
        if checks.iter().all(Check::is_passed) {
            if let Subject::Object(plugin) = &self.subject {
                checks.extend(functions::check(plugin.as_ref(), &self.tasks, &self.lives));
                checks.push(names::check(plugin.as_ref(), &self.tasks));
                checks.push(pod_labels::check(plugin.as_ref(), &self.tasks));
            }
            // A plugin that is wrong by itself would fail in the cluster in ways that are hard to understand.
            if checks.iter().all(Check::is_passed) {
                checks.extend(faults::check(&self));
            }
        }
        Report::new(&*self.entry().id, checks)
    }

    fn entry(&self) -> PluginEntry {
        match &self.subject {
            Subject::Object(plugin) => plugin.entry(),
            Subject::Core(plugin) => plugin.entry(),
        }
    }

    /// Whether there is enough to check the plugin with.
    fn is_complete(&self) -> Check {
        let mut problems = Vec::new();
        let entry = self.entry();
        if self.tasks.is_empty() {
            problems.push("there is no task: add one with `.task(task(\"<type>\", &custom))`".to_owned());
        }
        for task in &self.tasks {
            let task_type = &task.template.r#type;
            if !entry.is_default && !entry.task_types.contains(task_type) {
                problems.push(format!(
                    "the plugin does not serve the task type {task_type:?} of the task; its entry names {:?}",
                    entry.task_types
                ));
            }
        }
        let is_object = matches!(self.subject, Subject::Object(_));
        if is_object && !self.lives.iter().any(|life| life.last_phase().is_success()) {
            problems.push("no life ends with Phase::Success: add one with `.life(..)`".to_owned());
        }
        for life in self.lives.iter().filter(|life| !life.last_phase().is_terminal()) {
            problems
                .push(format!("life {:?} does not end: its last phase must be a success or a failure", life.name()));
        }
        Check::new("the test has what it needs", 1, problems)
    }
}
