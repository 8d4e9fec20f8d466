//! Rule files: the stages of the objects of a kind.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::placeholders::{self, UnknownPlaceholder};

/// The built-in rule files.
const BUILTIN: [(&str, &str); 7] = [
    ("spark.yaml", include_str!("rules/spark.yaml")),
    ("ray.yaml", include_str!("rules/ray.yaml")),
    ("dask.yaml", include_str!("rules/dask.yaml")),
    ("pytorch.yaml", include_str!("rules/pytorch.yaml")),
    ("tensorflow.yaml", include_str!("rules/tensorflow.yaml")),
    ("mpi.yaml", include_str!("rules/mpi.yaml")),
    ("jobset.yaml", include_str!("rules/jobset.yaml")),
];

/// The rules of one kind, as read from a YAML file:
///
/// ```yaml
/// group: kitchen.example.org
/// version: v1
/// kind: Kettle
/// plural: kettles
/// shortNames: [kt]
/// columns:                                  # what `kubectl get` shows
///   - {name: State, path: .status.state}
/// replicas: {cups: .spec.cups}              # roles, and the path of the number of their replicas
/// message: it leaks                         # message of failures, unless the object requests another one
/// stages:                                   # the first stage that matches is next
///   - name: heating
///     when: {.status.state: ""}             # an absent field is empty
///     after: 200ms
///     status: {state: Heating, since: "{now}"}
///   - name: boiled
///     when: {.status.state: Heating}
///     outcome: succeed                      # only if the object requests this outcome
///     after: 1s
///     status: {state: Boiled, cups: "{replicas.cups}"}
///     conditions:                           # a condition replaces the one of the same type
///       - {type: Ready, status: "True", reason: Hot, message: "{name} boils"}
///   - name: broken
///     when: {.status.state: Heating}
///     outcome: fail
///     after: 1s
///     status: {state: Broken, why: "{message}"}
/// ```
///
/// The status of a stage is merged into the status of the object. These placeholders are replaced in it: `{now}`,
/// `{name}`, `{namespace}`, `{uid}`, `{hex}` (the uid without dashes), `{short}` (the first characters of `{hex}`),
/// `{attempt}`, `{message}` and `{replicas.ROLE}`. An item with `{role}` is copied for each role that has replicas; in
/// it, `{replicas}` is the number of the replicas. An item with `{index.ROLE}` is copied for each replica of the role.
/// A text that is only a count becomes a number.
///
/// Times have milliseconds, unlike those of real operators. Simulated stages may follow each other within a second, and
/// readers order conditions by their times.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Rules {
    pub(crate) group: String,
    pub(super) version: String,
    pub(super) kind: String,
    pub(crate) plural: String,
    #[serde(default)]
    pub(super) short_names: Vec<String>,
    #[serde(default)]
    pub(super) columns: Vec<Column>,
    #[serde(default)]
    pub(super) replicas: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) message: String,
    pub(super) stages: Vec<Stage>,
}

/// A column that `kubectl get` shows.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Column {
    pub name: String,
    pub path: String,
    /// The type as in CustomResourceDefinitions: `string`, `integer`, `date`.
    #[serde(rename = "type", default = "text_type")]
    pub kind: String,
}

/// One stage of an object.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stage {
    pub name: String,
    /// JSON paths and their allowed values. All must match.
    #[serde(default)]
    pub when: BTreeMap<String, OneOrMore>,
    /// The outcomes that this stage is for; empty for all outcomes.
    #[serde(default)]
    pub outcome: OneOrMore,
    /// Delay before the stage.
    pub after: SignedDuration,
    /// Merged into the status of the object.
    #[serde(default)]
    pub status: Map<String, Value>,
    #[serde(default)]
    pub conditions: Vec<Value>,
}

/// One string or a list of strings.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum OneOrMore {
    One(String),
    More(Vec<String>),
}

