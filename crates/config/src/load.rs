//! Makes one configuration of files, environment variables and flags. This module does no I/O: callers pass the texts.

use std::sync::Arc;

use aileron_machinery::Section;
use serde_json::Value;

use crate::document::yaml;
use crate::error::{ConfigError, ConfigErrors, Origin, Problem, Warning};
use crate::schema::shape::Shape;
use crate::sources::{Sources, environment, flags};
use crate::values::overlay::{overlay, without_nulls};
use crate::values::resolve::Resolver;
use crate::values::tree::Tree;
use crate::{Config, no_effect, schema, validate};

/// A configuration, its warnings, and the origin of its values.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// Settings that are accepted but probably a mistake.
    pub warnings: Vec<Warning>,
    /// The values that the sources have set, with their origins.
    pub(crate) set: Tree,
    /// The keys that the loader knew.
    pub(crate) schema: Arc<Value>,
}

/// Loads configurations. Creating a loader computes the schema, which costs more than a load, so reuse it.
#[derive(Clone, Debug)]
pub struct Loader {
    pub(crate) schema: Arc<Value>,
    pub(crate) defaults: Arc<Value>,
    /// Sections of plugins that are not built in.
    sections: Arc<[Section]>,
}

impl Default for Loader {
    fn default() -> Self {
        Self::new()
    }
}

impl Loader {
    /// A loader that knows the built-in keys.
    #[must_use]
    pub fn new() -> Self {
        Self::with_sections(&[])
    }

    /// A loader that knows these sections of plugins as well, below `plugins`. Sections that are built in may be among
    /// them: pass [`PluginSources::sections`](aileron_machinery::PluginSources::sections).
    #[must_use]
    pub fn with_sections(sections: &[Section]) -> Self {
        let built_in = schema::defaults();
        let is_extra = |section: &&Section| built_in["plugins"].get(section.key()).is_none();
        let sections: Arc<[Section]> = sections.iter().filter(is_extra).cloned().collect();
        let mut defaults = built_in;
        for section in sections.iter() {
            defaults["plugins"][section.key()] = section.defaults();
        }
        Self { schema: Arc::new(schema::keys(&sections)), defaults: Arc::new(defaults), sections }
    }

    /// Splits command-line arguments into flags and their values, in order.
    ///
    /// # Errors
    ///
    /// Every argument that is not `--section.key`, and every flag that lacks its value.
    pub fn parse_arguments<S: AsRef<str>>(&self, arguments: &[S]) -> Result<Vec<(String, String)>, ConfigErrors> {
        flags::split(Shape::of(&self.schema), arguments)
    }

    /// The configuration that these sources describe.
    ///
    /// # Errors
    ///
    /// All mistakes of all sources.
    pub fn load(&self, sources: &Sources) -> Result<Loaded, ConfigErrors> {
        let mut warnings = Vec::new();
        let (config, set) = self.attempt(sources, &mut warnings)?;
        Ok(Loaded { config, warnings, set, schema: Arc::clone(&self.schema) })
    }

    /// The configuration and the values that were set. Warnings are added even if there are errors.
    pub(crate) fn attempt(
        &self,
        sources: &Sources,
        warnings: &mut Vec<Warning>,
    ) -> Result<(Config, Tree), ConfigErrors> {
        let mut errors = Vec::new();
        let set = self.resolve(sources, &mut errors, warnings);
        warnings.extend(no_effect::warning(Shape::of(&self.schema), &self.defaults, &set));
        if !errors.is_empty() {
            return Err(ConfigErrors(errors));
        }
        let values = without_nulls(overlay(Value::clone(&self.defaults), &set));
        let mut config: Config = serde_json::from_value(values).map_err(|error| {
            // Every value has passed the check against the schema, so the schema and the types disagree: this is a bug.
            let problem = Problem::Invalid(format!("the configuration as a whole cannot be used: {error}"));
            ConfigErrors(vec![ConfigError { origin: Origin::Default, path: String::new(), problem }])
        })?;
        adjust(&mut config);
        validate::validate(&config, &set, &self.sections)?;
        Ok((config, set))
    }

    /// The values that the sources set, merged. Sources with higher priority are merged later.
    fn resolve(&self, sources: &Sources, errors: &mut Vec<ConfigError>, warnings: &mut Vec<Warning>) -> Tree {
        let root = Shape::of(&self.schema);
        let mut set = Tree::empty();
        for file in &sources.files {
            let origin = Origin::File { name: Arc::from(file.name.as_str()), line: 0 };
            match yaml::parse(&file.text) {
                Ok(node) => {
                    let mut resolver = Resolver::new(root, origin);
                    set.merge(resolver.document(&node));
                    errors.append(&mut resolver.errors);
                    warnings.append(&mut resolver.warnings);
                }
                Err(error) => errors.push(ConfigError {
                    origin: origin.at(error.line),
                    path: String::new(),
                    problem: Problem::Syntax(error.message),
                }),
            }
        }
        let variables = sources.environment.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        set.merge(environment::resolve(root, variables, errors, warnings));
        set.merge(flags::resolve(root, &sources.flags, errors, warnings));
        set
    }
}

impl Config {
    /// The configuration that these sources describe.
    ///
    /// # Errors
    ///
    /// All mistakes of all sources: unknown keys, values of the wrong type, values that cannot be used.
    pub fn load(sources: &Sources) -> Result<Self, ConfigErrors> {
        Loader::new().load(sources).map(|loaded| loaded.config)
    }
}

/// Changes that upstream makes to sections after loading.
fn adjust(config: &mut Config) {
    config.plugins.ray.apply_deprecated_node_ip_address();
    // The loader makes the keys of maps lower case, but the names of device classes are upper case. Mirrors
    // `GetK8sPluginConfig`.
    let classes = std::mem::take(&mut config.plugins.k8s.accelerator_device_classes);
    config.plugins.k8s.accelerator_device_classes =
        classes.into_iter().map(|(class, device)| (class.to_uppercase(), device)).collect();
}
