//! The plugins of an installation before its configuration is known, and the sections of configuration that they own.
//!
//! A plugin that has settings declares them as a type ([`PluginSection`]). The configuration loader then knows the keys
//! below `plugins.<KEY>`: unknown keys and values that do not fit are refused with file and line, and `config show`,
//! `schema`, `example` and `reference` include the section.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::PluginSet;
use super::core::CorePlugin;
use super::k8s::K8sPlugin;
use super::object_plugin::{ObjectPlugin, erase};

/// The settings of a plugin, a section `plugins.<KEY>` of the configuration.
///
/// The doc comments of the type and its fields become the reference page. Use `#[serde(default, deny_unknown_fields)]`,
/// and the key names of the file with `rename_all`.
pub trait PluginSection: Serialize + DeserializeOwned + JsonSchema + Default + Clone + Send + Sync + 'static {
    /// The name of the section below `plugins`.
    const KEY: &'static str;

    /// What is wrong with the values, beyond what their types tell.
    fn check(&self) -> Vec<SectionProblem> {
        Vec::new()
    }
}

/// One thing that is wrong with a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SectionProblem {
    /// The key within the section, with dots between nested keys; empty for the section as a whole.
    pub path: String,
    /// What is wrong, and what would be right.
    pub message: String,
}

impl SectionProblem {
    /// A problem with the key at `path`.
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into() }
    }
}

/// A section that a plugin owns, as the configuration loader sees it.
#[derive(Clone)]
pub struct Section {
    key: &'static str,
    schema: fn(&mut SchemaGenerator) -> Schema,
    defaults: fn() -> Value,
    check: fn(&Value) -> Vec<SectionProblem>,
}

impl std::fmt::Debug for Section {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Section").field(&self.key).finish()
    }
}

impl Section {
    /// The section of a type.
    pub fn of<S: PluginSection>() -> Self {
        Self {
            key: S::KEY,
            schema: |generator| generator.subschema_for::<S>(),
            defaults: || serde_json::to_value(S::default()).unwrap_or_default(),
            check: |value| match S::deserialize(value) {
                Ok(section) => section.check(),
                Err(error) => vec![SectionProblem::new("", error.to_string())],
            },
        }
    }

    /// Its name below `plugins`.
    pub fn key(&self) -> &'static str {
        self.key
    }

    /// Its JSON schema; the definitions it refers to go into the generator.
    pub fn schema(&self, generator: &mut SchemaGenerator) -> Schema {
        (self.schema)(generator)
    }

    /// Its default values.
    pub fn defaults(&self) -> Value {
        (self.defaults)()
    }

    /// What is wrong with these values.
    pub fn check(&self, values: &Value) -> Vec<SectionProblem> {
        (self.check)(values)
    }
}

/// A section that a plugin cannot use.
#[derive(Debug, thiserror::Error)]
#[error("plugins.{key} cannot be used: {source}")]
pub struct SectionError {
    /// The name of the section.
    pub key: &'static str,
    /// What does not fit.
    pub source: serde_json::Error,
}

type Make<P> = dyn Fn(&SectionValues) -> Result<Arc<P>, SectionError> + Send + Sync;

#[derive(Clone)]
enum Source {
    Object(Arc<Make<dyn ObjectPlugin>>),
    Core(Arc<Make<dyn CorePlugin>>),
}

/// The values of sections: those of a configuration file as JSON, and those that were read already.
#[derive(Clone, Default)]
pub struct SectionValues {
    json: BTreeMap<String, Value>,
    typed: Vec<Arc<dyn Any + Send + Sync>>,
}

impl SectionValues {
    /// Values by the key of their section.
    pub fn new(json: BTreeMap<String, Value>) -> Self {
        Self { json, typed: Vec::new() }
    }

    /// The same with one more section.
    #[must_use]
    pub fn with<S: PluginSection>(mut self, section: S) -> Self {
        self.typed.push(Arc::new(section));
        self
    }
}

