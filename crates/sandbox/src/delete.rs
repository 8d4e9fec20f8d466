//! DELETE: an object goes, at once or after those who hold it let go.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::DeleteOptions;
use serde_json::Value;

use crate::kind::Kind;
use crate::metadata::seconds;
use crate::object::{is_terminating, meta, set_meta, texts};
use crate::request::Query;
use crate::server::ApiServer;
use crate::status::{ApiError, Cause};
use crate::store::{Key, Transaction};
use crate::{garbage, pods};

/// Namespaces that the cluster cannot be without.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];
/// Kinds whose deletion is answered with the object and not with a `Status`.
const RETURNED: [&str; 6] =
    ["pods", "services", "serviceaccounts", "persistentvolumes", "persistentvolumeclaims", "resourcequotas"];

/// What happens to those an object owns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Propagation {
    /// They go after it.
    #[default]
    Background,
    /// They go before it.
    Foreground,
    /// They stay.
    Orphan,
}

/// How to delete.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    pub grace: Option<i64>,
    pub propagation: Propagation,
    pub uid: Option<String>,
    pub version: Option<String>,
    pub dry_run: bool,
}

/// What a deletion left.
pub(crate) struct Deleted {
    pub object: Value,
    pub removed: bool,
}

impl Options {
    /// From the body, and from the URL what the body does not say.
    pub(crate) fn read(body: &[u8], query: &Query) -> Result<Self, ApiError> {
        let given: Value = if body.iter().all(u8::is_ascii_whitespace) {
            Value::Null
        } else {
            // The real server finds fault with itself here.
            crate::body::yaml(body)
                .map_err(|error| ApiError::internal(format!("couldn't get version/kind; {error}")))?
        };
        if !given.is_object() && !given.is_null() {
            return Err(ApiError::internal("couldn't get version/kind; the body is no object"));
        }
        if let Err(error) = serde_json::from_value::<Option<DeleteOptions>>(given.clone()) {
            return Err(ApiError::internal(crate::body::go_text(&error)));
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

/// Deletes one object; the answer is the object or a `Status`.
pub(crate) fn delete(server: &ApiServer, kind: &Kind, key: &Key, options: &Options) -> Result<Value, ApiError> {
    let mut transaction = server.store().lock();
    let current = transaction.find(kind, key)?.object(kind);
    preconditions(kind, &current, options)?;
    if kind.is("namespaces") && IMMORTAL.contains(&key.name.as_str()) {
        return Err(ApiError::forbidden(kind, &key.name, "this namespace may not be deleted"));
    }
    if options.dry_run {
        return Ok(answer(kind, &Deleted { object: current, removed: true }));
    }
    let deleted = begin(server.now(), &mut transaction, kind, &current, options);
    garbage::after_delete(server, &mut transaction, kind, &deleted);
    Ok(answer(kind, &deleted))
}

fn preconditions(kind: &Kind, current: &Value, options: &Options) -> Result<(), ApiError> {
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
    if !deleted.removed || RETURNED.iter().any(|plural| kind.is(plural)) {
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

/// Removes the object, or marks it if somebody holds it. Those it owns are not looked at here.
pub(crate) fn begin(
    now: Timestamp,
    transaction: &mut Transaction<'_>,
    kind: &Kind,
    current: &Value,
    options: &Options,
) -> Deleted {
    let mut object = current.clone();
    let held_by = match options.propagation {
        Propagation::Background => None,
        Propagation::Foreground => Some("foregroundDeletion"),
        Propagation::Orphan => Some("orphan"),
    };
    let mut finalizers = texts(&object["metadata"]["finalizers"]);
    finalizers.retain(|name| {
        !["orphan", "foregroundDeletion"].contains(&name.as_str())
            || Some(name.as_str()) == held_by
            || is_terminating(current)
    });
    if let Some(name) = held_by.filter(|name| !finalizers.iter().any(|known| known == name)) {
        finalizers.push(name.to_owned());
    }
    let list = if finalizers.is_empty() { Value::Null } else { finalizers.clone().into() };
    set_meta(&mut object, "finalizers", list);

    if kind.is("namespaces") {
        object["status"]["phase"] = "Terminating".into();
        if !is_terminating(current) {
            set_meta(&mut object, "deletionTimestamp", seconds(now));
        }
        let held = !finalizers.is_empty() || !texts(&object["spec"]["finalizers"]).is_empty();
        return finish(transaction, kind, object, current, held);
    }
    let grace = if kind.is("pods") { pods::grace(current, options.grace) } else { 0 };
    let pending = current["metadata"]["deletionGracePeriodSeconds"].as_i64();
    // A deletion in progress can only be hastened.
    if !is_terminating(current) || pending.is_some_and(|pending| grace < pending) {
        let end = now.checked_add(SignedDuration::from_secs(grace)).unwrap_or(now);
        set_meta(&mut object, "deletionTimestamp", seconds(end));
        set_meta(&mut object, "deletionGracePeriodSeconds", grace.into());
        if !is_terminating(current)
            && let Some(generation) = current["metadata"]["generation"].as_i64()
        {
            set_meta(&mut object, "generation", (generation + 1).into());
        }
    }
    let held = !finalizers.is_empty() || object["metadata"]["deletionGracePeriodSeconds"] != 0;
    if !held && kind.is("pods") {
        // Whoever runs it sees that it ends before it is gone.
        let marked = finish(transaction, kind, object, current, true);
        transaction.remove(kind, &Key::of(current));
        return Deleted { removed: true, ..marked };
    }
    finish(transaction, kind, object, current, held)
}

fn finish(transaction: &mut Transaction<'_>, kind: &Kind, object: Value, current: &Value, held: bool) -> Deleted {
    if !held {
        let last = transaction.remove(kind, &Key::of(current));
        let object = last.map_or_else(|| current.clone(), |last| last.object(kind));
        return Deleted { object, removed: true };
    }
    if object == *current {
        return Deleted { object, removed: false };
    }
    let stored = transaction.put(kind, object);
    Deleted { object: stored.object(kind), removed: false }
}