/// Why a rule file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// The file is not YAML, or has unknown or missing fields.
    #[error("not a rule file: {0}")]
    Syntax(String),
    /// The file has no stages.
    #[error("the rules for {0} have no stages; add one")]
    NoStages(String),
    /// A stage has an unknown placeholder.
    #[error("stage {stage} of the rules for {kind}: {source}")]
    Placeholder {
        /// The kind.
        kind: String,
        /// The stage.
        stage: String,
        /// The placeholder.
        #[source]
        source: UnknownPlaceholder,
    },
}

impl Default for OneOrMore {
    fn default() -> Self {
        Self::More(Vec::new())
    }
}

impl OneOrMore {
    pub(super) fn all(&self) -> &[String] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::More(values) => values,
        }
    }

    pub(super) fn has(&self, value: &str) -> bool {
        self.all().iter().any(|one| one == value)
    }
}

impl Rules {
    /// The rules of all kinds that the built-in task plugins create.
    #[must_use]
    pub fn builtin() -> Vec<Self> {
        let read = |(file, text): &(&str, &str)| {
            // A test reads all built-in files, so an error cannot happen in a released program.
            Self::read(text)
                .inspect_err(|error| tracing::error!(%file, %error, "a built-in rule file cannot be read"))
                .ok()
        };
        BUILTIN.iter().filter_map(read).collect()
    }

    /// Reads a rule file.
    ///
    /// # Errors
    /// The file cannot be used.
    pub fn read(text: &str) -> Result<Self, RulesError> {
        let rules: Self = serde_saphyr::from_str(text).map_err(|error| RulesError::Syntax(error.to_string()))?;
        if rules.stages.is_empty() {
            return Err(RulesError::NoStages(rules.qualified()));
        }
        for stage in &rules.stages {
            let status = Value::Object(stage.status.clone());
            let mut texts = std::iter::once(&status).chain(&stage.conditions);
            texts.try_for_each(|text| placeholders::check(text, rules.replicas.keys())).map_err(|source| {
                RulesError::Placeholder { kind: rules.qualified(), stage: stage.name.clone(), source }
            })?;
        }
        Ok(rules)
    }

    /// Plural name and group: `kettles.kitchen.example.org`. This is also the name of the CustomResourceDefinition.
    #[must_use]
    pub fn qualified(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }

    /// The outcomes that the stages name. Every kind also has the outcome `hang`.
    pub(super) fn outcomes(&self) -> impl Iterator<Item = &str> {
        self.stages.iter().flat_map(|stage| stage.outcome.all()).map(String::as_str)
    }
}

/// Default of [`Column::kind`].
fn text_type() -> String {
    "string".to_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const HEAD: &str = "{group: g.io, version: v1, kind: Thing, plural: things, replicas: {cup: .spec.cups}, ";

    fn problem(stages: &str) -> String {
        Rules::read(&format!("{HEAD} {stages}}}")).unwrap_err().to_string()
    }

    #[test]
    fn all_built_in_files_can_be_read_and_have_success_and_failure() {
        let all = Rules::builtin();
        assert_eq!(all.len(), BUILTIN.len());
        for rules in &all {
            let outcomes: Vec<_> = rules.outcomes().collect();
            assert!(outcomes.contains(&"succeed") && outcomes.contains(&"fail"), "{}", rules.kind);
        }
    }

    #[test]
    fn an_unusable_file_is_an_error_with_the_reason() {
        assert_eq!(problem("stages: []"), "the rules for things.g.io have no stages; add one");
        assert!(problem("stages: [{name: a, after: soon}]").starts_with("not a rule file: "));
        assert!(problem("stages: [{name: a, after: 1s, statsu: {}}]").contains("statsu"));
        let unknown = problem("stages: [{name: a, after: 1s, status: {a: 'of {replicas.cups}'}}]");
        assert_eq!(
            unknown,
            "stage a of the rules for things.g.io: unknown placeholder {replicas.cups}; the documentation of rule files \
             lists the known ones"
        );
    }
}
