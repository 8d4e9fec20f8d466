//! Builds the object of a task from plain values: exactly the object that the executor would create in the cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use aileron_action::metadata::{MetadataError, task_metadata, task_paths};
use aileron_action::missing_fields;
use aileron_action::object_identity::complete;
use aileron_action::plugin_choice::NoPlugin;
use aileron_action::plugin_choice::{PluginList, RegistryError};
use aileron_action::settings::{configured_platform, metadata_settings, registry_rules};
use aileron_action::{ACTION_TYPE_CONDITION, Action, TaskAction, Template};
use aileron_config::Config;
use aileron_idl::flyteidl2::core::{LiteralMap, TaskTemplate};
use aileron_machinery::pod::{PodOptions, build_pod};
use aileron_machinery::{ObjectPlugin, Platform, PluginError, PluginSources, PodTemplates, SectionError, TaskContext};
use futures::executor::block_on;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodTemplate;
use serde_json::Value;

/// The last step: the plugin manager adds name, labels, annotations, owner and finalizer to the object of the plugin.
pub const METADATA_STEP: &str = "object metadata";

/// Everything that the object depends on, as plain values.
#[derive(Clone)]
pub struct Offline {
    /// The action, without its template.
    pub action: TaskAction,
    /// The template.
    pub template: TaskTemplate,
    /// The configuration.
    pub config: Config,
    /// The plugins, which are made under the configuration.
    pub plugins: PluginSources,
    /// The pod templates of the cluster. A template without a namespace counts as one in the namespace of the action.
    pub pod_templates: Vec<PodTemplate>,
    /// The inputs, if they are known.
    pub inputs: Option<LiteralMap>,
    /// The environment variables of the executor.
    pub environment: BTreeMap<String, String>,
    /// The namespace of the executor. Its pod templates apply to all namespaces.
    pub executor_namespace: String,
    /// The current time.
    pub now: Timestamp,
}

/// The object, and who made it.
#[derive(Clone, Debug, PartialEq)]
pub struct Rendered {
    /// Id of the plugin.
    pub plugin: Arc<str>,
    /// The object as it would be sent to the API server.
    pub object: Value,
}

/// Why there is no object.
#[derive(Debug, thiserror::Error)]
pub enum OfflineError {
    /// Required fields of the TaskAction are empty.
    #[error("the TaskAction is incomplete, the executor would refuse it: fill in {}", listed(.0))]
    MissingFields(Vec<&'static str>),
    /// The action runs no task.
    #[error("spec.actionType is `condition`: the action waits for a signal and makes no object")]
    Condition,
    /// The plugin rules of the configuration cannot be followed.
    #[error(transparent)]
    Rules(#[from] RegistryError),
    /// The section of a plugin cannot be used.
    #[error(transparent)]
    Section(#[from] SectionError),
    /// No plugin serves the task type.
    #[error("{0}; `aileron plugins` lists the task types there are, --task-type chooses another")]
    NoPlugin(NoPlugin),
    /// The plugin works without objects.
    #[error(
        "task type {task_type:?} is served by plugin {plugin:?}, which makes no Kubernetes object: there is nothing to show"
    )]
    NoObject {
        /// The task type.
        task_type: String,
        /// Id of the plugin.
        plugin: Arc<str>,
    },
    /// The plugin needs the inputs, and they are not known.
    #[error(
        "the object depends on the task's inputs (an argument holds {{{{.inputs.…}}}}): give them with --inputs FILE"
    )]
    InputsNeeded,
    /// The action cannot be turned into a task.
    #[error("the TaskAction cannot be used")]
    Metadata(#[from] MetadataError),
    /// The plugin refused the task.
    #[error("plugin {plugin:?} refuses the task")]
    Build {
        /// Id of the plugin.
        plugin: Arc<str>,
        /// Why.
        #[source]
        source: PluginError,
    },
}

/// Called after each step of building with the name of the step and the object.
pub type Observer<'a> = &'a mut dyn FnMut(&str, Value);

