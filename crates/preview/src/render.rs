//! The object of a task without a cluster: exactly what the executor would create, from values alone.

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
use aileron_machinery::{AnyK8sPlugin, Platform, PluginError, PluginSet, PodTemplates, TaskContext};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodTemplate;
use serde_json::Value;

/// The step in which the manager completes what a plugin built: name, labels, annotations, owner, finalizer.
pub const METADATA_STEP: &str = "object metadata";

/// Makes the plugins of a program for a configuration.
pub type PluginFactory = Arc<dyn Fn(&Config) -> PluginSet + Send + Sync>;

/// Everything that the object depends on.
#[derive(Clone)]
pub struct Offline {
    /// The action, without its template.
    pub action: TaskAction,
    /// The template.
    pub template: TaskTemplate,
    /// The configuration.
    pub config: Config,
    /// Makes the plugins for a configuration.
    pub plugins: PluginFactory,
    /// The pod templates of the cluster; those without a namespace are in the action's.
    pub pod_templates: Vec<PodTemplate>,
    /// The inputs, if anybody gave them.
    pub inputs: Option<LiteralMap>,
    /// The executor's own environment.
    pub environment: BTreeMap<String, String>,
    /// The executor's own namespace, where pod templates for all namespaces are.
    pub executor_namespace: String,
    /// The clock.
    pub now: Timestamp,
}

/// The object, and who made it.
#[derive(Clone, Debug, PartialEq)]
pub struct Rendered {
    /// Id of the plugin.
    pub plugin: &'static str,
    /// The object as it would be sent to the API server.
    pub object: Value,
}

/// There is no object.
#[derive(Debug, thiserror::Error)]
pub enum OfflineError {
    /// Fields that every task needs are empty.
    #[error("the TaskAction is incomplete, the executor would refuse it: fill in {}", listed(.0))]
    MissingFields(Vec<&'static str>),
    /// The action runs no task.
    #[error("spec.actionType is `condition`: the action waits for a signal and makes no object")]
    Condition,
    /// The plugin rules of the configuration cannot be followed.
    #[error(transparent)]
    Rules(#[from] RegistryError),
    /// Nobody serves the task type.
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
        plugin: &'static str,
    },
    /// The plugin looks at inputs and there are none.
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
        plugin: &'static str,
        /// Why.
        #[source]
        source: PluginError,
    },
}

/// Shown the object after each step of its making.
pub type Observer<'a> = &'a mut dyn FnMut(&str, Value);

impl Offline {
    /// The object that the executor would create.
    pub fn render(&self) -> Result<Rendered, OfflineError> {
        self.make(None)
    }

    /// The same, shown after each step.
    pub fn render_observed(&self, observe: Observer<'_>) -> Result<Rendered, OfflineError> {
        self.make(Some(observe))
    }

    fn make(&self, observe: Option<Observer<'_>>) -> Result<Rendered, OfflineError> {
        let (plugin, task) = self.task()?;
        let id = plugin.entry().id;
        let refused = |source| OfflineError::Build { plugin: id, source };
        let Some(observe) = observe else {
            let mut object = plugin.build(&task).map_err(refused)?;
            complete(&task, &plugin.properties(), object.as_mut());
            return Ok(Rendered { plugin: id, object: object.to_json().map_err(refused)? });
        };
        let mut unwritable = None;
        let built = plugin.build_observed(&task, &mut |step, object| match object.to_json() {
            Ok(object) => observe(step, object),
            Err(error) => unwritable = Some(error),
        });
        let mut object = built.map_err(refused)?;
        if let Some(error) = unwritable {
            return Err(refused(error));
        }
        complete(&task, &plugin.properties(), object.as_mut());
        let object = object.to_json().map_err(refused)?;
        observe(METADATA_STEP, object.clone());
        Ok(Rendered { plugin: id, object })
    }

    /// The plugin that the executor would choose, and what it would tell it.
    fn task(&self) -> Result<(Arc<dyn AnyK8sPlugin>, TaskContext), OfflineError> {
        let template = Arc::new(self.template.clone());
        let action = Action { object: self.action.clone(), template: Template::Decoded(Arc::clone(&template)) };
        if self.action.spec.action_type == ACTION_TYPE_CONDITION {
            return Err(OfflineError::Condition);
        }
        let missing = missing_fields(&action);
        if !missing.is_empty() {
            return Err(OfflineError::MissingFields(missing));
        }
        let plugin = self.plugin()?;
        let mut task = TaskContext {
            template,
            metadata: Arc::new(task_metadata(&action, &metadata_settings(&self.config))?),
            paths: Arc::new(task_paths(&action)?),
            inputs: None,
            platform: Platform {
                pod_templates: Arc::new(self.pod_templates(action.namespace())),
                ..configured_platform(&self.config, self.environment.clone())
            },
            now: self.now,
        };
        if plugin.needs(&task).inputs {
            task.inputs = Some(self.inputs.clone().ok_or(OfflineError::InputsNeeded)?.into());
        }
        Ok((plugin, task))
    }

    fn plugin(&self) -> Result<Arc<dyn AnyK8sPlugin>, OfflineError> {
        let plugins = (self.plugins)(&self.config);
        let list = PluginList::new(&plugins, &registry_rules(&self.config))?;
        let spec = &self.action.spec;
        let task_type = &spec.task_type;
        let index = list.choose(task_type, &spec.project, &spec.domain).map_err(OfflineError::NoPlugin)?.index;
        // The list has the Kubernetes plugins first, in the order of the set.
        plugins.k8s().get(index).cloned().ok_or_else(|| OfflineError::NoObject {
            task_type: task_type.clone(),
            plugin: list.plugins().get(index).map_or("", |plugin| plugin.entry.id),
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
