//! For the tests of plugins: tasks, pods and phases in one line each. Nothing here is for production: what does not fit
//! panics.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use aileron_idl::flyteidl2::core::{Container, TaskTemplate, task_template::Target};
use aileron_idl::json_to_struct;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::{
    K8sPlugin, ObservedPhase, Overrides, PhaseContext, PhaseInfo, Platform, TaskContext, TaskExecutionId, TaskMetadata,
    TaskPaths,
};

/// The time of every [`task`].
///
/// ```
/// use aileron_machinery::testing::{NOW, task};
/// # use aileron_machinery::serde_json::Value;
///
/// assert_eq!(task("batch", &Value::Null).now.to_string(), NOW);
/// ```
pub const NOW: &str = "2009-11-10T23:00:00Z";

/// The name of the object of every [`task`], and of its container.
///
/// ```
/// use aileron_machinery::pod::build_pod;
/// use aileron_machinery::testing::{NAME, task};
/// # use aileron_machinery::serde_json::Value;
///
/// let draft = build_pod(&task("batch", &Value::Null), Default::default())?;
/// assert_eq!(draft.spec.containers[0].name, NAME);
/// # Ok::<(), aileron_machinery::PluginError>(())
/// ```
pub const NAME: &str = "run-a0-0";

/// The first attempt of a container task of this type, with these settings in `custom`. `Value::Null` means none.
///
/// ```
/// use aileron_machinery::serde_json::json;
/// use aileron_machinery::testing::task;
///
/// let task = task("kettle", &json!({"litres": 2}));
/// assert_eq!((task.template.r#type.as_str(), task.metadata.namespace.as_str()), ("kettle", "p-d"));
/// assert!(task.template.custom.is_some());
/// ```
pub fn task(task_type: &str, custom: &Value) -> TaskContext {
    let container = Container { image: "image:1".into(), args: vec!["run".into()], ..Container::default() };
    let template = TaskTemplate {
        r#type: task_type.into(),
        custom: (!custom.is_null()).then(|| json_to_struct(custom).unwrap()),
        target: Some(Target::Container(container)),
        ..TaskTemplate::default()
    };
    let metadata = TaskMetadata {
        id: TaskExecutionId { generated_name: NAME.into(), ..TaskExecutionId::default() },
        namespace: "p-d".into(),
        max_attempts: 2,
        overrides: Overrides { resources: Some(Default::default()), ..Overrides::default() },
        ..TaskMetadata::default()
    };
    TaskContext::new(template, metadata, TaskPaths::default(), Platform::default(), NOW.parse().unwrap())
}

/// The phase that the plugin reads from an object, with nothing seen before and nothing fetched.
///
/// ```
/// # use aileron_machinery::{k8s_openapi::api::core::v1::Pod, *};
/// # struct Kettles;
/// # impl K8sPlugin for Kettles {
/// #     type Resource = Pod;
/// #     fn entry(&self) -> PluginEntry { PluginEntry::new("kettles", &["kettle"]) }
/// #     fn build(&self, _: &TaskContext) -> Result<Pod, PluginError> { Ok(Pod::default()) }
/// #     fn phase(&self, _: &PhaseContext<'_>, _: &Pod) -> Result<PhaseInfo, PluginError> {
/// #         Ok(PhaseInfo::undefined())
/// #     }
/// # }
/// use aileron_machinery::testing::{phase, task};
/// # use aileron_machinery::serde_json::Value;
///
/// let task = task("kettle", &Value::Null);
/// assert_eq!(phase(&Kettles, &task, &Pod::default()).phase(), Phase::Undefined);
/// ```
pub fn phase<P: K8sPlugin>(plugin: &P, task: &TaskContext, object: &P::Resource) -> PhaseInfo {
    plugin.phase(&PhaseContext::new(task, &ObservedPhase::default()), object).unwrap()
}

/// The value of a variable in the first container of a pod.
///
/// ```
/// use aileron_machinery::pod::build_pod;
/// use aileron_machinery::testing::{task, variable};
/// # use aileron_machinery::serde_json::Value;
///
/// let mut draft = build_pod(&task("kettle", &Value::Null), Default::default())?;
/// draft.set_variable("LITRES", "2")?;
/// assert_eq!(variable(&draft.into_pod(), "LITRES"), Some("2"));
/// # Ok::<(), aileron_machinery::PluginError>(())
/// ```
pub fn variable<'a>(pod: &'a Pod, name: &str) -> Option<&'a str> {
    let variables = pod.spec.as_ref()?.containers.first()?.env.as_deref()?;
    variables.iter().find(|variable| variable.name == name)?.value.as_deref()
}

/// The same pod while all its containers run.
///
/// ```
/// use aileron_machinery::pod::phase::is_ready;
/// use aileron_machinery::testing::{pod, running};
/// # use aileron_machinery::serde_json::Value;
///
/// let pod = pod("p-1", "main", &Value::Null);
/// assert!(!is_ready(&pod) && is_ready(&running(&pod)));
/// ```
#[must_use]
pub fn running(pod: &Pod) -> Pod {
    with_state(pod, &json!({"running": {"startedAt": NOW}}))
}

/// The same pod after all its containers have ended with this exit code. Its own phase is still `Running`, as for a
/// moment in a cluster.
///
/// ```
/// use aileron_machinery::pod::times::completed_at;
/// use aileron_machinery::testing::{NOW, exited, pod};
/// # use aileron_machinery::serde_json::Value;
///
/// let failed = exited(&pod("p-1", "main", &Value::Null), 3);
/// assert_eq!(completed_at(&failed).map(|end| end.to_string()).as_deref(), Some(NOW));
/// ```
#[must_use]
pub fn exited(pod: &Pod, exit_code: i32) -> Pod {
    let reason = if exit_code == 0 { "Completed" } else { "Error" };
    with_state(pod, &json!({"terminated": {"exitCode": exit_code, "reason": reason, "finishedAt": NOW}}))
}

/// A pod with one container and this status.
///
/// ```
/// use aileron_machinery::Ended;
/// use aileron_machinery::testing::pod;
/// # use aileron_machinery::serde_json::json;
///
/// let pod = pod("worker-0", "main", &json!({"phase": "Succeeded"}));
/// assert_eq!(Ended::of_pod(&pod), Some(Ended::well(None)));
/// ```
pub fn pod(name: &str, container: &str, status: &Value) -> Arc<Pod> {
    let object = json!({
        "metadata": {"name": name, "namespace": "p-d"},
        "spec": {"containers": [{"name": container}]}, "status": status,
    });
    Arc::new(serde_json::from_value(object).unwrap())
}

fn with_state(pod: &Pod, state: &Value) -> Pod {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let statuses = containers.map(|container| {
        json!({"name": container.name, "image": "", "imageID": "", "ready": true, "restartCount": 0, "state": state})
    });
    let status = json!({"phase": "Running", "containerStatuses": statuses.collect::<Vec<_>>()});
    Pod { status: Some(serde_json::from_value(status).unwrap()), ..pod.clone() }
}
