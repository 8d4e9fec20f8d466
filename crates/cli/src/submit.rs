//! Submits a task as Flyte's control plane does: stores the inputs, then creates a `TaskAction`.

mod expectation;
mod in_sandbox;
pub mod inputs;
mod objects;
pub mod results;
mod run_name;
pub mod sdk;
pub mod source;
mod storage;
mod traceback;

use std::collections::BTreeMap;
use std::time::Duration;

use aileron_action::{TaskAction, TaskActionSpec};
use aileron_idl::flyteidl2::core::TaskTemplate;
use aileron_idl::flyteidl2::core::task_template::Target;
use aileron_machinery::output_path::action_output_prefix;
use aileron_preview::task_file::Expectation;
use anyhow::{Context, anyhow, bail};
use bytes::Bytes;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use kube::api::{DeleteParams, ObjectMeta, PostParams};
use kube::{Api, Client};
use prost::Message;

use crate::connection;

pub use expectation::differences;
pub use objects::create_objects;
pub use run_name::run_name;
pub use storage::{Storage, any_store};

/// The name of the first action of a run.
const ROOT_ACTION: &str = "a0";
/// The project and the domain of a run, unless the user or the task names others.
pub const PROJECT: &str = "flytesnacks";
pub const DOMAIN: &str = "development";
/// A placeholder of the SDK that the control plane replaces by the start time of the run.
const RUN_START_TIME: &str = "{{.runStartTime}}";
/// The longest name of a run that the TaskAction definition allows.
const MAX_RUN_NAME_LENGTH: usize = 30;

/// A task to submit.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The task template.
    pub template: TaskTemplate,
    /// The encoded inputs.
    pub inputs: Bytes,
    /// The namespace of the action.
    pub namespace: String,
    /// The project of the run. If empty, that of the template, else [`PROJECT`].
    pub project: String,
    /// The domain of the run. If empty, that of the template, else [`DOMAIN`].
    pub domain: String,
    /// The name of the run. `None` generates a name.
    pub run: Option<String>,
    /// The name of the TaskAction. `None` derives it from the name of the run.
    pub name: Option<String>,
    /// The short name of the task, for people.
    pub short_name: String,
    /// The labels of the action, which its objects get too.
    pub labels: BTreeMap<String, String>,
    /// The annotations of the action, which its objects get too.
    pub annotations: BTreeMap<String, String>,
    /// Environment variables that the run adds.
    pub env_vars: BTreeMap<String, String>,
    /// True if the task may run on interruptible machines.
    pub interruptible: Option<bool>,
    /// The number of retries, instead of that of the template.
    pub retries: Option<u32>,
    /// How the task is expected to end.
    pub expect: Option<Expectation>,
}

/// What the user chooses about a submission. Set options override the task.
#[derive(Clone, Debug, Default)]
pub struct SubmitOptions {
    /// The namespace of actions whose task names none.
    pub namespace: String,
    /// The namespace of all actions, even if the task names another.
    pub forced_namespace: Option<String>,
    /// The project of the run.
    pub project: Option<String>,
    /// The domain of the run.
    pub domain: Option<String>,
    /// The name of the run.
    pub run: Option<String>,
    /// The name of the TaskAction.
    pub name: Option<String>,
    /// The number of retries.
    pub retries: Option<u32>,
}

/// A submitted task.
#[derive(Clone, Debug)]
pub struct Submitted {
    /// The namespace of the action.
    pub namespace: String,
    /// The name of the TaskAction.
    pub name: String,
    /// The name of the run.
    pub run: String,
    /// The file of the inputs.
    pub input_uri: String,
    /// The prefix of all outputs of the run.
    pub output_base: String,
    /// The task template as it was submitted.
    pub template: TaskTemplate,
}

impl Submitted {
    /// The prefix of the outputs of an attempt, counted from 1.
    pub fn output_prefix(&self, attempt: u32) -> anyhow::Result<String> {
        let prefix = action_output_prefix(&self.namespace, &self.name, &self.output_base, ROOT_ACTION, attempt.max(1));
        Ok(prefix?)
    }
}

