//! CustomResourceDefinitions of the kinds that operators work on.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition, CustomResourceDefinitionNames,
    CustomResourceDefinitionSpec, CustomResourceDefinitionVersion, CustomResourceSubresourceStatus,
    CustomResourceSubresources, CustomResourceValidation, JSONSchemaProps,
};
use kube::Client;
use kube::api::{Api, ObjectMeta, Patch, PatchParams};
use kube::runtime::conditions;
use kube::runtime::wait::await_condition;

use super::{OperatorError, Rules};

/// How long to wait until a definition is established. API servers need about a second; after this time it is an error.
const ESTABLISH_TIMEOUT: Duration = Duration::from_secs(20);
/// Annotation that the API server requires of definitions in groups of Kubernetes. The value tells that the Kubernetes
/// project has not approved the definition.
const APPROVAL: (&str, &str) = ("api-approved.kubernetes.io", "unapproved, the operator is simulated");
/// Suffixes of the groups of Kubernetes.
const PROTECTED_SUFFIXES: [&str; 2] = [".k8s.io", ".kubernetes.io"];
/// Field manager with which the definitions are applied.
const FIELD_MANAGER: &str = "aileron-sandbox";

impl Rules {
    /// A definition of the kind that accepts every spec and every status. It does not refuse what the definition of the
    /// real operator would refuse.
    #[must_use]
    pub fn definition(&self) -> CustomResourceDefinition {
        let anything = || JSONSchemaProps {
            type_: Some("object".to_owned()),
            x_kubernetes_preserve_unknown_fields: Some(true),
            ..JSONSchemaProps::default()
        };
        let schema = JSONSchemaProps {
            description: Some(format!("{} as far as its operator is simulated.", self.kind)),
            properties: Some([("spec".to_owned(), anything()), ("status".to_owned(), anything())].into()),
            ..anything()
        };
        let age = CustomResourceColumnDefinition {
            name: "Age".to_owned(),
            type_: "date".to_owned(),
            json_path: ".metadata.creationTimestamp".to_owned(),
            ..CustomResourceColumnDefinition::default()
        };
        let columns = self.columns.iter().map(|column| CustomResourceColumnDefinition {
            name: column.name.clone(),
            type_: column.kind.clone(),
            json_path: column.path.clone(),
            ..CustomResourceColumnDefinition::default()
        });
        let version = CustomResourceDefinitionVersion {
            name: self.version.clone(),
            served: true,
            storage: true,
            schema: Some(CustomResourceValidation { open_api_v3_schema: Some(schema) }),
            subresources: Some(CustomResourceSubresources {
                status: Some(CustomResourceSubresourceStatus(serde_json::json!({}))),
                ..CustomResourceSubresources::default()
            }),
            additional_printer_columns: Some(columns.chain([age]).collect()),
            ..CustomResourceDefinitionVersion::default()
        };
        let is_protected = PROTECTED_SUFFIXES.iter().any(|end| self.group.ends_with(end));
        let approval = is_protected.then(|| [(APPROVAL.0.to_owned(), APPROVAL.1.to_owned())].into());
        CustomResourceDefinition {
            metadata: ObjectMeta { name: Some(self.qualified()), annotations: approval, ..ObjectMeta::default() },
            spec: CustomResourceDefinitionSpec {
                group: self.group.clone(),
                names: CustomResourceDefinitionNames {
                    kind: self.kind.clone(),
                    plural: self.plural.clone(),
                    singular: Some(self.kind.to_lowercase()),
                    list_kind: Some(format!("{}List", self.kind)),
                    short_names: (!self.short_names.is_empty()).then(|| self.short_names.clone()),
                    ..CustomResourceDefinitionNames::default()
                },
                scope: "Namespaced".to_owned(),
                versions: vec![version],
                ..CustomResourceDefinitionSpec::default()
            },
            status: None,
        }
    }
}

/// Installs the definitions of the kinds and waits until they are established. Installing them again changes nothing.
///
/// # Errors
/// The API server refuses a definition, or does not establish it in time.
pub async fn install_definitions(client: &Client, rules: &[Rules]) -> Result<(), OperatorError> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let install = |rules: &Rules| {
        let (definitions, definition, name) = (definitions.clone(), rules.definition(), rules.qualified());
        async move {
            let refused = |source| OperatorError::Refused { name: name.clone(), source };
            let params = PatchParams::apply(FIELD_MANAGER).force();
            definitions.patch(&name, &params, &Patch::Apply(&definition)).await.map_err(refused)?;
            let established = await_condition(definitions, &name, conditions::is_crd_established());
            match tokio::time::timeout(ESTABLISH_TIMEOUT, established).await {
                Ok(Ok(_)) => Ok(()),
                Ok(Err(_)) | Err(_) => Err(OperatorError::NotEstablished(name)),
            }
        }
    };
    futures::future::try_join_all(rules.iter().map(install)).await.map(drop)
}
