//! Kinds that CustomResourceDefinitions define at run time.

use std::sync::Arc;

use serde_json::Value;

use super::registry::Registry;
use super::{Behaviour, Kind, Schema};
use crate::object::strings;

/// The resource of CustomResourceDefinition objects.
pub(crate) const RESOURCE: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// The parts of a CustomResourceDefinition that the server uses.
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

    /// The OpenAPI schema of a version; null if the version has none.
    pub(crate) fn schema(&self, version: &str) -> &Value {
        self.version(version).map_or(&Value::Null, |version| &version.schema)
    }

    /// The `additionalPrinterColumns` of a version.
    pub(crate) fn columns(&self, version: &str) -> &[Value] {
        self.version(version).map_or(&[], |version| &version.columns)
    }

    /// The fields that field selectors may use, without the leading dot.
    pub(crate) fn selectable(&self, version: &str) -> impl Iterator<Item = &str> {
        self.version(version).into_iter().flat_map(|version| version.selectable.iter().map(String::as_str))
    }
}

/// Resource name of the kind that a CustomResourceDefinition object defines: `things.example.org`.
pub(crate) fn defined_resource(definition: &Value) -> String {
    format!("{}.{}", text(&definition["spec"]["names"]["plural"]), text(&definition["spec"]["group"]))
}

/// Serves the kinds that a CustomResourceDefinition object defines, one for each served version.
pub(crate) fn serve(registry: &Registry, definition: &Value) {
    let spec = &definition["spec"];
    let (group, names) = (text(&spec["group"]), &spec["names"]);
    let plural = text(&names["plural"]);
    let all: Vec<&Value> = spec["versions"].as_array().into_iter().flatten().collect();
    let shared = Arc::new(Definition { versions: all.iter().map(|version| read_version(version)).collect() });
    let resource: Arc<str> = Arc::from(defined_resource(definition));
    let kinds = all.iter().filter(|version| version["served"] == true).map(|version| Kind {
        group: group.clone(),
        version: text(&version["name"]),
        plural: plural.clone(),
        singular: text(&names["singular"]),
        kind: text(&names["kind"]),
        namespaced: spec["scope"] == "Namespaced",
        short_names: strings(&names["shortNames"]),
        categories: strings(&names["categories"]),
        schema: Schema::Custom(shared.clone()),
        resource: resource.clone(),
        behaviour: Behaviour {
            has_status: version["subresources"]["status"].is_object(),
            has_generation: true,
            unconditional_update: false,
            create_on_update: false,
            create_only: false,
        },
    });
    registry.replace(&group, &plural, kinds.collect());
}

/// Stops serving the kinds that a CustomResourceDefinition object defines.
pub(crate) fn stop_serving(registry: &Registry, definition: &Value) {
    let spec = &definition["spec"];
    registry.replace(&text(&spec["group"]), &text(&spec["names"]["plural"]), Vec::new());
}

fn read_version(version: &Value) -> Version {
    let fields = version["selectableFields"].as_array().into_iter().flatten();
    Version {
        name: text(&version["name"]),
        schema: version["schema"]["openAPIV3Schema"].clone(),
        columns: version["additionalPrinterColumns"].as_array().cloned().unwrap_or_default(),
        selectable: fields.map(|field| text(&field["jsonPath"]).trim_start_matches('.').to_owned()).collect(),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
