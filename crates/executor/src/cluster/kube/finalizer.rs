//! Removes a finalizer from an object that other clients write too.

use std::time::Duration;

use aileron_kubekit::ApiError;
use aileron_machinery::config::K8sConfig;
use aileron_machinery::time::backoff::{ExponentialBackoff, Jitter};
use aileron_machinery::time::jitter::random;
use kube::api::{GetParams, ObjectMeta, Patch, PatchParams};
use kube::core::request::Request;
use serde_json::json;

use super::Writer;
use super::requests::{for_metadata, unbuildable};

/// The random part of a pause, as in Flyte 1.
const JITTER: Jitter = Jitter { from: 1.0, to: 1.1 };

/// Bounds the pause, which doubles with each try: the action cannot end before the finalizer is removed.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// How often, and with which pauses, a write is tried when another client writes the object at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConflictRetries {
    tries: u64,
    first_pause: Duration,
}

impl ConflictRetries {
    /// `plugins.k8s.update-backoff-retries`, which counts the first try too, and `update-base-backoff-duration`.
    ///
    /// # Differs from upstream
    ///
    /// Flyte 1 does not try at all if there are to be no retries, and Flyte 2 tries once, whatever is configured.
    pub fn of(config: &K8sConfig) -> Self {
        let millis = u64::try_from(config.update_base_backoff_duration).unwrap_or_default();
        Self {
            tries: u64::try_from(config.update_backoff_retries).unwrap_or_default().max(1),
            first_pause: Duration::from_millis(millis),
        }
    }

    /// The pause after this many tries. `random` is between 0 and 1.
    fn pause(&self, tries: u64, random: f64) -> Duration {
        let tries = u32::try_from(tries).unwrap_or(u32::MAX);
        ExponentialBackoff::doubling(self.first_pause, LONGEST_PAUSE).pause_with(tries, JITTER, random)
    }
}

impl Default for ConflictRetries {
    fn default() -> Self {
        Self::of(&K8sConfig::default())
    }
}

/// Removes one finalizer from the object with the UID of `seen`. Another object with the same name is not changed.
pub(super) async fn remove_finalizer(
    writer: &Writer,
    requests: &Request,
    seen: &ObjectMeta,
    finalizer: &str,
    retries: ConflictRetries,
) -> Result<(), ApiError> {
    let name = seen.name.as_deref().unwrap_or_default();
    let mut now = seen.clone();
    let mut tries = 0;
    loop {
        let names = now.finalizers.as_deref().unwrap_or_default();
        let Some(index) = names.iter().position(|name| name == finalizer) else { return Ok(()) };
        let request = requests
            .patch(name, &PatchParams::default(), &Patch::Json::<()>(removal(seen, index, finalizer)?))
            .map_err(|error| unbuildable(&error))?;
        let permit = writer.write_permit().await?;
        let refused = match for_metadata(writer.client(), request).await {
            Ok(_) => return Ok(()),
            Err(error) if error.is_invalid() || error.is_conflict() => error,
            Err(error) => return Err(error),
        };
        drop(permit);
        tries += 1;
        if tries >= retries.tries {
            return Err(refused);
        }
        tokio::time::sleep(retries.pause(tries, random())).await;
        // Another client changed the object: read it, and remove the finalizer from its current list.
        let request = requests.get(name, &GetParams::default()).map_err(|error| unbuildable(&error))?;
        now = for_metadata(writer.client(), request).await?;
        if now.uid != seen.uid {
            let namespace = seen.namespace.as_deref().unwrap_or_default();
            return Err(ApiError::owned_by_other("object", namespace, name));
        }
    }
}

