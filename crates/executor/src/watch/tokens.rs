//! Tokens as objects of the cluster: one Lease for each holder, in the holder's namespace and owned by its action.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use aileron_action::TaskAction;
use aileron_admission::pools::limits::{Account, Token};
use aileron_admission::pools::{Pools, TokenClaim, TokenStore};
use aileron_kubekit::ApiError;
use aileron_machinery::ActionKey;
use async_trait::async_trait;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, OwnerReference};
use kube::Resource;
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, PostParams, Preconditions};
use kube::runtime::watcher;
use tokio_util::sync::CancellationToken;

use crate::cluster::kube::requests::api_error;
use crate::cluster::listed::{Listed, Malformed};
use crate::watch::{PAGE, Sink, WatchContext};

/// The name of the watch in readiness and metrics.
pub const NAME: &str = "pool-tokens";

/// Names the pool on each token.
const POOL_LABEL: &str = "flyte.org/pool";
const PROJECT_LABEL: &str = "flyte.org/pool-project";
const DOMAIN_LABEL: &str = "flyte.org/pool-domain";

/// Time between two checks for tokens of ended actions. A check without such a token sends no request, so it can be frequent.
const RETURN_INTERVAL: Duration = Duration::from_millis(500);

/// The tokens in a cluster.
pub struct KubeTokens {
    client: kube::Client,
}

impl KubeTokens {
    /// The tokens in the cluster of this client.
    pub fn new(client: kube::Client) -> Self {
        Self { client }
    }

    fn leases(&self, namespace: &str) -> Api<Lease> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// The metadata of the Lease with the name of this token. The executor lists tokens anyway; reading a single one would
    /// need another permission.
    async fn find(&self, pool: &str, holder: &ActionKey) -> Result<Option<ObjectMeta>, ApiError> {
        let leases: Api<Listed<Lease>> = Api::namespaced(self.client.clone(), &holder.namespace);
        let named = ListParams::default().fields(&format!("metadata.name={}", token_name(pool, &holder.name)));
        let found = leases.list(&named).await.map_err(api_error)?.items.into_iter().next();
        Ok(found.map(|lease| lease.meta().clone()))
    }

    /// Deletes exactly this Lease. Succeeds if it is gone, also if another Lease has its name now.
    async fn delete_found(&self, found: &ObjectMeta) -> Result<(), ApiError> {
        let leases = self.leases(found.namespace.as_deref().unwrap_or_default());
        let preconditions = Some(Preconditions { uid: found.uid.clone(), resource_version: None });
        let parameters = DeleteParams { preconditions, ..DeleteParams::default() };
        match leases.delete(found.name.as_deref().unwrap_or_default(), &parameters).await {
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
            result => result.map(drop).map_err(api_error),
        }
    }
}

#[async_trait]
impl TokenStore for KubeTokens {
    async fn create(&self, pool: &str, claim: &TokenClaim) -> Result<(), ApiError> {
        let leases = self.leases(&claim.holder.namespace);
        let lease = lease(pool, claim);
        match leases.create(&PostParams::default(), &lease).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            result => return result.map(drop).map_err(api_error),
        }
        if let Some(found) = self.find(pool, &claim.holder).await? {
            let owners = found.owner_references.as_deref().unwrap_or_default();
            if owners.iter().any(|owner| owner.uid == claim.owner.uid) {
                return Ok(());
            }
            if !is_token_of(&found, pool, &claim.holder) {
                return Err(taken_by_other(&found));
            }
            // The token belonged to an earlier action of the same name, and Kubernetes will delete it soon.
            self.delete_found(&found).await?;
        }
        leases.create(&PostParams::default(), &lease).await.map(drop).map_err(api_error)
    }

    async fn list(&self, pool: &str) -> Result<Vec<Token>, ApiError> {
        let all: Api<Listed<Lease>> = Api::all(self.client.clone());
        let list = all.list(&ListParams::default().labels(&format!("{POOL_LABEL}={pool}"))).await.map_err(api_error)?;
        Ok(list.items.iter().filter_map(|lease| Some(token(lease.meta())?.1)).collect())
    }

    async fn delete(&self, pool: &str, holder: &ActionKey) -> Result<(), ApiError> {
        match self.find(pool, holder).await? {
            Some(found) if is_token_of(&found, pool, holder) => self.delete_found(&found).await,
            // There is none, or a Lease of another client has this name.
            _ => Ok(()),
        }
    }
}

