//! Sections of the configuration that plugins own.
//!
//! A plugin that has settings declares them as a type ([`PluginSection`]). The configuration loader then knows the keys
//! below `plugins.<KEY>`: unknown keys and values that do not fit are refused with file and line, and `config show`,
//! `schema`, `example` and `reference` include the section.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The settings of a plugin, a section `plugins.<KEY>` of the configuration.
///
/// The doc comments of the type and its fields become the reference page. Use `#[serde(default, deny_unknown_fields)]`,
/// and the key names of the file with `rename_all`.
///
/// ```
/// use aileron_machinery::schemars::JsonSchema;
/// use aileron_machinery::serde::{Deserialize, Serialize};
/// use aileron_machinery::{PluginSection, SectionProblem};
///
/// /// Ovens.
/// #[derive(Clone, Default, Serialize, Deserialize, JsonSchema)]
/// # #[serde(crate = "aileron_machinery::serde")]
/// # #[schemars(crate = "aileron_machinery::schemars")]
/// #[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
/// struct OvenConfig {
///     /// The heat of a task that names none.
///     default_degrees: u32,
/// }
///
/// impl PluginSection for OvenConfig {
///     const KEY: &'static str = "oven";
///
///     fn check(&self) -> Vec<SectionProblem> {
///         let too_hot = self.default_degrees > 300;
///         too_hot.then(|| SectionProblem::new("default-degrees", "must be at most 300")).into_iter().collect()
///     }
/// }
/// assert_eq!(OvenConfig { default_degrees: 900 }.check()[0].path, "default-degrees");
/// # assert_eq!(OvenConfig::KEY, "oven");
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a section of the configuration (`PluginSection`)",
    label = "this type declares no section",
    note = "write `impl PluginSection for {Self} {{ const KEY: &'static str = \"..\"; }}` with the name of the section below \
            `plugins`",
    note = "the closure that makes the plugin takes the section by value, and its type must be written: \
            `with_section(|section: MyConfig| ..)`"
)]
pub trait PluginSection: SectionData + Default + Clone + Send + Sync + 'static {
    /// The name of the section below `plugins`.
    const KEY: &'static str;

    /// What is wrong with the values, beyond what their types tell.
    fn check(&self) -> Vec<SectionProblem> {
        Vec::new()
    }
}

/// A section as data: its schema, and the way to JSON and back. Every type with the derives of a section implements this
/// trait by itself.
///
/// ```
/// use aileron_machinery::SectionData;
/// # use aileron_machinery::serde_json::json;
///
/// #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
/// struct OvenConfig {
///     degrees: u32,
/// }
/// let values = json!({"degrees": 180});
/// assert_eq!(OvenConfig::from_values(&values)?.to_values(), values);
/// # assert!(OvenConfig::schema(&mut Default::default()).get("$ref").is_some());
/// # Ok::<(), aileron_machinery::serde_json::Error>(())
/// ```
// These derives are not supertraits of `PluginSection`: the compiler would report each by itself, and not this trait with its
// advice.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a section of the configuration",
    label = "`Serialize`, `Deserialize` or `JsonSchema` is missing",
    note = "write `#[derive(Clone, Default, Serialize, Deserialize, JsonSchema)]` before the type",
    note = "`Serialize` and `Deserialize` are those of `aileron_machinery::serde`, and `JsonSchema` that of \
            `aileron_machinery::schemars`: another version of these crates is another trait"
)]
pub trait SectionData: Sized {
    /// The JSON schema; the definitions it refers to go into the generator.
    fn schema(generator: &mut SchemaGenerator) -> Schema;

    /// The values as JSON; null if they have no JSON form.
    fn to_values(&self) -> Value;

    /// Reads the values.
    fn from_values(values: &Value) -> Result<Self, serde_json::Error>;
}

#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned + JsonSchema> SectionData for T {
    fn schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<T>()
    }

    fn to_values(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    fn from_values(values: &Value) -> Result<Self, serde_json::Error> {
        T::deserialize(values)
    }
}

/// One thing that is wrong with a section.
///
/// ```
/// use aileron_machinery::SectionProblem;
///
/// let problem = SectionProblem::new("limits.degrees", "must be at most 300");
/// assert_eq!(problem, SectionProblem { path: "limits.degrees".into(), message: "must be at most 300".into() });
/// ```
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
///
/// ```
/// use aileron_machinery::Section;
/// use aileron_machinery::schemars::SchemaGenerator;
/// # use aileron_machinery::{PluginSection, serde_json::json};
/// # #[derive(Clone, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
/// # struct OvenConfig { degrees: u32 }
/// # impl PluginSection for OvenConfig { const KEY: &'static str = "oven"; }
///
/// let section = Section::of::<OvenConfig>();
/// assert_eq!((section.key(), section.defaults()), ("oven", json!({"degrees": 0})));
/// assert!(section.check(&json!({"degrees": "hot"}))[0].message.contains("invalid type"));
/// assert!(section.schema(&mut SchemaGenerator::default()).get("$ref").is_some());
/// ```
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
            schema: S::schema,
            defaults: || S::default().to_values(),
            check: |value| match S::from_values(value) {
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
///
/// ```
/// use aileron_machinery::{PluginSources, SectionValues};
/// # use aileron_machinery::serde_json::json;
/// # use aileron_machinery::PluginSection;
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
/// # #[derive(Clone, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
/// # struct KettleConfig { litres: u32 }
/// # impl PluginSection for KettleConfig { const KEY: &'static str = "kettle"; }
///
/// let sources = PluginSources::new().with_section(|_: KettleConfig| Kettles);
/// let values = SectionValues::new([("kettle".to_owned(), json!({"litres": "two"}))].into());
/// let Err(error) = sources.build(&values) else { panic!("the value is not a number") };
/// assert!(error.to_string().starts_with("plugins.kettle cannot be used: invalid type: string \"two\""));
/// ```
#[derive(Debug, thiserror::Error)]
#[error("plugins.{key} cannot be used: {source}")]
pub struct SectionError {
    /// The name of the section.
    pub key: &'static str,
    /// What does not fit.
    pub source: serde_json::Error,
}

/// The values of sections: those of a configuration file as JSON, and those that were read already.
///
/// ```
/// use aileron_machinery::{PluginSources, SectionValues};
/// # use aileron_machinery::serde_json::json;
/// # use aileron_machinery::PluginSection;
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
/// # #[derive(Clone, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
/// # struct KettleConfig { litres: u32 }
/// # impl PluginSection for KettleConfig { const KEY: &'static str = "kettle"; }
///
/// let from_file = SectionValues::new([("kettle".to_owned(), json!({"litres": 2}))].into());
/// let in_a_test = SectionValues::default().with(KettleConfig { litres: 2 });
/// let sources = PluginSources::new().with_section(|config: KettleConfig| {
///     assert_eq!(config.litres, 2);
///     Kettles
/// });
/// assert!(sources.build(&from_file).is_ok() && sources.build(&in_a_test).is_ok());
/// ```
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

    /// The section of this type: the values that were read already, else those of the file, else the defaults.
    pub(super) fn section<S: PluginSection>(&self) -> Result<S, SectionError> {
        if let Some(section) = self.typed.iter().find_map(|section| section.downcast_ref::<S>()) {
            return Ok(section.clone());
        }
        match self.json.get(S::KEY) {
            None | Some(Value::Null) => Ok(S::default()),
            Some(section) => S::from_values(section).map_err(|source| SectionError { key: S::KEY, source }),
        }
    }
}
