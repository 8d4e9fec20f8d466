//! Update of an existing object (PUT and PATCH).

use std::sync::Arc;

use serde_json::{Value, json};

use super::create::{check_valid, insert};
use crate::admission;
use crate::controllers::garbage;
use crate::errors::{ApiError, Cause};
use crate::kinds::{Kind, definition};
use crate::object::{Key, is_terminating, meta, set, set_meta, strings};
use crate::state::ServerState;
use crate::store::{Stored, Transaction};
use crate::strategy::{custom, definitions, events, metadata, pods};

/// Which part of an object a request may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UpdateTarget {
    /// Everything except for the status, if the kind has a `status` subresource.
    Object,
    /// The `status` subresource.
    Status,
    /// `spec.finalizers` of a namespace, through the `finalize` subresource.
    Finalizers,
}

/// An update request.
pub(crate) struct Update<'a> {
    pub kind: &'a Kind,
    pub key: &'a Key,
    pub target: UpdateTarget,
    /// Whether the request is a PATCH. A PATCH without resourceVersion is always accepted. It creates an object that
    /// does not exist only if it is a server-side apply.
    pub is_patch: bool,
    pub dry_run: bool,
}

/// The result of an update.
pub(crate) struct Outcome {
    pub object: Value,
    /// Whether the object did not exist before.
    pub created: bool,
}

