//! What the cluster's `SparkApplication` CRD knows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use k8s_openapi::Resource;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use super::resource::SparkApplication;

/// The name of the CRD to look at.
pub const CRD_NAME: &str = "sparkapplications.sparkoperator.k8s.io";

/// Where in the schema pod templates show; executors got theirs in the same version of the operator.
const DRIVER_TEMPLATE: [&str; 3] = ["spec", "driver", "template"];

/// Whether the cluster's CRD takes pod templates, as last seen. Clones share what is seen, so whoever looks at the CRD
/// tells the plugin through its own clone. Until somebody has looked, the answer is no: the API server silently drops
/// templates that the CRD does not know, and with them what only they say.
///
/// # Differs from upstream
///
/// Upstream looks once, at the first Spark task, and never again. Here a CRD that appears or is replaced later counts
/// without a restart.
#[derive(Clone, Debug, Default)]
pub struct PodTemplateSupport(Arc<AtomicBool>);

impl PodTemplateSupport {
    /// An answer that is known from the start.
    pub fn known(supported: bool) -> Self {
        Self(Arc::new(AtomicBool::new(supported)))
    }

    /// Notes what the CRD looks like now; `None` if there is none.
    pub fn observe(&self, crd: Option<&CustomResourceDefinition>) {
        // Nothing else hangs on the order of the two.
        self.0.store(crd.is_some_and(has_driver_template), Ordering::Relaxed);
    }

    /// The CRD takes pod templates.
    pub fn is_supported(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Equal if they give the same answer now.
impl PartialEq for PodTemplateSupport {
    fn eq(&self, other: &Self) -> bool {
        self.is_supported() == other.is_supported()
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

    #[test]
    fn what_one_clone_sees_the_others_know() {
        let support = PodTemplateSupport::default();
        let plugin = support.clone();
        assert!(!plugin.is_supported());
        support.observe(Some(&crd(&version("v1beta2", true, &json!({"template": {"type": "object"}})))));
        assert!(plugin.is_supported());
        support.observe(None);
        assert!(!plugin.is_supported());
    }
}