/// Stores the inputs and creates the action. `program` is the name of this program, for remedies in error messages.
pub async fn submit(program: &str, client: &Client, storage: &Storage, request: Request) -> anyhow::Result<Submitted> {
    let (action, submitted) = build(storage.prefix(), &request, Timestamp::now())?;
    let actions: Api<TaskAction> = Api::namespaced(client.clone(), &submitted.namespace);
    // Check before the inputs are stored: they would overwrite those of an existing action.
    if let Ok(Some(_)) = actions.get_metadata_opt(&submitted.name).await {
        return Err(name_in_use(&submitted));
    }
    storage.put(&submitted.input_uri, request.inputs).await.context("cannot store the inputs")?;
    let retries = submitted.template.metadata.as_ref().and_then(|metadata| metadata.retries.as_ref());
    // Programs that write outputs to files expect that the directory exists. Object stores have no directories.
    for attempt in 1..=retries.map_or(1, |retries| retries.retries.saturating_add(1)) {
        storage.make_directory(&submitted.output_prefix(attempt)?)?;
    }
    objects::ensure_namespace(client, &submitted.namespace).await?;
    match actions.create(&PostParams::default(), &action).await {
        Ok(_) => Ok(submitted),
        Err(kube::Error::Api(status)) if status.code == 409 => Err(name_in_use(&submitted)),
        Err(kube::Error::Api(status)) if status.code == 404 => bail!(connection::missing_definition(program)),
        Err(error) => bail!("cannot create the TaskAction {}: {}", submitted.name, connection::error_text(&error)),
    }
}

fn name_in_use(submitted: &Submitted) -> anyhow::Error {
    let Submitted { name, namespace, .. } = submitted;
    anyhow!("a TaskAction {name} already exists in namespace {namespace}; choose another --run, or delete it")
}

/// Aborts an action after a delay, by deleting it.
pub async fn abort_after(client: Client, namespace: String, name: String, after: Duration) -> anyhow::Result<()> {
    tokio::time::sleep(after).await;
    let actions: Api<TaskAction> = Api::namespaced(client, &namespace);
    match actions.delete(&name, &DeleteParams::default()).await {
        Ok(_) => Ok(()),
        // The action was already deleted.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => bail!("cannot abort {name}: {}", connection::error_text(&error)),
    }
}