/// Whether a Lease is the token of this action in this pool.
fn is_token_of(metadata: &ObjectMeta, pool: &str, holder: &ActionKey) -> bool {
    token(metadata).is_some_and(|(of, token)| of == pool && token.holder == *holder)
}

/// Another client uses the name of a token for a Lease of its own, for example to elect its leader. Its Lease must not be
/// deleted, so the action waits.
fn taken_by_other(found: &ObjectMeta) -> ApiError {
    let (namespace, name) = (found.namespace.as_deref().unwrap_or_default(), found.name.as_deref().unwrap_or_default());
    let message = format!(
        "the Lease {namespace}/{name} exists and is not a token of this pool; delete it, or rename the pool or the action"
    );
    ApiError { code: 409, reason: "AlreadyExists".into(), message, retry_after: None }
}

/// The tokens of all pools, as the API server has them.
pub async fn all_tokens(client: &kube::Client) -> Result<Vec<(String, Token)>, ApiError> {
    let leases: Api<Listed<Lease>> = Api::all(client.clone());
    let list = leases.list(&ListParams::default().labels(POOL_LABEL)).await.map_err(api_error)?;
    Ok(list.items.iter().filter_map(|lease| token(lease.meta())).collect())
}

/// The name of the token of an action. It is the same for all attempts, so that an action cannot take two tokens.
fn token_name(pool: &str, action: &str) -> String {
    format!("{pool}.{action}")
}

fn lease(pool: &str, claim: &TokenClaim) -> Lease {
    let Account { project, domain } = &claim.account;
    let labels = [(POOL_LABEL, pool), (PROJECT_LABEL, project), (DOMAIN_LABEL, domain)];
    Lease {
        metadata: ObjectMeta {
            name: Some(token_name(pool, &claim.holder.name)),
            namespace: Some(claim.holder.namespace.to_string()),
            labels: Some(labels.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()),
            // The token is deleted together with the action, and does not block the deletion of the action.
            owner_references: Some(vec![OwnerReference {
                block_owner_deletion: None,
                controller: None,
                ..claim.owner.clone()
            }]),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(claim.identity.clone()),
            acquire_time: Some(MicroTime(claim.now)),
            ..LeaseSpec::default()
        }),
    }
}

/// The pool and the token that a Lease stands for.
fn token(metadata: &ObjectMeta) -> Option<(String, Token)> {
    let label = |name: &str| metadata.labels.as_ref().and_then(|labels| labels.get(name)).cloned();
    let owner = metadata.owner_references.iter().flatten().find(|owner| owner.kind == "TaskAction")?;
    let token = Token {
        holder: ActionKey::new(metadata.namespace.as_deref()?, &owner.name),
        account: Account { project: label(PROJECT_LABEL)?, domain: label(DOMAIN_LABEL)? },
        version: metadata.resource_version.as_deref()?.parse().ok()?,
    };
    Some((label(POOL_LABEL)?, token))
}

/// Follows all tokens, and wakes the actions that can take a token when one is free.
pub async fn watch(cx: WatchContext, pools: Arc<Pools>) {
    let api = Api::all(cx.client.clone());
    let config = watcher::Config::default().labels(POOL_LABEL).page_size(PAGE);
    let sink = Tokens { pools, cx: cx.clone(), listed: HashSet::new() };
    cx.follow(NAME, api, config, sink).await;
}

struct Tokens {
    pools: Arc<Pools>,
    cx: WatchContext,
    listed: HashSet<(String, ActionKey)>,
}

impl Tokens {
    fn seen_token(&mut self, metadata: &ObjectMeta, listed: bool) {
        let Some((pool, token)) = token(metadata) else { return };
        if listed {
            self.listed.insert((pool.clone(), token.holder.clone()));
        }
        self.pools.token_seen(&pool, token.holder, token.account);
    }

    fn free(&self, pool: &str, holder: &ActionKey) {
        self.pools.token_deleted(pool, holder);
        for key in self.pools.next_holders(pool, self.cx.clock.now()) {
            self.cx.queue.wake(&key);
        }
    }
}

impl Sink<Lease> for Tokens {
    fn seen(&mut self, lease: Lease, listed: bool) {
        self.seen_token(&lease.metadata, listed);
    }

