//! Tasks handed to a cluster the way Flyte's control plane does it: inputs into storage, then a `TaskAction`.

pub mod inputs;
mod names;
mod objects;
pub mod results;
pub mod source;
mod storage;
mod traceback;
pub mod verdict;

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

pub use names::run_name;
pub use objects::prepare;
pub use storage::{Storage, ambient};

/// The name of the first action of a run.
const ROOT_ACTION: &str = "a0";
/// Where a run belongs if nobody says.
pub const PROJECT: &str = "flytesnacks";
pub const DOMAIN: &str = "development";
/// What the SDK leaves for the control plane to fill in.
const RUN_START_TIME: &str = "{{.runStartTime}}";
/// Longest name that the definition of TaskAction takes.
const NAME_LENGTH: usize = 30;

/// What to run.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The task.
    pub template: TaskTemplate,
    /// Its inputs, encoded.
    pub inputs: Bytes,
    /// Where the action is to be.
    pub namespace: String,
    /// Project of the run; that of the template or [`PROJECT`] if empty.
    pub project: String,
    /// Domain of the run; that of the template or [`DOMAIN`] if empty.
    pub domain: String,
    /// Name of the run; made up if there is none.
    pub run: Option<String>,
    /// Name of the action's object; made from that of the run if there is none.
    pub name: Option<String>,
    /// Name for people.
    pub short_name: String,
    /// Labels of the action, and so of its objects.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the action, and so of its objects.
    pub annotations: BTreeMap<String, String>,
    /// Environment that the run adds.
    pub env_vars: BTreeMap<String, String>,
    /// May run on machines that can be taken away.
    pub interruptible: Option<bool>,
    /// How often to try again, instead of what the template says.
    pub retries: Option<u32>,
    /// How it is expected to end.
    pub expect: Option<Expectation>,
}

/// A task on its way.
#[derive(Clone, Debug)]
pub struct Submitted {
    /// Where the action is.
    pub namespace: String,
    /// Name of the action's object.
    pub name: String,
    /// Name of the run.
    pub run: String,
    /// The file of its inputs.
    pub input_uri: String,
    /// Below this are the outputs of the run.
    pub output_base: String,
    /// The task as it was handed over.
    pub template: TaskTemplate,
}

impl Submitted {
    /// Where the outputs of an attempt are; attempts count from 1.
    pub fn output_prefix(&self, attempt: u32) -> anyhow::Result<String> {
        let prefix = action_output_prefix(&self.namespace, &self.name, &self.output_base, ROOT_ACTION, attempt.max(1));
        Ok(prefix?)
    }
}

/// Stores the inputs and creates the action.
pub async fn submit(client: &Client, storage: &Storage, request: Request) -> anyhow::Result<Submitted> {
    let (action, submitted) = build(storage.prefix(), &request, Timestamp::now())?;
    let actions: Api<TaskAction> = Api::namespaced(client.clone(), &submitted.namespace);
    // Before anything is stored: the inputs of the one that is there would be overwritten.
    if let Ok(Some(_)) = actions.get_metadata_opt(&submitted.name).await {
        return Err(taken(&submitted));
    }
    storage.put(&submitted.input_uri, request.inputs).await.context("cannot store the inputs")?;
    let retries = submitted.template.metadata.as_ref().and_then(|metadata| metadata.retries.as_ref());
    // Object stores have no directories, but programs that write to files expect theirs.
    for attempt in 1..=retries.map_or(1, |retries| retries.retries.saturating_add(1)) {
        storage.make_directory(&submitted.output_prefix(attempt)?)?;
    }
    objects::ensure_namespace(client, &submitted.namespace).await?;
    match actions.create(&PostParams::default(), &action).await {
        Ok(_) => Ok(submitted),
        Err(kube::Error::Api(status)) if status.code == 409 => Err(taken(&submitted)),
        Err(kube::Error::Api(status)) if status.code == 404 => {
            bail!("the cluster does not know TaskAction; install it with `aileron crd | kubectl apply -f -`")
        }
        Err(error) => bail!("cannot create the TaskAction {}: {}", submitted.name, connection::told(&error)),
    }
}

fn taken(submitted: &Submitted) -> anyhow::Error {
    let Submitted { name, namespace, .. } = submitted;
    anyhow!("there is a TaskAction {name} in namespace {namespace} already; choose another --run, or delete that one")
}

/// Deletes an action after a while, which is how a run is aborted.
pub async fn abort_after(client: Client, namespace: String, name: String, after: Duration) -> anyhow::Result<()> {
    tokio::time::sleep(after).await;
    let actions: Api<TaskAction> = Api::namespaced(client, &namespace);
    match actions.delete(&name, &DeleteParams::default()).await {
        Ok(_) => Ok(()),
        // It went by itself.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => bail!("cannot abort {name}: {}", connection::told(&error)),
    }
}

/// The object that the control plane would create. Mirrors `ActionsClient.Enqueue`.
fn build(prefix: &str, request: &Request, now: Timestamp) -> anyhow::Result<(TaskAction, Submitted)> {
    let mut template = request.template.clone();
    let mut id = template.id.take().unwrap_or_default();
    let chosen = |asked: &str, own: &str, default: &str| {
        [asked, own, default].into_iter().find(|text| !text.is_empty()).unwrap_or_default().to_owned()
    };
    let project = chosen(&request.project, &id.project, PROJECT);
    let domain = chosen(&request.domain, &id.domain, DOMAIN);
    (id.project, id.domain) = (project.clone(), domain.clone());
    let short_name = chosen(&request.short_name, id.name.rsplit('.').next().unwrap_or_default(), "task");
    let run = request.run.clone().unwrap_or_else(|| run_name(&short_name));
    if run.is_empty() || run.len() > NAME_LENGTH {
        bail!("--run {run}: a name of a run has 1 to {NAME_LENGTH} letters");
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
            // The definition of TaskAction takes no more.
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
    fn the_object_is_the_control_planes() {
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
    fn names_that_do_not_fit_are_refused_before_anything_is_stored() {
        let long = Request { run: Some("r".repeat(31)), ..request() };
        assert!(build("file:///data", &long, Timestamp::UNIX_EPOCH).unwrap_err().to_string().contains("1 to 30"));
        let (action, _) = build("file:///data", &Request { run: None, ..request() }, Timestamp::UNIX_EPOCH).unwrap();
        assert!(action.spec.run_name.starts_with("greet-"), "{}", action.spec.run_name);
    }
}