/// The TaskAction that the control plane would create. Mirrors `ActionsClient.Enqueue`.
fn build(prefix: &str, request: &Request, now: Timestamp) -> anyhow::Result<(TaskAction, Submitted)> {
    let mut template = request.template.clone();
    let mut id = template.id.take().unwrap_or_default();
    let first_set = |requested: &str, own: &str, default: &str| {
        [requested, own, default].into_iter().find(|text| !text.is_empty()).unwrap_or_default().to_owned()
    };
    let project = first_set(&request.project, &id.project, PROJECT);
    let domain = first_set(&request.domain, &id.domain, DOMAIN);
    (id.project, id.domain) = (project.clone(), domain.clone());
    let short_name = first_set(&request.short_name, id.name.rsplit('.').next().unwrap_or_default(), "task");
    let run = request.run.clone().unwrap_or_else(|| run_name(&short_name));
    if run.is_empty() || run.len() > MAX_RUN_NAME_LENGTH {
        bail!("--run {run}: the name of a run must have 1 to {MAX_RUN_NAME_LENGTH} characters");
    }
    template.id = Some(id);
    if let Some(retries) = request.retries {
        template.metadata.get_or_insert_default().retries.get_or_insert_default().retries = retries;
    }
    if let Some(Target::Container(container)) = &mut template.target {
        let started = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        container.args.iter_mut().for_each(|argument| *argument = argument.replace(RUN_START_TIME, &started));
    }
    let name = request.name.clone().unwrap_or_else(|| format!("{run}-{ROOT_ACTION}"));
    let below = format!("{}/{project}/{domain}/{run}", prefix.trim_end_matches('/'));
    let own = [
        ("flyte.org/project", project.as_str()),
        ("flyte.org/domain", &domain),
        ("flyte.org/run", &run),
        ("flyte.org/action", ROOT_ACTION),
        ("flyte.org/action-type", "task"),
        ("flyte.org/is-root", "true"),
    ];
    let mut labels = request.labels.clone();
    labels.extend(own.map(|(key, value)| (key.to_owned(), value.to_owned())));
    let submitted = Submitted {
        namespace: request.namespace.clone(),
        name: name.clone(),
        run: run.clone(),
        input_uri: format!("{below}/inputs/inputs.pb"),
        output_base: format!("{below}/"),
        template: template.clone(),
    };
    let action = TaskAction {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(request.namespace.clone()),
            labels: Some(labels),
            annotations: (!request.annotations.is_empty()).then(|| request.annotations.clone()),
            ..ObjectMeta::default()
        },
        spec: TaskActionSpec {
            run_name: run,
            project,
            domain,
            action_name: ROOT_ACTION.to_owned(),
            input_uri: format!("{below}/inputs"),
            run_output_base: submitted.output_base.clone(),
            task_type: template.r#type.clone(),
            // The longest short name that the TaskAction definition allows.
            short_name: short_name.chars().take(63).collect(),
            task_template: ByteString(template.encode_to_vec()),
            env_vars: request.env_vars.clone(),
            interruptible: request.interruptible,
            ..TaskActionSpec::default()
        },
        status: None,
    };
    Ok((action, submitted))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use aileron_idl::flyteidl2::core::{Container, Identifier};

    use super::*;

    fn request() -> Request {
        Request {
            template: TaskTemplate {
                id: Some(Identifier { name: "module.greet".into(), ..Identifier::default() }),
                r#type: "python".into(),
                target: Some(Target::Container(Container {
                    args: vec!["a0".into(), "--at={{.runStartTime}}".into()],
                    ..Container::default()
                })),
                ..TaskTemplate::default()
            },
            namespace: "team".into(),
            run: Some("r1".into()),
            labels: [("team".to_owned(), "blue".to_owned()), ("flyte.org/run".to_owned(), "fake".to_owned())].into(),
            ..Request::default()
        }
    }

    #[test]
    fn the_action_is_the_one_that_the_control_plane_would_create() {
        let now = "2026-03-01T12:00:00.5Z".parse().unwrap();
        let (action, submitted) = build("file:///data/", &Request { retries: Some(2), ..request() }, now).unwrap();
        let object = serde_json::to_value(&action).unwrap();
        assert_eq!(object["metadata"]["name"], "r1-a0");
        assert_eq!(object["metadata"]["labels"]["flyte.org/run"], "r1", "labels of the platform cannot be overridden");
        assert_eq!(object["metadata"]["labels"]["team"], "blue");
        assert_eq!(object["metadata"]["labels"]["flyte.org/is-root"], "true");
        assert_eq!(object["spec"]["inputUri"], "file:///data/flytesnacks/development/r1/inputs");
        assert_eq!(object["spec"]["runOutputBase"], "file:///data/flytesnacks/development/r1/");
        assert_eq!(object["spec"]["shortName"], "greet");
        assert_eq!(object["spec"]["taskType"], "python");
        let template = TaskTemplate::decode(action.spec.task_template.0.as_slice()).unwrap();
        assert_eq!(template, submitted.template);
        assert_eq!(template.id.unwrap().project, PROJECT);
        assert_eq!(template.metadata.unwrap().retries.unwrap().retries, 2);
        let Some(Target::Container(container)) = template.target else { unreachable!() };
        assert_eq!(container.args[1], "--at=2026-03-01T12:00:00Z");
        let prefix = submitted.output_prefix(2).unwrap();
        assert!(prefix.starts_with("file:///data/flytesnacks/development/r1/"), "{prefix}");
        assert!(prefix.ends_with("/a0/2"), "{prefix}");
    }

    #[test]
    fn a_run_name_that_is_too_long_is_refused_before_inputs_are_stored() {
        let long = Request { run: Some("r".repeat(31)), ..request() };
        assert!(build("file:///data", &long, Timestamp::UNIX_EPOCH).unwrap_err().to_string().contains("1 to 30"));
        let (action, _) = build("file:///data", &Request { run: None, ..request() }, Timestamp::UNIX_EPOCH).unwrap();
        assert!(action.spec.run_name.starts_with("greet-"), "{}", action.spec.run_name);
    }
}
