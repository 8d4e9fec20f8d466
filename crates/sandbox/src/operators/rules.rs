//! Rule files: how the objects of a kind come along.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::fill::{self, UnknownPlaceholder};

/// The files that come with the program.
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
/// replicas: {cups: .spec.cups}              # how many there are of what
/// message: it leaks                         # what failures say, unless the object says otherwise
/// stages:                                   # the first that fits is done
///   - name: heating
///     when: {.status.state: ""}             # absent is empty
///     after: 200ms
///     status: {state: Heating, since: "{now}"}
///   - name: boiled
///     when: {.status.state: Heating}
///     outcome: succeed                      # only if the object is to end like this
///     after: 1s
///     status: {state: Boiled, cups: "{replicas.cups}"}
///     conditions:                           # those of a type replace each other
///       - {type: Ready, status: "True", reason: Hot, message: "{name} boils"}
///   - name: broken
///     when: {.status.state: Heating}
///     outcome: fail
///     after: 1s
///     status: {state: Broken, why: "{message}"}
/// ```
///
/// A stage's status is merged into the object's. In it, `{now}`, `{name}`, `{namespace}`, `{uid}`, `{hex}` (the uid
/// without dashes), `{short}` (the beginning of it), `{attempt}`, `{message}` and `{replicas.ROLE}` are replaced. What
/// mentions `{role}` is there once for each role that has replicas, and then `{replicas}` is their number; what
/// mentions `{index.ROLE}` is there once for each of them. A text that is nothing but a number becomes one.
///
/// Times have milliseconds, other than those of real operators: here stages may follow each other within a second, and
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

/// A column of the table of a kind.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Column {
    pub name: String,
    pub path: String,
    /// As in definitions: `string`, `integer`, `date`.
    #[serde(rename = "type", default = "text_type")]
    pub kind: String,
}

/// One step of an object's life.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stage {
    pub name: String,
    /// JSON paths, and what they must lead to.
    #[serde(default)]
    pub when: BTreeMap<String, Words>,
    /// The outcomes that pass through here; empty for all.
    #[serde(default)]
    pub outcome: Words,
    pub after: SignedDuration,
    /// Merged into the status of the object.
    #[serde(default)]
    pub status: Map<String, Value>,
    #[serde(default)]
    pub conditions: Vec<Value>,
}

/// One word or several.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Words {
    One(String),
    Some(Vec<String>),
}

/// A rule file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// It is not YAML, or not of the right shape.
    #[error("not a rule file: {0}")]
    Syntax(String),
    /// Nothing would ever happen.
    #[error("the rules for {0} have no stages; add one")]
    NoStages(String),
    /// A stage says something that nothing can be put in place of.
    #[error("stage {stage} of the rules for {kind}: {source}")]
    Placeholder {
        /// The kind.
        kind: String,
        /// The stage.
        stage: String,
        /// What it says.
        #[source]
        source: UnknownPlaceholder,
    },
}

impl Default for Words {
    fn default() -> Self {
        Self::Some(Vec::new())
    }
}

impl Words {
    pub(super) fn all(&self) -> &[String] {
        match self {
            Self::One(word) => std::slice::from_ref(word),
            Self::Some(words) => words,
        }
    }

    pub(super) fn has(&self, word: &str) -> bool {
        self.all().iter().any(|one| one == word)
    }
}

impl Rules {
    /// The rules of all kinds that task plugins create.
    #[must_use]
    pub fn builtin() -> Vec<Self> {
        let read = |(file, text): &(&str, &str)| {
            // A test reads them all; one that cannot be read would only be missing.
            Self::read(text).inspect_err(|error| tracing::error!(%file, %error, "a rule file is broken")).ok()
        };
        BUILTIN.iter().filter_map(read).collect()
    }

    /// Reads a rule file.
    ///
    /// # Errors
    /// It cannot be used; the error says why.
    pub fn read(text: &str) -> Result<Self, RulesError> {
        let rules: Self = serde_saphyr::from_str(text).map_err(|error| RulesError::Syntax(error.to_string()))?;
        if rules.stages.is_empty() {
            return Err(RulesError::NoStages(rules.qualified()));
        }
        for stage in &rules.stages {
            let status = Value::Object(stage.status.clone());
            let mut texts = std::iter::once(&status).chain(&stage.conditions);
            texts.try_for_each(|text| fill::check(text, rules.replicas.keys())).map_err(|source| {
                RulesError::Placeholder { kind: rules.qualified(), stage: stage.name.clone(), source }
            })?;
        }
        Ok(rules)
    }

    /// The resource and its group, which is also the name of its definition: `kettles.kitchen.example.org`.
    #[must_use]
    pub fn qualified(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }

    /// What an object may ask for, without what is always possible.
    pub(super) fn outcomes(&self) -> impl Iterator<Item = &str> {
        self.stages.iter().flat_map(|stage| stage.outcome.all()).map(String::as_str)
    }
}

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
    fn all_files_can_be_read_and_end_well_and_badly() {
        let all = Rules::builtin();
        assert_eq!(all.len(), BUILTIN.len());
        for rules in &all {
            let outcomes: Vec<_> = rules.outcomes().collect();
            assert!(outcomes.contains(&"succeed") && outcomes.contains(&"fail"), "{}", rules.kind);
        }
    }

    #[test]
    fn files_that_cannot_be_used_say_why() {
        assert_eq!(problem("stages: []"), "the rules for things.g.io have no stages; add one");
        assert!(problem("stages: [{name: a, after: soon}]").starts_with("not a rule file: "));
        assert!(problem("stages: [{name: a, after: 1s, statsu: {}}]").contains("statsu"));
        let unknown = problem("stages: [{name: a, after: 1s, status: {a: 'of {replicas.cups}'}}]");
        assert_eq!(
            unknown,
            "stage a of the rules for things.g.io: nothing can be put in place of {replicas.cups}; see the documentation \
             of rule files for what can"
        );
    }
}
