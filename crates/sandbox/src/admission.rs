//! Who may come in: checks on new objects that need to know of other objects.

mod amounts;
pub(crate) mod limits;
pub(crate) mod quota;
pub(crate) mod tally;
pub(crate) mod webhooks;

use serde_json::Value;

use crate::kind::Kind;
use crate::object::{is_terminating, meta};
use crate::status::{ApiError, Cause};
use crate::store::{Key, Transaction};

/// The namespace of a new object must be there and must stay.
pub(crate) fn namespace(
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
        return Err(ApiError::forbidden(kind, meta(object, "name"), &text).because(&[cause]));
    }
    Ok(())
}
