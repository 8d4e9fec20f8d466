//! PUT and PATCH: an object changes, wholly or in part, or not at all.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::create::{insert, refuse};
use crate::kind::Kind;
use crate::object::{is_terminating, meta, set, set_meta, texts};
use crate::server::ApiServer;
use crate::status::{ApiError, Cause};
use crate::store::{Key, Stored, Transaction};
use crate::{admission, crd, events, garbage, metadata, pods};

/// Who changes an object decides what of it may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// All but the status.
    Main,
    /// The status.
    Status,
    /// The finalizers of a namespace.
    Finalize,
}

/// A change to be made.
pub(crate) struct Update<'a> {
    pub kind: &'a Kind,
    pub key: &'a Key,
    pub part: Part,
    /// A patch never insists on a version unless it names one, and may make what is absent only if it applies.
    pub is_patch: bool,
    pub dry_run: bool,
}

/// What came of it.
pub(crate) struct Outcome {
    pub object: Value,
    pub created: bool,
}

impl Update<'_> {
    /// Computes the new object from the current one (none: it is to be made) and stores it, all under one lock.
    pub(crate) fn run(
        &self,
        server: &ApiServer,
        change: impl FnOnce(Option<&Value>) -> Result<Value, ApiError>,
    ) -> Result<Outcome, ApiError> {
        let mut transaction = server.store().lock();
        let Some(stored) = transaction.get(&self.kind.place, self.key) else {
            let object = change(None)?;
            if !object.is_null() {
                self.check_name(&object)?;
            }
            return self.make(server, &mut transaction, object);
        };
        let current = stored.object(self.kind);
        let shown = events::from_core(self.kind, current.clone());
        let wanted = change(Some(&shown))?;
        self.check_identity(&wanted, &current)?;
        let object = self.prepared(wanted, &current);
        self.validate(&object, &current)?;
        self.store(server, &mut transaction, object, &current, &stored)
    }

    fn make(
        &self,
        server: &ApiServer,
        transaction: &mut Transaction<'_>,
        mut object: Value,
    ) -> Result<Outcome, ApiError> {
        let allowed = self.is_patch || self.kind.traits.create_on_update;
        if self.part != Part::Main || !allowed || object.is_null() {
            return Err(ApiError::not_found(self.kind, &self.key.name));
        }
        if self.kind.namespaced {
            set_meta(&mut object, "namespace", self.key.namespace.as_str().into());
        }
        admission::limits::fill_in(transaction, self.kind, &mut object);
        let object = insert(server, transaction, self.kind, object, self.dry_run)?;
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

    /// Name, version and uid: is this the object that the writer means?
    fn check_identity(&self, object: &Value, current: &Value) -> Result<(), ApiError> {
        self.check_name(object)?;
        let (kind, name) = (self.kind, self.key.name.as_str());
        match metadata::expected_version(object)? {
            Some(version) if version.to_string() != meta(current, "resourceVersion") => {
                return Err(ApiError::modified(kind, name));
            }
            None if !self.is_patch && !kind.traits.unconditional_update => {
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

    /// The new object: what may change from the writer, the rest as it was.
    fn prepared(&self, wanted: Value, current: &Value) -> Value {
        let kind = self.kind;
        let mut object = match self.part {
            Part::Main => {
                let mut object = wanted;
                if kind.traits.has_status {
                    set(&mut object, "status", current["status"].clone());
                }
                object
            }
            Part::Status => {
                let mut object = current.clone();
                set(&mut object, "status", wanted["status"].clone());
                if kind.is("pods") && object["status"]["qosClass"].is_null() {
                    object["status"]["qosClass"] = current["status"]["qosClass"].clone();
                }
                // Only custom resources keep the whole metadata; built-in kinds take labels and finalizers along.
                if kind.definition().is_none() {
                    set(&mut object, "metadata", wanted["metadata"].clone());
                }
                object
            }
            Part::Finalize => {
                let mut object = current.clone();
                set(&mut object["spec"], "finalizers", wanted["spec"]["finalizers"].clone());
                object
            }
        };
        if kind.is("namespaces") && self.part != Part::Finalize {
            set(&mut object["spec"], "finalizers", current["spec"]["finalizers"].clone());
        }
        if kind.namespaced {
            set_meta(&mut object, "namespace", self.key.namespace.as_str().into());
        }
        metadata::prepare_update(&mut object, current);
        metadata::tidy(&mut object);
        if self.part == Part::Main && kind.traits.has_generation && spec_changed(kind, &object, current) {
            let generation = current["metadata"]["generation"].as_i64().unwrap_or_default();
            set_meta(&mut object, "generation", (generation + 1).into());
        }
        if kind.is(crd::PLACE) && self.part == Part::Main {
            crd::prepare_update(&mut object);
        }
        object
    }

    fn validate(&self, object: &Value, current: &Value) -> Result<(), ApiError> {
        let mut causes = metadata::update_problems(object, current);
        if self.part == Part::Main && self.kind.is("pods") {
            causes.extend(pods::update_problems(object, current));
        }
        if let Some(definition) = self.kind.definition() {
            causes.extend(crd::violations(definition, &self.kind.version, object));
        }
        if self.kind.is(crd::PLACE) {
            causes.extend(crd::problems(object));
        }
        refuse(self.kind, &self.key.name, &causes)
    }

    fn store(
        &self,
        server: &ApiServer,
        transaction: &mut Transaction<'_>,
        object: Value,
        current: &Value,
        stored: &Arc<Stored>,
    ) -> Result<Outcome, ApiError> {
        let kind = self.kind;
        // A write that changes nothing is none: controllers that write what they see would never rest.
        if object == *current || self.dry_run {
            return Ok(Outcome { object, created: false });
        }
        if ends_with_this(kind, &object, current) {
            garbage::remove(server, transaction, kind, self.key);
            return Ok(Outcome { object, created: false });
        }
        debug_assert_eq!(stored.key, Key::of(&object));
        let stored = transaction.put(kind, object);
        garbage::after_write(server, transaction, kind, &stored);
        Ok(Outcome { object: stored.object(kind), created: false })
    }
}

/// Whether the last thing that held a deleted object is gone.
fn ends_with_this(kind: &Kind, object: &Value, current: &Value) -> bool {
    if !is_terminating(current) || !texts(&object["metadata"]["finalizers"]).is_empty() {
        return false;
    }
    if kind.is("namespaces") {
        return texts(&object["spec"]["finalizers"]).is_empty();
    }
    current["metadata"]["deletionGracePeriodSeconds"] == 0
}

fn spec_changed(kind: &Kind, object: &Value, current: &Value) -> bool {
    let of_interest = |value: &Value| -> Value {
        let fields = value.as_object().into_iter().flatten();
        let kept = fields.filter(|(name, _)| {
            *name != "metadata" && !(kind.traits.has_status && *name == "status") && *name != "apiVersion"
        });
        Value::Object(kept.map(|(name, value)| (name.clone(), value.clone())).collect())
    };
    of_interest(object) != of_interest(current)
}
