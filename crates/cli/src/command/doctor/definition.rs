//! The definition of TaskAction: whether it is installed, with a status and with the fields that the executor uses.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client};
use serde_json::Value;

use super::answer::Answer;
use super::finding::Finding;
use crate::connection::missing_definition;

pub const DEFINITION: &str = "definition";
pub const SCHEMA: &str = "schema";

const NAME: &str = "taskactions.flyte.org";
const GROUP_VERSION: &str = "flyte.org/v1";
const VERSION: &str = "v1";
/// How many fields a finding names. More do not help to recognise another version of Flyte.
const NAMED_FIELDS: usize = 5;

/// What is known about the definition.
#[derive(Clone, Debug)]
pub struct DefinitionFacts {
    /// The resources of `flyte.org/v1`. Every user may ask for them.
    pub served: Answer<Vec<String>>,
    /// The definition as JSON. The executor itself does not need the permission to read it.
    pub definition: Answer<Value>,
}

/// A field that the installed definition lacks, or defines in another way.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Difference {
    path: String,
    /// The two types, if both have the field.
    types: Option<(String, String)>,
}

/// Asks the API server.
pub async fn look(client: &Client, timeout: Duration) -> DefinitionFacts {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let (served, definition) = tokio::join!(
        Answer::of(timeout, client.list_api_group_resources(GROUP_VERSION)),
        Answer::of(timeout, definitions.get(NAME)),
    );
    DefinitionFacts {
        served: served.map(|list| list.resources.into_iter().map(|resource| resource.name).collect()),
        definition: definition.map(|definition| serde_json::to_value(definition).unwrap_or_default()),
    }
}

/// What is wrong with the definition. `ours` is the definition that the executor is made for.
pub fn judge(facts: &DefinitionFacts, ours: &Value, program: &str) -> Vec<Finding> {
    let served = |name: &str| match &facts.served {
        Answer::Found(names) => names.iter().any(|one| one == name),
        _ => false,
    };
    if let Answer::Failed(problem) | Answer::Forbidden(problem) | Answer::Unauthenticated(problem) = &facts.served {
        let why = format!("cannot read which resources {GROUP_VERSION} has: {problem}");
        return vec![Finding::skipped(DEFINITION, why.clone()), Finding::skipped(SCHEMA, why)];
    }
    if !served("taskactions") {
        let found = format!("the API server does not serve taskactions ({GROUP_VERSION})");
        return vec![
            Finding::failed(DEFINITION, found, missing_definition(program)),
            Finding::skipped(SCHEMA, "there is no definition"),
        ];
    }
    let replace =
        format!("replace {NAME} by that of `{program} crd`, or install the Flyte release that this executor is for");
    let definition = if served("taskactions/status") {
        Finding::ok(DEFINITION, format!("taskactions ({GROUP_VERSION}) are served, with status"))
    } else {
        let found = format!("{NAME} has no status subresource: the executor cannot write the status of actions");
        Finding::failed(DEFINITION, found, replace.clone())
    };
    vec![definition, judge_schema(&facts.definition, ours, replace)]
}

fn judge_schema(definition: &Answer<Value>, ours: &Value, replace: String) -> Finding {
    let theirs = match definition {
        Answer::Found(definition) => definition,
        Answer::Forbidden(_) => {
            let why =
                format!("this user may not get the CustomResourceDefinition {NAME}; the executor does not need to");
            return Finding::skipped(SCHEMA, why);
        }
        other => return Finding::skipped(SCHEMA, other.problem().unwrap_or_default()),
    };
    let (Some(ours), Some(theirs)) = (schema(ours), schema(theirs)) else {
        return Finding::failed(SCHEMA, format!("{NAME} has no schema for version {VERSION}"), replace);
    };
    let mut differences = Vec::new();
    compare(ours, theirs, String::new(), &mut differences);
    let text = |differences: &[Difference]| {
        let shown: Vec<_> = differences.iter().take(NAMED_FIELDS).map(Difference::text).collect();
        let more = differences.len().saturating_sub(NAMED_FIELDS);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{NAME} differs: {}{more}", shown.join(", "))
    };
    // Without a field of the specification, tasks cannot ask for what it says. What the executor writes is dropped.
    let (harmless, harmful): (Vec<_>, Vec<_>) =
        differences.into_iter().partition(|one| one.types.is_none() && one.path.starts_with("spec."));
    if !harmful.is_empty() {
        return Finding::failed(SCHEMA, text(&harmful), replace);
    }
    if !harmless.is_empty() {
        return Finding::warning(SCHEMA, text(&harmless), replace);
    }
    Finding::ok(SCHEMA, "has every field that the executor uses")
}