    /// Everything about a token is in its metadata.
    fn malformed(&mut self, lease: Malformed, listed: bool) {
        self.seen_token(&lease.metadata, listed);
    }

    fn restarted(&mut self) {
        self.listed.clear();
    }

    fn listed(&mut self) {
        let listed = std::mem::take(&mut self.listed);
        for (pool, holder) in self.pools.holders().into_iter().filter(|token| !listed.contains(token)) {
            self.free(&pool, &holder);
        }
    }

    fn gone(&mut self, metadata: &ObjectMeta, _lease: Option<Lease>) {
        if let Some((pool, token)) = token(metadata) {
            self.free(&pool, &token.holder);
        }
    }
}

/// Returns the tokens of actions that have ended, also of those that ended before a restart. Drops waiting actions that
/// have ended, and wakes the actions that can take a token.
pub async fn return_tokens(cx: WatchContext, pools: Arc<Pools>, cancel: CancellationToken) {
    if pools.is_empty() {
        return;
    }
    let store = KubeTokens::new(cx.client.clone());
    let mut known = BTreeSet::new();
    while cancel.run_until_cancelled(tokio::time::sleep(RETURN_INTERVAL)).await.is_some() {
        let is_running = |key: &ActionKey| cx.caches.actions.get(key).is_some_and(|it| !it.status().is_terminal());
        let holders = pools.holders();
        known.retain(|key| holders.iter().any(|(_, holder)| holder == key));
        for (pool, holder) in holders {
            if is_running(&holder) {
                known.insert(holder);
                continue;
            }
            let returned = match is_running_elsewhere(&cx.client, &holder, known.contains(&holder)).await {
                Ok(true) => continue,
                Ok(false) => store.delete(&pool, &holder).await,
                Err(error) => Err(error),
            };
            if let Err(error) = returned {
                tracing::warn!(pool, name = %holder.name, %error, "failed to return a token; retrying");
            }
        }
        for (pool, (held, waiting)) in pools.counts() {
            for key in pools.waiting(&pool).iter().filter(|key| !is_running(key)) {
                pools.stop_waiting(key);
            }
            for key in pools.next_holders(&pool, cx.clock.now()) {
                cx.queue.wake(&key);
            }
            metrics::gauge!("aileron_pool_tokens", "pool" => pool.clone()).set(held as f64);
            metrics::gauge!("aileron_pool_waiting", "pool" => pool).set(waiting as f64);
        }
    }
}

