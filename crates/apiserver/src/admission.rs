//! Admission: checks of new objects that depend on other objects.

pub(crate) mod limits;
pub(crate) mod quota;
pub(crate) mod webhooks;

use serde_json::Value;

use crate::errors::{ApiError, Cause};
use crate::kinds::Kind;
use crate::object::{Key, is_terminating, meta};
use crate::store::Transaction;

/// Refuses a new object if its namespace does not exist or is being deleted.
pub(crate) fn check_namespace(
    transaction: &Transaction<'_>,
    kind: &Kind,
    namespace: &str,
    object: &Value,
) -> Result<(), ApiError> {
    if !kind.namespaced {
        return Ok(());
    }
    let Some(found) = transaction.get("namespaces", &Key::new("", namespace)) else {
        let mut error = ApiError::of_code(404, format!("namespaces \"{namespace}\" not found"));
        error.details = Some(serde_json::json!({"name": namespace, "kind": "namespaces"}));
        return Err(error);
    };
    if is_terminating(&found.body()) {
        let text = format!("unable to create new content in namespace {namespace} because it is being terminated");
        let cause = Cause {
            reason: "NamespaceTerminating",
            message: format!("namespace {namespace} is being terminated"),
            field: "metadata.namespace".to_owned(),
        };
        return Err(ApiError::forbidden(kind, meta(object, "name"), &text).with_causes(&[cause]));
    }
    Ok(())
}