impl Update<'_> {
    /// Computes the new object from the current one and stores it, under one lock. `change` gets `None` if the object
    /// does not exist.
    pub(crate) fn run(
        &self,
        state: &ServerState,
        change: impl FnOnce(Option<&Value>) -> Result<Value, ApiError>,
    ) -> Result<Outcome, ApiError> {
        let mut transaction = state.store.lock();
        let Some(stored) = transaction.get(&self.kind.resource, self.key) else {
            let object = change(None)?;
            if !object.is_null() {
                self.check_name(&object)?;
            }
            return self.create(state, &mut transaction, object);
        };
        let current = stored.object(self.kind);
        let shown = events::from_core(self.kind, current.clone());
        let wanted = change(Some(&shown))?;
        self.check_identity(&wanted, &current)?;
        let object = self.prepared(wanted, &current);
        self.validate(&object, &current)?;
        self.store(state, &mut transaction, object, &current, &stored)
    }

    fn create(
        &self,
        state: &ServerState,
        transaction: &mut Transaction<'_>,
        mut object: Value,
    ) -> Result<Outcome, ApiError> {
        let allowed = self.is_patch || self.kind.behaviour.create_on_update;
        if self.target != UpdateTarget::Object || !allowed || object.is_null() {
            return Err(ApiError::not_found(self.kind, &self.key.name));
        }
        if self.kind.namespaced {
            set_meta(&mut object, "namespace", self.key.namespace.as_str().into());
        }
        admission::limits::fill_in_defaults(transaction, self.kind, &mut object);
        let object = insert(state, transaction, self.kind, object, self.dry_run)?;
        Ok(Outcome { object, created: true })
    }

    fn check_name(&self, object: &Value) -> Result<(), ApiError> {
        let (given, wanted) = (meta(object, "name"), &self.key.name);
        if given.is_empty() {
            let text =
                format!("the name of the object ({wanted} based on URL) was undeterminable: name must be provided");
            return Err(ApiError::bad_request(text));
        }
        if given != wanted {
            let text = format!("the name of the object ({given}) does not match the name on the URL ({wanted})");
            return Err(ApiError::bad_request(text));
        }
        let namespace = meta(object, "namespace");
        if !namespace.is_empty() && namespace != self.key.namespace && self.kind.namespaced {
            let text = "the namespace of the provided object does not match the namespace sent on the request";
            return Err(ApiError::bad_request(text));
        }
        Ok(())
    }

    /// Checks name, resourceVersion and uid of the request against the current object.
    fn check_identity(&self, object: &Value, current: &Value) -> Result<(), ApiError> {
        self.check_name(object)?;
        let (kind, name) = (self.kind, self.key.name.as_str());
        match metadata::expected_version(object)? {
            Some(version) if version.to_string() != meta(current, "resourceVersion") => {
                return Err(ApiError::modified(kind, name));
            }
            None if !self.is_patch && !kind.behaviour.unconditional_update => {
                let cause = Cause::invalid("metadata.resourceVersion", &json!(0), "must be specified for an update");
                return Err(ApiError::invalid_named(&kind.group, &kind.plural, name, &[cause]));
            }
            _ => {}
        }
        let (given, own) = (meta(object, "uid"), meta(current, "uid"));
        if !self.is_patch && !given.is_empty() && given != own {
            let path = if kind.namespaced { format!("{}/{name}", self.key.namespace) } else { name.to_owned() };
            let storage =
                if kind.group.is_empty() { kind.plural.clone() } else { format!("{}/{}", kind.group, kind.plural) };
            let text = format!(
                "StorageError: invalid object, Code: 4, Key: /registry/{storage}/{path}, ResourceVersion: 0, \
                 AdditionalErrorMsg: Precondition failed: UID in precondition: {given}, UID in object meta: {own}"
            );
            return Err(ApiError::conflict(kind, name, &text));
        }
        Ok(())
    }

    /// The new object: the fields that this request may change are from the request, all others from the current
    /// object.
    fn prepared(&self, wanted: Value, current: &Value) -> Value {
        let kind = self.kind;
        let mut object = match self.target {
            UpdateTarget::Object => {
                let mut object = wanted;
                if kind.behaviour.has_status {
                    set(&mut object, "status", current["status"].clone());
                }
                object
            }
            UpdateTarget::Status => {
                let mut object = current.clone();
                set(&mut object, "status", wanted["status"].clone());
                if kind.is("pods") && object["status"]["qosClass"].is_null() {
                    object["status"]["qosClass"] = current["status"]["qosClass"].clone();
                }
                // A status update of a built-in kind also changes metadata, such as labels and finalizers. For custom
                // resources it does not.
                if kind.definition().is_none() {
                    set(&mut object, "metadata", wanted["metadata"].clone());
                }
                object
            }
            UpdateTarget::Finalizers => {
                let mut object = current.clone();
                set(&mut object["spec"], "finalizers", wanted["spec"]["finalizers"].clone());
                object
            }
        };
        if kind.is("namespaces") && self.target != UpdateTarget::Finalizers {
            set(&mut object["spec"], "finalizers", current["spec"]["finalizers"].clone());
        }
        if kind.namespaced {
            set_meta(&mut object, "namespace", self.key.namespace.as_str().into());
        }
        metadata::prepare_update(&mut object, current);
        metadata::drop_empty_fields(&mut object);
        if self.target == UpdateTarget::Object && kind.behaviour.has_generation && spec_changed(kind, &object, current)
        {
            let generation = current["metadata"]["generation"].as_i64().unwrap_or_default();
            set_meta(&mut object, "generation", (generation + 1).into());
        }
        if kind.is(definition::RESOURCE) && self.target == UpdateTarget::Object {
            definitions::prepare_update(&mut object);
        }
        object
    }

    fn validate(&self, object: &Value, current: &Value) -> Result<(), ApiError> {
        let mut causes = metadata::update_problems(object, current);
        if self.target == UpdateTarget::Object && self.kind.is("pods") {
            causes.extend(pods::update_problems(object, current));
        }
        if let Some(definition) = self.kind.definition() {
            causes.extend(custom::violations(definition, &self.kind.version, object));
        }
        if self.kind.is(definition::RESOURCE) {
            causes.extend(definitions::problems(object));
        }
        check_valid(self.kind, &self.key.name, &causes)
    }

    fn store(
        &self,
        state: &ServerState,
        transaction: &mut Transaction<'_>,
        object: Value,
        current: &Value,
        stored: &Arc<Stored>,
    ) -> Result<Outcome, ApiError> {
        let kind = self.kind;
        // A write without a change gets no new revision. Otherwise a controller that reacts to its own writes would
        // loop.
        if object == *current || self.dry_run {
            return Ok(Outcome { object, created: false });
        }
        if is_last_hold_removed(kind, &object, current) {
            garbage::remove(state, transaction, kind, self.key);
            return Ok(Outcome { object, created: false });
        }
        debug_assert_eq!(stored.key, Key::of(&object));
        let stored = transaction.put(kind, object);
        garbage::after_write(state, transaction, kind, &stored);
        Ok(Outcome { object: stored.object(kind), created: false })
    }
}

/// Whether this update removes the last finalizer of an object that is being deleted and has no grace period left.
fn is_last_hold_removed(kind: &Kind, object: &Value, current: &Value) -> bool {
    if !is_terminating(current) || !strings(&object["metadata"]["finalizers"]).is_empty() {
        return false;
    }
    if kind.is("namespaces") {
        return strings(&object["spec"]["finalizers"]).is_empty();
    }
    current["metadata"]["deletionGracePeriodSeconds"] == 0
}

/// Whether any field changed apart from metadata, `apiVersion` and, for kinds with a `status` subresource, the status.
fn spec_changed(kind: &Kind, object: &Value, current: &Value) -> bool {
    let relevant = |value: &Value| -> Value {
        let fields = value.as_object().into_iter().flatten();
        let kept = fields.filter(|(name, _)| {
            *name != "metadata" && !(kind.behaviour.has_status && *name == "status") && *name != "apiVersion"
        });
        Value::Object(kept.map(|(name, value)| (name.clone(), value.clone())).collect())
    };
    relevant(object) != relevant(current)
}
