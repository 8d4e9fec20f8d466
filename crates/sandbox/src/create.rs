//! POST: new objects.

use serde_json::Value;

use crate::body;
use crate::kind::Kind;
use crate::object::{meta, set, set_meta};
use crate::request::Query;
use crate::server::ApiServer;
use crate::status::{ApiError, Cause};
use crate::store::{Key, Transaction};
use crate::{admission, crd, events, metadata, pods};

/// How many generated names are tried before one that is taken is an error, as the real server does.
const GENERATED_NAMES: usize = 8;

/// Makes an object from a body and returns it as it is stored.
pub(crate) async fn create(
    server: &ApiServer,
    kind: &Kind,
    namespace: &str,
    query: &Query,
    object: Value,
) -> Result<Value, ApiError> {
    let dry_run = query.is_dry_run()?;
    let mut object = placed(kind, namespace, object)?;
    {
        let transaction = server.store().lock();
        admission::namespace(&transaction, kind, namespace, &object)?;
        admission::limits::fill_in(&transaction, kind, &mut object);
    }
    let is_generated = meta(&object, "name").is_empty();
    metadata::name(&mut object, &server.inner.random);
    // Asynchronous, so the store is not held; what was looked up before is looked up again below.
    if let Some(changed) = admission::webhooks::mutate(server, kind, &object, dry_run).await? {
        object = placed(kind, namespace, body::shape(kind, changed)?.object)?;
    }
    let mut transaction = server.store().lock();
    let mut attempts = if is_generated { GENERATED_NAMES } else { 1 };
    loop {
        attempts -= 1;
        match insert(server, &mut transaction, kind, object.clone(), dry_run) {
            Err(error) if error.reason == "AlreadyExists" && attempts > 0 => {
                set_meta(&mut object, "name", Value::Null);
                metadata::name(&mut object, &server.inner.random);
            }
            outcome => return outcome,
        }
    }
}

/// The object with the namespace it is to live in.
fn placed(kind: &Kind, namespace: &str, mut object: Value) -> Result<Value, ApiError> {
    let named = meta(&object, "namespace");
    if !named.is_empty() && named != namespace && kind.namespaced {
        let text = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(ApiError::bad_request(text));
    }
    let namespace = if namespace.is_empty() { Value::Null } else { namespace.into() };
    set_meta(&mut object, "namespace", namespace);
    Ok(object)
}

/// Checks and stores an object; everything under one lock.
pub(crate) fn insert(
    server: &ApiServer,
    transaction: &mut Transaction<'_>,
    kind: &Kind,
    mut object: Value,
    dry_run: bool,
) -> Result<Value, ApiError> {
    if metadata::expected_version(&object)?.is_some() {
        return Err(ApiError::internal("resourceVersion should not be set on objects to be created"));
    }
    set_meta(&mut object, "resourceVersion", Value::Null);
    metadata::name(&mut object, &server.inner.random);
    admission::namespace(transaction, kind, meta(&object, "namespace"), &object)?;
    metadata::prepare_new(kind, &mut object, &server.inner.random, server.now());
    let name = meta(&object, "name").to_owned();
    let mut causes = metadata::problems(kind, &object);
    match &*kind.place {
        "pods" => {
            pods::prepare_new(&mut object);
            causes.extend(pods::problems(&object));
        }
        "events" => events::check(kind, &object)?,
        "namespaces" if object["spec"]["finalizers"].is_null() => {
            object["spec"]["finalizers"] = serde_json::json!(["kubernetes"]);
        }
        crd::PLACE => {
            crd::prepare_new(&mut object);
            causes.extend(crd::problems(&object));
        }
        _ => {}
    }
    if let Some(definition) = kind.definition() {
        if kind.traits.has_status {
            set(&mut object, "status", Value::Null);
        }
        causes.extend(crd::violations(definition, &kind.version, &object));
    }
    refuse(kind, &name, &causes)?;
    admission::limits::check(transaction, kind, &object)?;
    let key = Key::of(&object);
    let charges = admission::quota::charge(transaction, kind, &object)?;
    if let Some(existing) = transaction.get(&kind.place, &key) {
        return Err(ApiError::already_exists(kind, &name, crate::object::is_terminating(&existing.body())));
    }
    if dry_run {
        return Ok(object);
    }
    admission::quota::book(server, transaction, charges);
    if kind.is(crd::PLACE) {
        crd::establish(&mut object, server.now());
    }
    let stored = transaction.put(kind, object);
    crate::garbage::after_write(server, transaction, kind, &stored);
    Ok(stored.object(kind))
}

/// Refuses an object for what is wrong with it.
pub(crate) fn refuse(kind: &Kind, name: &str, causes: &[Cause]) -> Result<(), ApiError> {
    if causes.is_empty() { Ok(()) } else { Err(ApiError::invalid(kind, name, causes)) }
}