/// The plugins of an installation, in the order in which they are added, before the configuration is known.
///
/// ```
/// # use aileron_machinery::{K8sPlugin, PluginSources, PluginSection, PhaseContext, PhaseInfo, PluginEntry, PluginError};
/// # use aileron_machinery::{SectionValues, TaskContext, k8s_openapi::api::core::v1::Pod};
/// # #[derive(Clone, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
/// # struct OvenConfig { degrees: u32 }
/// # impl PluginSection for OvenConfig { const KEY: &'static str = "oven"; }
/// # struct Oven(OvenConfig);
/// # impl K8sPlugin for Oven {
/// #     type Resource = Pod;
/// #     fn entry(&self) -> PluginEntry { PluginEntry::new("oven", &["oven"]) }
/// #     fn build(&self, _: &TaskContext) -> Result<Pod, PluginError> { Ok(Pod::default()) }
/// #     fn phase(&self, _: &PhaseContext<'_>, _: &Pod) -> Result<PhaseInfo, PluginError> { Ok(PhaseInfo::undefined()) }
/// # }
/// let sources = PluginSources::new().with_section(|section: OvenConfig| Oven(section));
/// let configured = [("oven".to_owned(), serde_json::json!({"degrees": 200}))];
/// let plugins = sources.build(&SectionValues::new(configured.into())).unwrap();
/// assert_eq!(&*plugins.k8s()[0].entry().id, "oven");
/// ```
#[derive(Clone, Default)]
pub struct PluginSources {
    sources: Vec<Source>,
    sections: Vec<Section>,
}

impl PluginSources {
    /// No plugins.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a plugin without settings.
    #[must_use]
    pub fn with(self, plugin: impl K8sPlugin) -> Self {
        self.with_object_plugin(erase(plugin))
    }

    /// Adds a plugin whose kind of object is known only at run time.
    #[must_use]
    pub fn with_object_plugin(self, plugin: Arc<dyn ObjectPlugin>) -> Self {
        self.add(Source::Object(Arc::new(move |_| Ok(Arc::clone(&plugin)))))
    }

    /// Adds a plugin that is made from its section.
    #[must_use]
    pub fn with_section<S, P>(self, make: impl Fn(S) -> P + Send + Sync + 'static) -> Self
    where
        S: PluginSection,
        P: K8sPlugin,
    {
        self.own::<S>().add(Source::Object(Arc::new(move |values| Ok(erase(make(section_of(values)?))))))
    }

    /// Adds a plugin without settings that does its own driving.
    #[must_use]
    pub fn with_core(self, plugin: impl CorePlugin + 'static) -> Self {
        let plugin: Arc<dyn CorePlugin> = Arc::new(plugin);
        self.add(Source::Core(Arc::new(move |_| Ok(Arc::clone(&plugin)))))
    }

    /// Adds a plugin that does its own driving and is made from its section.
    #[must_use]
    pub fn with_core_section<S, P>(self, make: impl Fn(S) -> P + Send + Sync + 'static) -> Self
    where
        S: PluginSection,
        P: CorePlugin + 'static,
    {
        self.own::<S>()
            .add(Source::Core(Arc::new(move |values| Ok(Arc::new(make(section_of(values)?)) as Arc<dyn CorePlugin>))))
    }

    /// Adds all plugins of another list behind those of this one.
    #[must_use]
    pub fn and(mut self, others: Self) -> Self {
        self.sources.extend(others.sources);
        let known: BTreeSet<_> = self.sections.iter().map(Section::key).collect();
        self.sections.extend(others.sections.into_iter().filter(|section| !known.contains(section.key())));
        self
    }

    /// The sections that the plugins own, each once.
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// The plugins under these values of their sections. A section that is not there has its defaults.
    ///
    /// # Errors
    /// A section does not fit its type. The configuration loader has checked that before.
    pub fn build(&self, values: &SectionValues) -> Result<PluginSet, SectionError> {
        self.sources.iter().try_fold(PluginSet::new(), |plugins, source| {
            Ok(match source {
                Source::Object(make) => plugins.with_object_plugin(make(values)?),
                Source::Core(make) => plugins.with_core_plugin(make(values)?),
            })
        })
    }

    fn add(mut self, source: Source) -> Self {
        self.sources.push(source);
        self
    }

    /// Two plugins may share a section.
    fn own<S: PluginSection>(mut self) -> Self {
        if !self.sections.iter().any(|section| section.key == S::KEY) {
            self.sections.push(Section::of::<S>());
        }
        self
    }
}

fn section_of<S: PluginSection>(values: &SectionValues) -> Result<S, SectionError> {
    if let Some(section) = values.typed.iter().find_map(|section| section.downcast_ref::<S>()) {
        return Ok(section.clone());
    }
    match values.json.get(S::KEY) {
        None | Some(Value::Null) => Ok(S::default()),
        Some(section) => S::deserialize(section).map_err(|source| SectionError { key: S::KEY, source }),
    }
}