/// A patch that removes the finalizer at this index. The API server refuses it if the UID or the finalizer there differs.
fn removal(object: &ObjectMeta, index: usize, finalizer: &str) -> Result<json_patch::Patch, ApiError> {
    let path = format!("/metadata/finalizers/{index}");
    let patch = json!([
        {"op": "test", "path": "/metadata/uid", "value": object.uid},
        {"op": "test", "path": path, "value": finalizer},
        {"op": "remove", "path": path},
    ]);
    serde_json::from_value(patch).map_err(|error| ApiError::unanswered(error.to_string()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::{Arc, Mutex};

    use axum::Router;
    use axum::body::Bytes;
    use axum::response::IntoResponse;
    use axum::routing::get;
    use serde_json::Value;

    use super::*;
    use crate::cluster::kube::requests::at;

    const OURS: &str = "flyte/flytek8s";
    const THEIRS: &str = "example.com/theirs";

    /// An API server with one pod. It refuses the first patches, and another client writes the pod each time.
    struct Server {
        pod: Value,
        refusals: usize,
        meanwhile: fn(&mut Value),
        patches: usize,
    }

    fn pod(uid: &str, finalizers: &[&str]) -> Value {
        json!({
            "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
            "metadata": {"namespace": "n", "name": "p", "uid": uid, "finalizers": finalizers},
        })
    }

    fn refuse(code: u16, reason: &str) -> axum::response::Response {
        let status = json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": "no"});
        (axum::http::StatusCode::from_u16(code).unwrap(), status.to_string()).into_response()
    }

    impl Server {
        fn new(refusals: usize, meanwhile: fn(&mut Value)) -> Arc<Mutex<Self>> {
            Arc::new(Mutex::new(Self { pod: pod("a", &[OURS]), refusals, meanwhile, patches: 0 }))
        }

        fn patch(&mut self, body: &[u8]) -> axum::response::Response {
            self.patches += 1;
            if self.patches <= self.refusals {
                (self.meanwhile)(&mut self.pod);
                return refuse(409, "Conflict");
            }
            let patch: json_patch::Patch = serde_json::from_slice(body).unwrap();
            match json_patch::patch(&mut self.pod, &patch) {
                Ok(()) => self.pod.to_string().into_response(),
                Err(_) => refuse(422, "Invalid"),
            }
        }
    }

    /// Removes the own finalizer from the pod as it was at the start of the test.
    async fn remove_own(server: &Arc<Mutex<Server>>, config: &K8sConfig) -> Result<(), ApiError> {
        let (read, written) = (Arc::clone(server), Arc::clone(server));
        let route = get(move || async move { read.lock().unwrap().pod.to_string() })
            .patch(move |body: Bytes| async move { written.lock().unwrap().patch(&body) });
        let router = Router::new().route("/api/v1/namespaces/n/pods/p", route);
        let writer = Writer::new(kube::Client::new(router, "default"));
        let seen: ObjectMeta = serde_json::from_value(pod("a", &[OURS])["metadata"].take()).unwrap();
        remove_finalizer(&writer, &at("", "v1", "pods", "n"), &seen, OURS, ConflictRetries::of(config)).await
    }

    fn config(tries: i64, millis: i64) -> K8sConfig {
        K8sConfig { update_backoff_retries: tries, update_base_backoff_duration: millis, ..K8sConfig::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn conflicts_are_retried_as_configured_and_only_the_own_finalizer_is_removed() {
        let server =
            Server::new(2, |pod| pod["metadata"]["finalizers"].as_array_mut().unwrap().insert(0, THEIRS.into()));
        let began = tokio::time::Instant::now();
        remove_own(&server, &config(3, 1000)).await.unwrap();
        let took = began.elapsed();
        assert!(took >= Duration::from_secs(3) && took < Duration::from_secs(4), "1 s and 2 s, not {took:?}");
        let server = server.lock().unwrap();
        assert_eq!((server.patches, &server.pod), (3, &pod("a", &[THEIRS, THEIRS])));
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_error_is_returned_after_the_configured_tries() {
        for (configured, tries) in [(2, 2), (1, 1), (0, 1)] {
            let server = Server::new(usize::MAX, |_| {});
            assert!(remove_own(&server, &config(configured, 10)).await.unwrap_err().is_conflict());
            assert_eq!(server.lock().unwrap().patches, tries);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn another_object_with_the_same_name_keeps_its_finalizer() {
        for refusals in [0, 1] {
            let server = Server::new(refusals, |_| {});
            server.lock().unwrap().pod = pod("b", &[OURS]);
            assert!(remove_own(&server, &config(5, 10)).await.unwrap_err().is_not_found());
            let server = server.lock().unwrap();
            assert_eq!((server.patches, &server.pod), (1, &pod("b", &[OURS])));
        }
    }

    #[test]
    fn pauses_double_up_to_a_bound() {
        let upstream = ConflictRetries::default();
        assert_eq!(upstream, ConflictRetries { tries: 5, first_pause: Duration::from_millis(10) });
        let pauses: Vec<_> = (1..5).map(|tries| upstream.pause(tries, 0.0).as_millis()).collect();
        assert_eq!(pauses, [10, 20, 40, 80]);
        assert_eq!(upstream.pause(1, 1.0), Duration::from_millis(11));
        assert_eq!(upstream.pause(u64::MAX, 0.0), LONGEST_PAUSE);
        assert_eq!(ConflictRetries::of(&config(-1, -1)).pause(1, 1.0), Duration::ZERO);
    }
}