/// Whether an action that is not in the store is running nevertheless. An action that was in the store before
/// (`was_known`) has ended. An action that never was may belong to another executor, so the API server is asked.
async fn is_running_elsewhere(client: &kube::Client, key: &ActionKey, was_known: bool) -> Result<bool, ApiError> {
    if was_known {
        return Ok(false);
    }
    let actions: Api<Listed<TaskAction>> = Api::namespaced(client.clone(), &key.namespace);
    let action = actions.get_opt(&key.name).await.map_err(api_error)?.map(Listed::into_action);
    Ok(action.is_some_and(|action| action.status.is_none_or(|status| !status.is_terminal())))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::atomic::{AtomicBool, Ordering};

    use axum::http::StatusCode;
    use axum::{Json, Router};
    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::*;

    const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/ns/leases";

    /// The token `licences.a`, or a Lease of that name with other labels or another owner.
    fn lease(pool: &str, action: &str) -> Value {
        json!({"metadata": {
            "name": "licences.a", "namespace": "ns", "resourceVersion": "7", "uid": "uid-7",
            "labels": {"flyte.org/pool": pool, "flyte.org/pool-project": "p", "flyte.org/pool-domain": "d"},
            "ownerReferences": [{"apiVersion": "flyte.org/v1", "kind": "TaskAction", "name": action, "uid": "u"}],
        }})
    }

    /// A token of another client is refused, one of an earlier action of the same name is replaced.
    #[tokio::test]
    async fn a_lease_of_another_client_that_has_the_name_of_a_token_is_not_deleted() {
        let election = json!({"metadata": {"name": "licences.a", "namespace": "ns", "uid": "uid-7"},
                              "spec": {"holderIdentity": "another-controller"}});
        let mut forged = lease("licences", "a");
        forged["metadata"]["ownerReferences"] = json!([]);
        for (found, is_replaced) in
            [(election, false), (forged, false), (lease("others", "a"), false), (lease("licences", "a"), true)]
        {
            let deleted = Arc::new(AtomicBool::new(false));
            let (seen, known) = (Arc::clone(&deleted), Arc::clone(&deleted));
            let list = move || async move { Json(json!({"kind": "List", "apiVersion": "v1", "items": [found]})) };
            let create = move |Json(lease): Json<Value>| async move {
                if known.load(Ordering::SeqCst) {
                    return (StatusCode::CREATED, Json(lease));
                }
                let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 409,
                                    "reason": "AlreadyExists", "message": "it exists"});
                (StatusCode::CONFLICT, Json(status))
            };
            let delete = move || async move {
                seen.store(true, Ordering::SeqCst);
                Json(json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}))
            };
            let router = Router::new()
                .route(LEASES, axum::routing::get(list).post(create))
                .route(&format!("{LEASES}/licences.a"), axum::routing::delete(delete));
            let store = KubeTokens::new(kube::Client::new(router, "default"));
            let claim = TokenClaim {
                holder: ActionKey::new("ns", "a"),
                owner: OwnerReference {
                    kind: "TaskAction".into(),
                    name: "a".into(),
                    uid: "new".into(),
                    ..Default::default()
                },
                account: Account { project: "p".into(), domain: "d".into() },
                identity: String::new(),
                created_at: Timestamp::UNIX_EPOCH,
                now: Timestamp::UNIX_EPOCH,
            };
            let created = store.create("licences", &claim).await;
            assert_eq!((deleted.load(Ordering::SeqCst), created.is_ok()), (is_replaced, is_replaced), "{created:?}");
            if let Err(error) = created {
                assert!(error.message.contains("ns/licences.a") && error.message.contains("rename"), "{error:?}");
            }
        }
    }

    #[tokio::test]
    async fn only_the_token_of_the_holder_is_deleted_and_by_its_uid() {
        for (items, expected) in [
            (vec![lease("licences", "a")], vec!["uid-7".to_owned()]),
            (vec![lease("licences", "b")], vec![]),
            (vec![lease("others", "a")], vec![]),
            (vec![json!({"metadata": {"name": "licences.a", "namespace": "ns"}, "spec": 7})], vec![]),
            (vec![], vec![]),
        ] {
            let uids = Arc::new(std::sync::Mutex::new(Vec::new()));
            let list = move || async move { Json(json!({"kind": "List", "apiVersion": "v1", "items": items})) };
            let asked = Arc::clone(&uids);
            let delete = move |Json(options): Json<Value>| async move {
                let uid = options["preconditions"]["uid"].as_str().unwrap_or_default().to_owned();
                asked.lock().unwrap().push(uid);
                Json(json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}))
            };
            let router = Router::new()
                .route(LEASES, axum::routing::get(list))
                .route(&format!("{LEASES}/licences.a"), axum::routing::delete(delete));
            let store = KubeTokens::new(kube::Client::new(router, "default"));
            store.delete("licences", &ActionKey::new("ns", "a")).await.unwrap();
            assert_eq!(*uids.lock().unwrap(), expected);
        }
    }

    #[test]
    fn a_lease_is_read_as_the_token_it_was_made_for() {
        let metadata: ObjectMeta = serde_json::from_value(json!({
            "name": "licences.r-a0", "namespace": "ns", "resourceVersion": "7",
            "labels": {"flyte.org/pool": "licences", "flyte.org/pool-project": "p", "flyte.org/pool-domain": "d"},
            "ownerReferences": [{"apiVersion": "flyte.org/v1", "kind": "TaskAction", "name": "r-a0", "uid": "u"}],
        }))
        .unwrap();
        let expected = Token {
            holder: ActionKey::new("ns", "r-a0"),
            account: Account { project: "p".into(), domain: "d".into() },
            version: 7,
        };
        assert_eq!(token(&metadata), Some(("licences".into(), expected)));
        assert!(is_token_of(&metadata, "licences", &ActionKey::new("ns", "r-a0")));
        assert!(!is_token_of(&metadata, "gpus", &ActionKey::new("ns", "r-a0")), "another pool");
        assert!(!is_token_of(&metadata, "licences", &ActionKey::new("ns", "r-a1")), "another action");
        assert_eq!(token(&ObjectMeta { owner_references: None, ..metadata }), None, "not of ours");
    }
}
