//! Builds TaskActions as the control plane submits them.

use std::collections::BTreeMap;
use std::time::Duration;

use aileron_action::{ACTION_TYPE_CONDITION, TaskAction, TaskActionSpec};
use aileron_idl::flyteidl2::core::resources::{ResourceEntry, ResourceName};
use aileron_idl::flyteidl2::core::{
    Container, Identifier, Literal, LiteralMap, LiteralType, Primitive, Resources, RetryStrategy, Scalar, SimpleType,
    TaskMetadata, TaskTemplate, TypedInterface, Variable, VariableEntry, VariableMap, literal, literal_type, primitive,
    scalar, task_template::Target,
};
use aileron_idl::flyteidl2::workflow::ConditionAction;
use k8s_openapi::ByteString;
use kube::api::ObjectMeta;
use prost::Message;

use super::scripts;

const PROJECT: &str = "flytesnacks";
const DOMAIN: &str = "development";

/// An action to submit.
#[derive(Clone, Debug)]
pub struct Task {
    /// Name of the object and of the action.
    pub name: String,
    /// The task template.
    pub template: TaskTemplate,
    /// `spec.taskType`.
    pub task_type: String,
    /// Annotations of the action, which its pods inherit.
    pub annotations: BTreeMap<String, String>,
    /// Labels of the action.
    pub labels: BTreeMap<String, String>,
    /// The specification, if the action is a condition.
    pub condition: Option<ConditionAction>,
}

impl Task {
    /// Adds a resource to the container, as request and as limit.
    #[must_use]
    pub fn with_resource(mut self, name: ResourceName, amount: &str) -> Self {
        let entry = ResourceEntry { name: name.into(), value: amount.to_owned() };
        if let Some(Target::Container(container)) = &mut self.template.target {
            let resources = container.resources.get_or_insert_with(Resources::default);
            resources.requests.push(entry.clone());
            resources.limits.push(entry);
        }
        self
    }

    /// A container task that declares one output, `o0`.
    #[must_use]
    pub fn container(name: &str) -> Self {
        let args = ["run", "--inputs", "{{.input}}", "--outputs-path", "{{.outputPrefix}}"];
        let container = Container {
            image: "registry.test/task:1".to_owned(),
            args: args.map(str::to_owned).to_vec(),
            ..Container::default()
        };
        let template = TaskTemplate {
            id: Some(Identifier {
                project: PROJECT.to_owned(),
                domain: DOMAIN.to_owned(),
                name: format!("suite.{name}"),
                version: "v1".to_owned(),
                ..Identifier::default()
            }),
            r#type: "container".to_owned(),
            metadata: Some(TaskMetadata::default()),
            interface: Some(TypedInterface { inputs: None, outputs: Some(variable("o0", SimpleType::Integer)) }),
            target: Some(Target::Container(container)),
            ..TaskTemplate::default()
        };
        let none = BTreeMap::new();
        Self {
            name: name.to_owned(),
            template,
            task_type: "container".to_owned(),
            annotations: none.clone(),
            labels: none,
            condition: None,
        }
    }

    /// A sleep task; [`duration_inputs`] sets its duration.
    #[must_use]
    pub fn sleep(name: &str) -> Self {
        let mut task = Self::container(name).task_type("core-sleep");
        task.template.target = None;
        task.template.interface =
            Some(TypedInterface { inputs: Some(variable("duration", SimpleType::Duration)), outputs: None });
        task
    }

    /// An action that waits for a signal, at most `timeout`.
    #[must_use]
    pub fn condition(name: &str, timeout: Option<Duration>) -> Self {
        let timeout = timeout.and_then(|timeout| prost_types::Duration::try_from(timeout).ok());
        let condition = ConditionAction { name: name.to_owned(), timeout, ..ConditionAction::default() };
        Self { condition: Some(condition), ..Self::container(name) }
    }

    /// Sets what happens to the pods of its attempts, see [`scripts::ATTEMPTS`].
    #[must_use]
    pub fn attempts(mut self, entries: &[&str]) -> Self {
        self.annotations.extend([scripts::attempts(entries)]);
        self
    }

    /// Sets the number of retries. The task has one attempt more than this.
    #[must_use]
    pub fn retries(mut self, retries: u32) -> Self {
        let retries = RetryStrategy { retries, ..RetryStrategy::default() };
        self.template.metadata.get_or_insert_default().retries = Some(retries);
        self
    }

    /// Sets the task type.
    #[must_use]
    pub fn task_type(mut self, task_type: &str) -> Self {
        self.task_type = task_type.to_owned();
        self.template.r#type = task_type.to_owned();
        self
    }

    /// Caches its outputs under the task name `entry`. With `serial`, only one action at a time computes them.
    #[must_use]
    pub fn cached(mut self, entry: &str, serial: bool) -> Self {
        let metadata = self.template.metadata.get_or_insert_default();
        metadata.discoverable = true;
        metadata.cache_serializable = serial;
        if let Some(id) = &mut self.template.id {
            id.name = entry.to_owned();
        }
        self
    }

    /// The TaskAction, for a run with the name of the namespace and with its data below `data`.
    #[must_use]
    pub fn build(&self, namespace: &str, data: &str) -> TaskAction {
        let condition = self.condition.as_ref().map(Message::encode_to_vec);
        let spec = TaskActionSpec {
            run_name: namespace.to_owned(),
            project: PROJECT.to_owned(),
            domain: DOMAIN.to_owned(),
            action_name: self.name.clone(),
            action_type: if condition.is_some() { ACTION_TYPE_CONDITION.to_owned() } else { String::new() },
            condition_spec: ByteString(condition.unwrap_or_default()),
            input_uri: format!("{data}/{namespace}/{}/inputs.pb", self.name),
            run_output_base: format!("{data}/{namespace}/out"),
            cache_key: "v1".to_owned(),
            task_type: self.task_type.clone(),
            short_name: self.name.clone(),
            task_template: ByteString(self.template.encode_to_vec()),
            ..TaskActionSpec::default()
        };
        TaskAction {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                namespace: Some(namespace.to_owned()),
                labels: Some(self.labels.clone()),
                annotations: Some(self.annotations.clone()),
                ..ObjectMeta::default()
            },
            spec,
            status: None,
        }
    }
}

/// The inputs of a [`Task::sleep`].
#[must_use]
pub fn duration_inputs(duration: Duration) -> Vec<u8> {
    let value = prost_types::Duration::try_from(duration).unwrap_or_default();
    let primitive = Primitive { value: Some(primitive::Value::Duration(value)) };
    let scalar = Scalar { value: Some(scalar::Value::Primitive(primitive)) };
    let literal = Literal { value: Some(literal::Value::Scalar(Box::new(scalar))), ..Literal::default() };
    LiteralMap { literals: [("duration".to_owned(), literal)].into() }.encode_to_vec()
}

fn variable(key: &str, simple: SimpleType) -> VariableMap {
    let literal_type =
        LiteralType { r#type: Some(literal_type::Type::Simple(simple.into())), ..LiteralType::default() };
    let value = Variable { r#type: Some(literal_type), ..Variable::default() };
    VariableMap { variables: vec![VariableEntry { key: key.to_owned(), value: Some(value) }] }
}
