//! What the cluster's `SparkApplication` CRD knows.

use k8s_openapi::Resource;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::{Deserialize, Serialize};

use super::resource::SparkApplication;

/// Where in the schema pod templates show; executors got theirs in the same version of the operator.
const DRIVER_TEMPLATE: [&str; 3] = ["spec", "driver", "template"];

/// What the plugin wants to know about the CRD. Without a CRD that was read, nothing is supported: the API server
/// silently drops templates that the CRD does not know, and with them what only the templates say.
///
/// # Differs from upstream
///
/// Upstream looks once, at the first Spark task, and never again. Here a CRD that appears or is replaced later counts
/// without a restart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DefinitionFacts {
    /// The CRD takes pod templates.
    pub pod_templates: bool,
}

impl DefinitionFacts {
    /// Reads a CRD.
    pub fn of(crd: &CustomResourceDefinition) -> Self {
        Self { pod_templates: has_driver_template(crd) }
    }
}

/// Whether the version of the CRD that we write has a schema in which the driver has a pod template.
///
/// Mirrors `crdHasDriverTemplate` of upstream's Spark plugin.
pub fn has_driver_template(crd: &CustomResourceDefinition) -> bool {
    let ours = crd.spec.versions.iter().find(|version| version.served && version.name == SparkApplication::VERSION);
    let schema = ours.and_then(|version| version.schema.as_ref()?.open_api_v3_schema.as_ref());
    schema
        .and_then(|schema| {
            DRIVER_TEMPLATE.iter().try_fold(schema, |schema, name| schema.properties.as_ref()?.get(*name))
        })
        .is_some()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    fn crd(version: &Value) -> CustomResourceDefinition {
        let names = json!({"kind": "SparkApplication", "plural": "sparkapplications"});
        let spec = json!({"group": "g", "names": names, "scope": "Namespaced", "versions": [version]});
        serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap()
    }

    fn version(name: &str, served: bool, driver: &Value) -> Value {
        let spec = json!({"type": "object", "properties": {"driver": {"type": "object", "properties": driver}}});
        let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
        json!({"name": name, "served": served, "storage": true, "schema": schema})
    }

    #[test]
    fn only_the_served_version_that_we_write_counts() {
        let template = json!({"template": {"type": "object"}});
        assert!(has_driver_template(&crd(&version("v1beta2", true, &template))));
        assert!(!has_driver_template(&crd(&version("v1beta2", false, &template))));
        assert!(!has_driver_template(&crd(&version("v1beta1", true, &template))));
        assert!(!has_driver_template(&crd(&version("v1beta2", true, &json!({"cores": {"type": "integer"}})))));
        assert!(!has_driver_template(&crd(&json!({"name": "v1beta2", "served": true, "storage": true}))));
    }
}
