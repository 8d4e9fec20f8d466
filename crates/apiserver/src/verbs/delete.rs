//! Delete (DELETE).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::DeleteOptions;
use serde_json::Value;

use crate::controllers::deletion::{Deleted, Propagation, begin};
use crate::controllers::garbage;
use crate::errors::{ApiError, Cause};
use crate::kinds::Kind;
use crate::object::{Key, meta};
use crate::request::{Query, body};
use crate::state::ServerState;

/// Namespaces that cannot be deleted.
const PROTECTED_NAMESPACES: [&str; 3] = ["default", "kube-system", "kube-public"];
/// Kinds whose deletion is answered with the object. For other kinds the answer is a `Status`.
const ANSWERED_WITH_OBJECT: [&str; 6] =
    ["pods", "services", "serviceaccounts", "persistentvolumes", "persistentvolumeclaims", "resourcequotas"];

/// The options of a deletion.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeletionOptions {
    /// Grace period in seconds.
    pub grace: Option<i64>,
    pub propagation: Propagation,
    /// Precondition: the object has this uid.
    pub uid: Option<String>,
    /// Precondition: the object has this resourceVersion.
    pub version: Option<String>,
    pub dry_run: bool,
}

impl DeletionOptions {
    /// Reads the options from the body of the request. DeletionOptions that the body does not set are read from the
    /// query.
    pub(crate) fn read(bytes: &[u8], query: &Query) -> Result<Self, ApiError> {
        let given: Value = if bytes.iter().all(u8::is_ascii_whitespace) {
            Value::Null
        } else {
            // kube-apiserver answers a body that it cannot parse with an internal error (500).
            body::yaml(bytes).map_err(|error| ApiError::internal(format!("couldn't get version/kind; {error}")))?
        };
        if !given.is_object() && !given.is_null() {
            return Err(ApiError::internal("couldn't get version/kind; the body is no object"));
        }
        if let Err(error) = serde_json::from_value::<Option<DeleteOptions>>(given.clone()) {
            return Err(ApiError::internal(body::go_text(&error)));
        }
        let kind = given["kind"].as_str().unwrap_or("DeleteOptions");
        if kind != "DeleteOptions" {
            return Err(ApiError::internal(format!("decoded object cannot be converted to DeleteOptions: {kind}")));
        }
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let policy = text(&given["propagationPolicy"]).or_else(|| query.get("propagationPolicy").map(str::to_owned));
        let orphan = given["orphanDependents"].as_bool();
        if orphan.is_some() && policy.is_some() {
            let causes = [Cause::invalid(
                "propagationPolicy",
                &policy.into(),
                "orphanDependents and deletionPropagation cannot be both set",
            )];
            return Err(ApiError::invalid_named("meta.k8s.io", "DeleteOptions", "", &causes));
        }
        let propagation = match (policy.as_deref(), orphan) {
            (None, Some(true)) | (Some("Orphan"), _) => Propagation::Orphan,
            (Some("Foreground"), _) => Propagation::Foreground,
            (None | Some("Background"), _) => Propagation::Background,
            (Some(other), _) => {
                let supported = ["Background", "Foreground", "Orphan", "nil"].map(Value::from);
                let cause = Cause::unsupported("propagationPolicy", &other.into(), &supported);
                return Err(ApiError::invalid_named("meta.k8s.io", "DeleteOptions", "", &[cause]));
            }
        };
        let from_query = query.get("gracePeriodSeconds").and_then(|text| text.parse().ok());
        Ok(Self {
            grace: given["gracePeriodSeconds"].as_i64().or(from_query),
            propagation,
            uid: text(&given["preconditions"]["uid"]),
            version: text(&given["preconditions"]["resourceVersion"]),
            dry_run: query.is_dry_run()? || given["dryRun"].as_array().is_some_and(|all| !all.is_empty()),
        })
    }
}

/// Deletes one object. The answer is the object or a `Status`.
pub(crate) fn delete(
    state: &ServerState,
    kind: &Kind,
    key: &Key,
    options: &DeletionOptions,
) -> Result<Value, ApiError> {
    let mut transaction = state.store.lock();
    let current = transaction.find(kind, key)?.object(kind);
    check_preconditions(kind, &current, options)?;
    if kind.is("namespaces") && PROTECTED_NAMESPACES.contains(&key.name.as_str()) {
        return Err(ApiError::forbidden(kind, &key.name, "this namespace may not be deleted"));
    }
    if options.dry_run {
        return Ok(answer(kind, &Deleted { object: current, removed: true }));
    }
    let deleted = begin(state.now(), &mut transaction, kind, &current, options.propagation, options.grace);
    garbage::after_delete(state, &mut transaction, kind, &deleted);
    Ok(answer(kind, &deleted))
}

fn check_preconditions(kind: &Kind, current: &Value, options: &DeletionOptions) -> Result<(), ApiError> {
    let name = meta(current, "name");
    let own = meta(current, "uid");
    if let Some(uid) = options.uid.as_deref().filter(|uid| *uid != own) {
        let text = format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({own}). The object might have been \
             deleted and then recreated"
        );
        return Err(ApiError::precondition(kind, name, &text));
    }
    let own = meta(current, "resourceVersion");
    if let Some(version) = options.version.as_deref().filter(|version| *version != own) {
        let text = format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({own}). \
             The object might have been modified"
        );
        return Err(ApiError::precondition(kind, name, &text));
    }
    Ok(())
}

fn answer(kind: &Kind, deleted: &Deleted) -> Value {
    if !deleted.removed || ANSWERED_WITH_OBJECT.iter().any(|plural| kind.is(plural)) {
        return deleted.object.clone();
    }
    let mut details = serde_json::Map::new();
    details.insert("name".to_owned(), meta(&deleted.object, "name").into());
    if !kind.group.is_empty() {
        details.insert("group".to_owned(), kind.group.as_str().into());
    }
    details.insert("kind".to_owned(), kind.plural.as_str().into());
    details.insert("uid".to_owned(), meta(&deleted.object, "uid").into());
    serde_json::json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}
