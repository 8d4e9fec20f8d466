//! Create (POST).

use serde_json::Value;

use crate::admission;
use crate::controllers::garbage;
use crate::errors::{ApiError, Cause};
use crate::kinds::{Kind, definition};
use crate::object::{Key, is_terminating, meta, set, set_meta};
use crate::request::{Query, body};
use crate::state::ServerState;
use crate::store::Transaction;
use crate::strategy::{custom, definitions, events, metadata, pods};

/// How many generated names are tried if names are already taken. kube-apiserver tries as many.
const GENERATED_NAMES: usize = 8;

/// Creates an object and returns it as it is stored.
pub(crate) async fn create(
    state: &ServerState,
    kind: &Kind,
    namespace: &str,
    query: &Query,
    object: Value,
) -> Result<Value, ApiError> {
    let dry_run = query.is_dry_run()?;
    let mut object = with_namespace(kind, namespace, object)?;
    {
        let transaction = state.store.lock();
        admission::check_namespace(&transaction, kind, namespace, &object)?;
        admission::limits::fill_in_defaults(&transaction, kind, &mut object);
    }
    let is_generated = meta(&object, "name").is_empty();
    metadata::generate_name(&mut object, || state.random.suffix());
    // The store is not locked during the calls of webhooks. Therefore `insert` checks the namespace again.
    if let Some(changed) = admission::webhooks::mutate(state, kind, &object, dry_run).await? {
        object = with_namespace(kind, namespace, body::shape(kind, changed)?.object)?;
    }
    let mut transaction = state.store.lock();
    let mut attempts = if is_generated { GENERATED_NAMES } else { 1 };
    loop {
        attempts -= 1;
        match insert(state, &mut transaction, kind, object.clone(), dry_run) {
            Err(error) if error.reason == "AlreadyExists" && attempts > 0 => {
                set_meta(&mut object, "name", Value::Null);
                metadata::generate_name(&mut object, || state.random.suffix());
            }
            outcome => return outcome,
        }
    }
}

/// The object with the namespace of the URL.
fn with_namespace(kind: &Kind, namespace: &str, mut object: Value) -> Result<Value, ApiError> {
    let named = meta(&object, "namespace");
    if !named.is_empty() && named != namespace && kind.namespaced {
        let text = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(ApiError::bad_request(text));
    }
    let namespace = if namespace.is_empty() { Value::Null } else { namespace.into() };
    set_meta(&mut object, "namespace", namespace);
    Ok(object)
}

/// Checks and stores an object. The caller holds the lock from the checks to the write.
pub(crate) fn insert(
    state: &ServerState,
    transaction: &mut Transaction<'_>,
    kind: &Kind,
    mut object: Value,
    dry_run: bool,
) -> Result<Value, ApiError> {
    if metadata::expected_version(&object)?.is_some() {
        return Err(ApiError::internal("resourceVersion should not be set on objects to be created"));
    }
    set_meta(&mut object, "resourceVersion", Value::Null);
    metadata::generate_name(&mut object, || state.random.suffix());
    admission::check_namespace(transaction, kind, meta(&object, "namespace"), &object)?;
    metadata::prepare_new(kind, &mut object, state.random.uid(), state.now());
    let name = meta(&object, "name").to_owned();
    let mut causes = metadata::problems(kind, &object);
    match &*kind.resource {
        "pods" => {
            pods::prepare_new(&mut object);
            causes.extend(pods::problems(&object));
        }
        "events" => events::check(kind, &object)?,
        "namespaces" if object["spec"]["finalizers"].is_null() => {
            object["spec"]["finalizers"] = serde_json::json!(["kubernetes"]);
        }
        definition::RESOURCE => {
            definitions::prepare_new(&mut object);
            causes.extend(definitions::problems(&object));
        }
        _ => {}
    }
    if let Some(definition) = kind.definition() {
        if kind.behaviour.has_status {
            set(&mut object, "status", Value::Null);
        }
        causes.extend(custom::violations(definition, &kind.version, &object));
    }
    check_valid(kind, &name, &causes)?;
    admission::limits::check(transaction, kind, &object)?;
    let key = Key::of(&object);
    let new_usages = admission::quota::check(transaction, kind, &object)?;
    if let Some(existing) = transaction.get(&kind.resource, &key) {
        return Err(ApiError::already_exists(kind, &name, is_terminating(&existing.body())));
    }
    if dry_run {
        return Ok(object);
    }
    admission::quota::write_usage(state, transaction, new_usages);
    if kind.is(definition::RESOURCE) {
        definitions::establish(&mut object, state.now());
    }
    let stored = transaction.put(kind, object);
    garbage::after_write(state, transaction, kind, &stored);
    Ok(stored.object(kind))
}

/// The answer 422 if there are validation errors.
pub(crate) fn check_valid(kind: &Kind, name: &str, causes: &[Cause]) -> Result<(), ApiError> {
    if causes.is_empty() { Ok(()) } else { Err(ApiError::invalid(kind, name, causes)) }
}