impl Offline {
    /// The object that the executor would create.
    pub fn render(&self) -> Result<Rendered, OfflineError> {
        self.make(None)
    }

    /// As [`render`](Self::render). Calls `observe` after each step.
    pub fn render_observed(&self, observe: Observer<'_>) -> Result<Rendered, OfflineError> {
        self.make(Some(observe))
    }

    fn make(&self, observe: Option<Observer<'_>>) -> Result<Rendered, OfflineError> {
        let (plugin, task) = self.task()?;
        let id = plugin.entry().id;
        let refused = |source| OfflineError::Build { plugin: Arc::clone(&id), source };
        let Some(observe) = observe else {
            let mut object = block_on(plugin.build(&task)).map_err(refused)?;
            complete(&task, &plugin.properties(), object.as_mut());
            let object = object.to_json().map_err(refused)?;
            return Ok(Rendered { plugin: id, object });
        };
        let built = block_on(plugin.build_steps(&task)).map_err(refused)?;
        for step in &built.steps {
            observe(&step.name, step.object.to_json().map_err(refused)?);
        }
        let mut object = built.object;
        complete(&task, &plugin.properties(), object.as_mut());
        let object = object.to_json().map_err(refused)?;
        observe(METADATA_STEP, object.clone());
        Ok(Rendered { plugin: id, object })
    }

    /// The plugin that the executor would choose, and the context that it would pass to it.
    fn task(&self) -> Result<(Arc<dyn ObjectPlugin>, TaskContext), OfflineError> {
        let template = Arc::new(self.template.clone());
        let action =
            Action { object: self.action.clone(), template: Template::Decoded(Arc::clone(&template)), malformed: None };
        if self.action.spec.action_type == ACTION_TYPE_CONDITION {
            return Err(OfflineError::Condition);
        }
        let missing = missing_fields(&action);
        if !missing.is_empty() {
            return Err(OfflineError::MissingFields(missing));
        }
        let plugin = self.plugin()?;
        let metadata = task_metadata(&action, &metadata_settings(&self.config))?;
        let platform = Platform {
            pod_templates: Arc::new(self.pod_templates(action.namespace())),
            ..configured_platform(&self.config, self.environment.clone())
        };
        let mut task = TaskContext::new(template, metadata, task_paths(&action)?, platform, self.now);
        let refused = |source| OfflineError::Build { plugin: plugin.entry().id, source };
        let needs = block_on(plugin.needs(&task)).map_err(refused)?;
        if needs.inputs {
            task.inputs = Some(self.inputs.clone().ok_or(OfflineError::InputsNeeded)?.into());
        }
        if needs.base_pod {
            let pod = build_pod(&task, PodOptions::default()).map_err(refused)?.into_pod();
            task.base_pod = Some(pod.into());
        }
        Ok((plugin, task))
    }

    fn plugin(&self) -> Result<Arc<dyn ObjectPlugin>, OfflineError> {
        let plugins = self.plugins.build(&self.config.plugins.section_values())?;
        let list = PluginList::new(&plugins, &registry_rules(&self.config))?;
        let spec = &self.action.spec;
        let task_type = &spec.task_type;
        let index = list.choose(task_type, &spec.project, &spec.domain).map_err(OfflineError::NoPlugin)?.index;
        // The list has the Kubernetes plugins first, in the order of the set.
        plugins.k8s().get(index).cloned().ok_or_else(|| OfflineError::NoObject {
            task_type: task_type.clone(),
            plugin: list.plugins().get(index).map_or_else(Arc::default, |plugin| Arc::clone(&plugin.entry.id)),
        })
    }

    fn pod_templates(&self, namespace: &str) -> PodTemplates {
        let mut templates = PodTemplates::new(&self.executor_namespace);
        for template in &self.pod_templates {
            let mut template = template.clone();
            template.metadata.namespace.get_or_insert_with(|| namespace.to_owned());
            templates.insert(template);
        }
        templates
    }
}

fn listed(fields: &[&str]) -> String {
    fields.iter().map(|field| format!("spec.{field}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
pub(crate) mod tests;
