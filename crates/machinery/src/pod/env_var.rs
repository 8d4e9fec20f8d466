//! Environment variables, by where their value comes from.

use k8s_openapi::api::core::v1::{EnvVar, EnvVarSource, ObjectFieldSelector, ResourceFieldSelector};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// A variable with a fixed value.
///
/// ```
/// use aileron_machinery::pod::env_var;
///
/// assert_eq!(env_var::text("NNODES", "4").value.as_deref(), Some("4"));
/// ```
pub fn text(name: &str, value: impl Into<String>) -> EnvVar {
    EnvVar { name: name.to_owned(), value: Some(value.into()), value_from: None }
}

/// A variable that shows a field of its pod.
///
/// ```
/// use aileron_machinery::pod::env_var;
///
/// let variable = env_var::pod_field("POD_IP", "status.podIP");
/// assert_eq!(variable.value_from.unwrap().field_ref.unwrap().field_path, "status.podIP");
/// ```
pub fn pod_field(name: &str, field_path: &str) -> EnvVar {
    let field = ObjectFieldSelector { field_path: field_path.to_owned(), api_version: None };
    from(name, EnvVarSource { field_ref: Some(field), ..EnvVarSource::default() })
}

/// A variable that shows a request or a limit of a container, such as `limits.memory`.
///
/// ```
/// use aileron_machinery::pod::env_var;
///
/// let variable = env_var::container_resource("MEMORY_LIMIT", "worker", "limits.memory");
/// assert_eq!(variable.value_from.unwrap().resource_field_ref.unwrap().resource, "limits.memory");
/// ```
pub fn container_resource(name: &str, container: &str, resource: &str) -> EnvVar {
    let field = ResourceFieldSelector {
        container_name: Some(container.to_owned()),
        resource: resource.to_owned(),
        // Zero means the default, which is one. Typed clients always write the field.
        divisor: Some(Quantity("0".to_owned())),
    };
    from(name, EnvVarSource { resource_field_ref: Some(field), ..EnvVarSource::default() })
}

fn from(name: &str, source: EnvVarSource) -> EnvVar {
    EnvVar { name: name.to_owned(), value: None, value_from: Some(source) }
}
