//! Makes one configuration of files, environment variables and flags. This module does no I/O: callers pass the texts.

mod draft;

use std::sync::Arc;

use aileron_machinery::Section;
use serde_json::Value;

use crate::document::yaml;
use crate::error::{ConfigError, ConfigErrors, Origin, Problem, Warning};
use crate::schema::shape::Shape;
use crate::sources::{Sources, environment, flags};
use crate::values::findings::{Findings, Purpose};
use crate::values::overlay::{overlay, without_nulls};
use crate::values::resolve::Resolver;
use crate::values::tree::Tree;
use crate::{Config, no_effect, schema, validate};

pub use draft::Draft;

/// A configuration, its warnings, and the origin of its values.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// Settings that are accepted but probably a mistake.
    pub warnings: Vec<Warning>,
    /// What an operator may want to know, such as the sections that are not read. These are no mistakes.
    pub notes: Vec<String>,
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
    /// Sections that nobody knows are errors.
    strict: bool,
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
        Self { schema: Arc::new(schema::keys(&sections)), defaults: Arc::new(defaults), sections, strict: false }
    }

    /// Splits command-line arguments into flags and their values, in order.
    ///
    /// # Errors
    ///
    /// Every argument that is not `--section.key`, and every flag that lacks its value.
    pub fn parse_arguments<S: AsRef<str>>(&self, arguments: &[S]) -> Result<Vec<(String, String)>, ConfigErrors> {
        flags::split(Shape::of(&self.schema), arguments)
    }

    /// The same loader. If it is strict, sections that nobody knows are errors and not warnings, and so are unknown keys in
    /// sections that have no effect.
    #[must_use]
    pub fn strict(mut self, strict: bool) -> Self {
        self.strict = strict;
        self
    }

    /// The configuration that these sources describe.
    ///
    /// # Errors
    ///
    /// All mistakes of all sources. Values that upstream's loader accepts and with which no task could run are no mistakes
    /// here: see [`draft`](Self::draft).
    pub fn load(&self, sources: &Sources) -> Result<Loaded, ConfigErrors> {
        self.assemble(sources, Purpose::Show).finish()
    }

    /// The configuration that these sources describe as far as it can be used, with all mistakes that would keep the
    /// executor from starting.
    #[must_use]
    pub fn draft(&self, sources: &Sources) -> Draft {
        self.assemble(sources, Purpose::Start)
    }

    fn assemble(&self, sources: &Sources, purpose: Purpose) -> Draft {
        let mut findings = Findings { errors: sources.unreadable.clone(), ..Findings::default() };
        let mut set = self.resolve(sources, &mut findings);
        findings.settle_unlikely(purpose);
        let notes = findings.settle_unread(self.strict).into_iter().collect();
        findings.warnings.extend(no_effect::warning(Shape::of(&self.schema), &self.defaults, &set));
        let mut config = self.typed(&mut set, &mut findings.errors);
        adjust(&mut config);
        let is_unread = |error: &ConfigError| matches!(error.problem, Problem::Syntax(_) | Problem::Unreadable(_));
        let mut draft = Draft {
            config,
            warnings: findings.warnings,
            notes,
            replaced: findings.errors.iter().map(|error| error.path.clone()).collect(),
            is_incomplete: findings.errors.iter().any(is_unread),
            errors: findings.errors,
            set,
            schema: Arc::clone(&self.schema),
        };
        for (path, message) in validate::problems(&draft.config, &self.sections, purpose) {
            draft.reject(&path, message);
        }
        draft
    }

    /// The values that were set and the defaults as the types of the sections. Values that do not fit their type are
    /// removed and reported.
    fn typed(&self, set: &mut Tree, errors: &mut Vec<ConfigError>) -> Config {
        let typed = |set: &Tree| {
            let values = without_nulls(overlay(Value::clone(&self.defaults), set));
            serde_json::from_value::<Config>(values)
        };
        let whole = match typed(set) {
            Ok(config) => return config,
            Err(error) => error,
        };
        // The schema allows some values that their types do not, such as a port that is too large. The error does not say
        // which value it is about, so each value is tried alone.
        let mut misfits = Vec::new();
        for (path, leaf) in set.leaves() {
            if let Err(error) = typed(&leaf.clone().below(&path)) {
                let problem = Problem::Invalid(format!("the value cannot be used: {error}"));
                errors.push(ConfigError { origin: set.origin(&path), path: path.join("."), problem });
                misfits.push(path);
            }
        }
        for path in &misfits {
            set.remove(path);
        }
        typed(set).unwrap_or_else(|_| {
            let problem = Problem::Invalid(format!("the configuration as a whole cannot be used: {whole}"));
            errors.push(ConfigError { origin: Origin::Default, path: String::new(), problem });
            Config::default()
        })
    }

    /// The values that the sources set, merged. Sources with higher priority are merged later.
    fn resolve(&self, sources: &Sources, findings: &mut Findings) -> Tree {
        let root = Shape::of(&self.schema);
        let mut set = Tree::empty();
        for file in &sources.files {
            let origin = Origin::File { name: Arc::from(file.name.as_str()), line: 0 };
            match yaml::parse(&file.text) {
                Ok(node) => {
                    let mut resolver = Resolver::new(root, origin);
                    set.merge(resolver.document(&node));
                    findings.append(resolver.findings);
                }
                Err(error) => findings.errors.push(ConfigError {
                    origin: origin.at(error.line),
                    path: String::new(),
                    problem: Problem::Syntax(error.message),
                }),
            }
        }
        let variables = sources.environment.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        set.merge(environment::resolve(root, variables, findings));
        set.merge(flags::resolve(root, &sources.flags, findings));
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
