//! The configuration that files, environment and flags describe together. Nothing here reads anything.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::error::{ConfigError, ConfigErrors, Origin, Problem, Warning};
use super::overlay::{overlay, without_nulls};
use super::resolve::Resolver;
use super::shape::Shape;
use super::tree::Tree;
use super::{Config, environment, explain, flags, validate, yaml};

/// Everything that can set a key, weakest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// Files; a later one wins over an earlier one.
    pub files: Vec<SourceFile>,
    /// The process's environment.
    pub environment: BTreeMap<String, String>,
    /// Flags without their dashes, and their values.
    pub flags: Vec<(String, String)>,
}

/// A file that has been read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// The file as messages should name it.
    pub name: String,
    /// What it contains.
    pub text: String,
}

/// A configuration, and what is known about it.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// What is accepted and probably not meant.
    pub warnings: Vec<Warning>,
    /// What was set, and by whom.
    pub(super) set: Tree,
}

/// Loads configurations. Building one costs more than using it, so keep it when loading often.
#[derive(Clone, Debug)]
pub struct Loader {
    schema: Value,
    defaults: Value,
}

impl Sources {
    /// A single file, for tests and examples.
    #[must_use]
    pub fn file(name: &str, text: &str) -> Self {
        Self { files: vec![SourceFile { name: name.into(), text: text.into() }], ..Self::default() }
    }
}

impl Default for Loader {
    fn default() -> Self {
        Self::new()
    }
}

impl Loader {
    /// A loader for the current set of keys.
    #[must_use]
    pub fn new() -> Self {
        Self { schema: explain::keys(), defaults: explain::defaults() }
    }

    /// The configuration that these sources describe.
    ///
    /// # Errors
    ///
    /// All mistakes of all sources together.
    pub fn load(&self, sources: &Sources) -> Result<Loaded, ConfigErrors> {
        let mut warnings = Vec::new();
        let (config, set) = self.attempt(sources, &mut warnings)?;
        Ok(Loaded { config, warnings, set })
    }

    /// The configuration and what was set in it. Warnings are given even if there are errors.
    pub(super) fn attempt(
        &self,
        sources: &Sources,
        warnings: &mut Vec<Warning>,
    ) -> Result<(Config, Tree), ConfigErrors> {
        let mut errors = Vec::new();
        let set = self.resolve(sources, &mut errors, warnings);
        if !errors.is_empty() {
            return Err(ConfigErrors(errors));
        }
        let values = without_nulls(overlay(self.defaults.clone(), &set));
        let mut config: Config = serde_json::from_value(values).map_err(|error| {
            // The values have been checked one by one, so this is a disagreement between schema and types.
            let problem = Problem::Invalid(format!("the configuration as a whole cannot be used: {error}"));
            ConfigErrors(vec![ConfigError { origin: Origin::Default, path: String::new(), problem }])
        })?;
        adjust(&mut config);
        validate::validate(&config, &set)?;
        Ok((config, set))
    }

    /// What the sources set, weakest first, one over the other.
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

/// What upstream does to sections once they are loaded.
fn adjust(config: &mut Config) {
    config.plugins.ray.apply_deprecated_node_ip_address();
    // The loader lower-cases keys of plain maps, but device classes are upper-case names of an enumeration. Mirrors
    // GetK8sPluginConfig.
    let classes = std::mem::take(&mut config.plugins.k8s.accelerator_device_classes);
    config.plugins.k8s.accelerator_device_classes =
        classes.into_iter().map(|(class, device)| (class.to_uppercase(), device)).collect();
}