impl Difference {
    fn text(&self) -> String {
        match &self.types {
            None => format!("{} is missing", self.path),
            Some((ours, theirs)) => format!("{} is {theirs} instead of {ours}", self.path),
        }
    }
}

/// The schema of the version that the executor uses.
fn schema(definition: &Value) -> Option<&Value> {
    let versions = definition["spec"]["versions"].as_array()?;
    let version = versions.iter().find(|version| version["name"] == VERSION)?;
    Some(&version["schema"]["openAPIV3Schema"]).filter(|schema| schema.is_object())
}

/// Collects what `theirs` lacks of `ours`. A list adds `[]` to the path.
fn compare(ours: &Value, theirs: &Value, path: String, differences: &mut Vec<Difference>) {
    if theirs["x-kubernetes-preserve-unknown-fields"] == true {
        return;
    }
    if let (Some(our), Some(their)) = (ours["type"].as_str(), theirs["type"].as_str())
        && our != their
    {
        return differences.push(Difference { path, types: Some((our.to_owned(), their.to_owned())) });
    }
    let join = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    for (name, our) in ours["properties"].as_object().into_iter().flatten() {
        match theirs["properties"].get(name) {
            Some(their) => compare(our, their, join(name), differences),
            None => differences.push(Difference { path: join(name), types: None }),
        }
    }
    if ours["items"].is_object() {
        compare(&ours["items"], &theirs["items"], format!("{path}[]"), differences);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::super::finding::Outcome;
    use super::*;

    fn ours() -> Value {
        serde_json::to_value(aileron_action::crd::crd().unwrap()).unwrap()
    }

    fn facts(definition: Value, names: &[&str]) -> DefinitionFacts {
        let served = Answer::Found(names.iter().map(ToString::to_string).collect());
        DefinitionFacts { served, definition: Answer::Found(definition) }
    }

    const ALL: [&str; 2] = ["taskactions", "taskactions/status"];

    fn outcomes(facts: &DefinitionFacts) -> Vec<Outcome> {
        judge(facts, &ours(), "aileron").iter().map(|finding| finding.outcome).collect()
    }

    #[test]
    fn the_own_definition_is_ok() {
        assert_eq!(outcomes(&facts(ours(), &ALL)), [Outcome::Ok, Outcome::Ok]);
    }

    #[test]
    fn a_missing_definition_and_a_missing_status_are_failures() {
        let missing = DefinitionFacts { served: Answer::NotServed, definition: Answer::Missing };
        let found = judge(&missing, &ours(), "polite");
        assert_eq!(outcomes(&missing), [Outcome::Failed, Outcome::Skipped]);
        assert!(found[0].remedy.as_ref().unwrap().contains("`polite crd | kubectl apply -f -`"), "{found:?}");
        assert_eq!(outcomes(&facts(ours(), &ALL[..1])), [Outcome::Failed, Outcome::Ok]);
    }

    #[test]
    fn a_schema_without_fields_that_the_executor_writes_is_a_failure() {
        let schema = "/spec/versions/0/schema/openAPIV3Schema/properties";
        let without = |field: &str| {
            let mut changed = ours();
            let (parent, name) = field.rsplit_once('/').unwrap();
            changed.pointer_mut(&format!("{schema}{parent}")).unwrap().as_object_mut().unwrap().remove(name).unwrap();
            judge(&facts(changed, &ALL), &ours(), "aileron").remove(1)
        };
        let status = without("/status/properties/phaseHistory");
        assert_eq!(status.outcome, Outcome::Failed);
        assert_eq!(status.found, "taskactions.flyte.org differs: status.phaseHistory is missing");
        assert_eq!(without("/spec/properties/taskType").outcome, Outcome::Warning);
        let mut changed = ours();
        *changed.pointer_mut(&format!("{schema}/status/properties/attempts")).unwrap() = json!({"type": "string"});
        let typed = judge(&facts(changed, &ALL), &ours(), "aileron").remove(1);
        assert!(typed.found.contains("status.attempts is string instead of integer"), "{typed:?}");
    }

    #[test]
    fn a_schema_that_keeps_unknown_fields_is_ok_and_one_that_may_not_be_read_is_skipped() {
        let mut open = ours();
        let pointer = "/spec/versions/0/schema/openAPIV3Schema/properties/status";
        *open.pointer_mut(pointer).unwrap() = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        assert_eq!(outcomes(&facts(open, &ALL)), [Outcome::Ok, Outcome::Ok]);
        let hidden = DefinitionFacts { definition: Answer::Forbidden("no".into()), ..facts(ours(), &ALL) };
        assert_eq!(outcomes(&hidden), [Outcome::Ok, Outcome::Skipped]);
    }
}
