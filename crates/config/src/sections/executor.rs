//! The `executor` section.

use aileron_kubekit::duration::GoDuration;
use aileron_machinery::config::schema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The executor itself: its HTTP servers, the services it calls, its limits and intervals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct ExecutorConfig {
    /// Address of the metrics server, such as `:10254` or `127.0.0.1:10254`. `0` or empty switches the server off.
    pub metrics_bind_address: String,
    /// Address of the server for health probes (`/healthz` and `/readyz`). `0` or empty switches the server off.
    pub health_probe_bind_address: String,
    /// Leader election: if several replicas of the executor run, only the leader works on tasks.
    pub leader_elect: bool,
    /// With `leaderElect`, beside a Go executor: takes the lease from a Go executor that renews it, instead of waiting until
    /// that executor stops. As long as no Go executor has renewed the lease, Aileron does not work, because a Go executor
    /// without `leaderElect` may be working.
    #[schemars(extend("x-aileron" = true))]
    pub leader_elect_take_over: bool,
    /// Serves metrics over HTTPS, and only to clients that may read them. `false` means plain HTTP.
    pub metrics_secure: bool,
    /// Directory with the TLS certificate of the webhook.
    #[schemars(extend("x-no-effect" = "the executor contains no webhook"))]
    pub webhook_cert_path: String,
    /// File name of the TLS certificate of the webhook.
    #[schemars(extend("x-no-effect" = "the executor contains no webhook"))]
    pub webhook_cert_name: String,
    /// File name of the private key of the webhook.
    #[schemars(extend("x-no-effect" = "the executor contains no webhook"))]
    pub webhook_cert_key: String,
    /// Directory with the TLS certificate of the metrics server. If it is empty, the executor generates a self-signed
    /// certificate.
    pub metrics_cert_path: String,
    /// File name of the TLS certificate of the metrics server, in `metricsCertPath`.
    pub metrics_cert_name: String,
    /// File name of the private key of the metrics server, in `metricsCertPath`.
    pub metrics_cert_key: String,
    /// Offers HTTP/2 on the metrics server when it uses HTTPS.
    #[serde(rename = "enableHTTP2")]
    pub enable_http2: bool,
    /// URL of Flyte's events service. The executor sends every phase of a task there.
    #[serde(rename = "EventsServiceURL")]
    pub events_service_url: String,
    /// URL of Flyte's cache service, which stores the cached outputs of tasks.
    #[serde(rename = "cacheServiceURL")]
    pub cache_service_url: String,
    /// Name of this cluster in the events that the executor sends.
    pub cluster: String,
    /// Kubernetes service account for tasks that do not name one. Empty means that Kubernetes uses the service account
    /// `default` of the namespace.
    #[serde(rename = "defaultK8sServiceAccount")]
    pub default_k8s_service_account: String,
    /// How many system failures a task may have. A task that has more of them fails permanently. 0 means 3.
    pub max_system_failures: i32,
    /// How many TaskActions are processed at the same time. 0 means 1.
    pub max_concurrent_reconciles: i64,
    /// How long the executor waits before it repeats a step that failed, such as a request to another service. It is
    /// also the interval in which the executor checks and extends cache reservations. 0 means 10s.
    #[schemars(schema_with = "schema::duration")]
    pub requeue_duration: GoDuration,
    /// How long a task waits if the cluster does not serve the kind of its object (most likely the operator is not
    /// installed). After that the task fails. 0 means that it waits without a limit.
    #[schemars(schema_with = "schema::duration", extend("x-aileron" = true))]
    pub missing_kind_timeout: GoDuration,
    /// Deletion of TaskActions that have ended.
    pub gc: GcConfig,
}

/// Deletion of TaskActions that have ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GcConfig {
    /// How often the executor looks for TaskActions to delete. 0 switches the deletion off.
    #[schemars(schema_with = "schema::duration")]
    pub interval: GoDuration,
    /// How long a TaskAction is kept after it has ended. With 0 it is deleted at the next interval.
    #[serde(rename = "maxTTL")]
    #[schemars(schema_with = "schema::duration")]
    pub max_ttl: GoDuration,
}

impl Default for ExecutorConfig {
    fn default() -> Self {
        Self {
            metrics_bind_address: ":10254".into(),
            health_probe_bind_address: ":8081".into(),
            leader_elect: false,
            leader_elect_take_over: false,
            metrics_secure: true,
            webhook_cert_path: String::new(),
            webhook_cert_name: "tls.crt".into(),
            webhook_cert_key: "tls.key".into(),
            metrics_cert_path: String::new(),
            metrics_cert_name: "tls.crt".into(),
            metrics_cert_key: "tls.key".into(),
            enable_http2: false,
            events_service_url: "http://localhost:8090".into(),
            cache_service_url: "http://localhost:8094".into(),
            cluster: String::new(),
            default_k8s_service_account: String::new(),
            max_system_failures: 3,
            max_concurrent_reconciles: 512,
            requeue_duration: GoDuration::from_secs(10),
            // Installing or upgrading an operator takes a few minutes. If its kind is still missing after 10 minutes,
            // the operator is probably not installed at all.
            missing_kind_timeout: GoDuration::from_secs(10 * 60),
            gc: GcConfig::default(),
        }
    }
}

impl Default for GcConfig {
    fn default() -> Self {
        Self { interval: GoDuration::from_secs(30 * 60), max_ttl: GoDuration::from_secs(60 * 60) }
    }
}
