//! Kinds that are defined at run time.

mod prune;
mod schema;

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::kind::{Kind, Nature, Traits};
use crate::metadata::seconds;
use crate::object::{meta, set, texts};
use crate::registry::Registry;
use crate::server::ApiServer;
use crate::status::Cause;
use crate::store::{Key, Transaction};

/// Where definitions are kept.
pub(crate) const PLACE: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// What a definition says, as far as it matters here.
#[derive(Debug)]
pub(crate) struct Definition {
    versions: Vec<Version>,
}

#[derive(Debug)]
struct Version {
    name: String,
    schema: Value,
    columns: Vec<Value>,
    selectable: Vec<String>,
}

impl Definition {
    fn version(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|version| version.name == name)
    }

    /// The schema of a version; null if it has none.
    pub(crate) fn schema(&self, version: &str) -> &Value {
        self.version(version).map_or(&Value::Null, |version| &version.schema)
    }

    /// The columns that a table of it has besides the name.
    pub(crate) fn columns(&self, version: &str) -> &[Value] {
        self.version(version).map_or(&[], |version| &version.columns)
    }

    /// The fields that selectors may name.
    pub(crate) fn selectable(&self, version: &str) -> impl Iterator<Item = &str> {
        self.version(version).into_iter().flat_map(|version| version.selectable.iter().map(String::as_str))
    }
}

/// Drops what the schema does not know and fills in its defaults; `unknown` gets what was dropped.
pub(crate) fn shape(definition: &Definition, version: &str, object: &mut Value, unknown: &mut Vec<String>) {
    let schema = definition.schema(version);
    if schema.is_object() {
        prune::prune(object, schema, unknown);
        prune::fill_in(object, schema);
    }
}

/// Where an object breaks the schema.
pub(crate) fn violations(definition: &Definition, version: &str, object: &Value) -> Vec<Cause> {
    let schema = definition.schema(version);
    if schema.is_object() { schema::violations(object, schema) } else { Vec::new() }
}

/// Clears what only the server may say of a new definition.
pub(crate) fn prepare_new(object: &mut Value) {
    set(object, "status", Value::Null);
}

/// Keeps the names and versions in the status up to date.
pub(crate) fn prepare_update(object: &mut Value) {
    let names = object["spec"]["names"].clone();
    set(&mut object["status"], "acceptedNames", names);
    let mut stored = texts(&object["status"]["storedVersions"]);
    let new: Vec<_> = storage_versions(object).into_iter().filter(|name| !stored.contains(name)).collect();
    stored.extend(new);
    set(&mut object["status"], "storedVersions", stored.into());
}

/// Says that a definition is accepted and served, which here is so at once.
pub(crate) fn establish(object: &mut Value, now: Timestamp) {
    let condition = |name: &str, reason: &str, message: &str| json!({"type": name, "status": "True", "lastTransitionTime": seconds(now), "reason": reason, "message": message});
    let status = json!({
        "conditions": [
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ],
        "acceptedNames": object["spec"]["names"],
        "storedVersions": storage_versions(object),
    });
    set(object, "status", status);
}

fn storage_versions(object: &Value) -> Vec<String> {
    let versions = object["spec"]["versions"].as_array().into_iter().flatten();
    versions
        .filter(|version| version["storage"] == true)
        .filter_map(|one| one["name"].as_str().map(str::to_owned))
        .collect()
}

/// What is wrong with a definition.
pub(crate) fn problems(object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let spec = &object["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, plural) = (text(&spec["group"]), text(&spec["names"]["plural"]));
    if meta(object, "name") != format!("{plural}.{group}") {
        let name = Value::from(meta(object, "name"));
        causes.push(Cause::invalid("metadata.name", &name, "must be spec.names.plural+\".\"+spec.group"));
    }
    for (field, value) in
        [("group", &spec["group"]), ("names.plural", &spec["names"]["plural"]), ("names.kind", &spec["names"]["kind"])]
    {
        if value.as_str().unwrap_or_default().is_empty() {
            causes.push(Cause::required(format!("spec.{field}"), ""));
        }
    }
    if !["Namespaced", "Cluster"].iter().any(|known| spec["scope"] == *known) {
        causes.push(Cause::unsupported("spec.scope", &spec["scope"], &["Cluster", "Namespaced"].map(Value::from)));
    }
    if storage_versions(object).len() != 1 {
        let text = "must have exactly one version marked as storage version";
        causes.push(Cause::invalid("spec.versions", &spec["versions"], text));
    }
    for (index, version) in spec["versions"].as_array().into_iter().flatten().enumerate() {
        if !version["schema"]["openAPIV3Schema"].is_object() {
            causes.push(Cause::required(
                format!("spec.versions[{index}].schema.openAPIV3Schema"),
                "schemas are required",
            ));
        }
    }
    causes
}

/// Serves the kinds that a definition names.
pub(crate) fn serve(registry: &Registry, definition: &Value) {
    let spec = &definition["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, names) = (text(&spec["group"]), &spec["names"]);
    let plural = text(&names["plural"]);
    let all: Vec<&Value> = spec["versions"].as_array().into_iter().flatten().collect();
    let versions = all.iter().map(|version| Version {
        name: text(&version["name"]),
        schema: version["schema"]["openAPIV3Schema"].clone(),
        columns: version["additionalPrinterColumns"].as_array().cloned().unwrap_or_default(),
        selectable: version["selectableFields"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|field| text(&field["jsonPath"]).trim_start_matches('.').to_owned())
            .collect(),
    });
    let shared = Arc::new(Definition { versions: versions.collect() });
    let place: Arc<str> = Arc::from(format!("{plural}.{group}"));
    let kinds = all.iter().filter(|version| version["served"] == true).map(|version| Kind {
        group: group.clone(),
        version: text(&version["name"]),
        plural: plural.clone(),
        singular: text(&names["singular"]),
        kind: text(&names["kind"]),
        namespaced: spec["scope"] == "Namespaced",
        short_names: texts(&names["shortNames"]),
        categories: texts(&names["categories"]),
        nature: Nature::Custom(shared.clone()),
        place: place.clone(),
        traits: Traits {
            has_status: version["subresources"]["status"].is_object(),
            has_generation: true,
            unconditional_update: false,
            create_on_update: false,
            virtual_only: false,
        },
    });
    registry.replace(&group, &plural, kinds.collect());
}

/// Stops serving what a definition defined; returns what goes with it.
pub(crate) fn withdraw(server: &ApiServer, transaction: &Transaction<'_>, definition: &Value) -> Vec<(Arc<Kind>, Key)> {
    let spec = &definition["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, plural) = (text(&spec["group"]), text(&spec["names"]["plural"]));
    let place = format!("{plural}.{group}");
    let Some(kind) = server.inner.registry.at(&place) else { return Vec::new() };
    let objects = transaction.list(&place, "").iter().map(|stored| (kind.clone(), stored.key.clone())).collect();
    server.inner.registry.replace(&group, &plural, Vec::new());
    objects
}
