//! The `executor` section.

use aileron_kubekit::duration::GoDuration;
use aileron_machinery::config::schema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The executor itself: its servers, its control plane and its pace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct ExecutorConfig {
    /// Address metrics are served at; `0` switches the server off.
    pub metrics_bind_address: String,
    /// Address health probes are served at.
    pub health_probe_bind_address: String,
    /// Lets only one of several replicas act.
    pub leader_elect: bool,
    /// Serves metrics by HTTPS.
    pub metrics_secure: bool,
    /// Directory with the webhook's certificate.
    pub webhook_cert_path: String,
    /// File name of the webhook's certificate.
    pub webhook_cert_name: String,
    /// File name of the webhook's key.
    pub webhook_cert_key: String,
    /// Directory with the metrics server's certificate.
    pub metrics_cert_path: String,
    /// File name of the metrics server's certificate.
    pub metrics_cert_name: String,
    /// File name of the metrics server's key.
    pub metrics_cert_key: String,
    /// Offers HTTP/2 on the metrics and webhook servers.
    #[serde(rename = "enableHTTP2")]
    pub enable_http2: bool,
    /// Address of the service that takes events of actions.
    #[serde(rename = "EventsServiceURL")]
    pub events_service_url: String,
    /// Address of the service that keeps cached outputs.
    #[serde(rename = "cacheServiceURL")]
    pub cache_service_url: String,
    /// Name of this cluster in the events of actions.
    pub cluster: String,
    /// Service account of task pods whose task names none; empty leaves the choice to Kubernetes.
    #[serde(rename = "defaultK8sServiceAccount")]
    pub default_k8s_service_account: String,
    /// How many system failures in a row a task may have before it fails for good; 0 means 3.
    pub max_system_failures: i32,
    /// How many TaskActions are worked on at a time.
    pub max_concurrent_reconciles: i64,
    /// How long a running TaskAction waits for its next look; 0 means 10s.
    #[schemars(schema_with = "schema::duration")]
    pub requeue_duration: GoDuration,
    /// How long a task waits for a kind of object that the cluster does not serve, most likely because its operator is
    /// not installed, before it fails; 0 means for ever.
    #[schemars(schema_with = "schema::duration", extend("x-aileron" = true))]
    pub missing_kind_timeout: GoDuration,
    /// Removal of TaskActions that have ended.
    pub gc: GcConfig,
}

/// Removal of TaskActions that have ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GcConfig {
    /// How often TaskActions are looked through; 0 switches removal off.
    #[schemars(schema_with = "schema::duration")]
    pub interval: GoDuration,
    /// How long a TaskAction is kept after it has ended; 0 or less removes it at the next round.
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
            // An operator that is being installed or upgraded is back within minutes; a forgotten one is not.
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
