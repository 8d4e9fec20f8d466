//! The `storage` section. It is also the shape of co-pilot's storage override, which is why it lives here.

use std::collections::BTreeMap;

use aileron_kubekit::duration::GoDuration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema::{self, is_default, null_if_empty};

/// The object store with the inputs, outputs and error documents of tasks.
///
/// The plain default is Go's zero value, the start of an override; [`StorageConfig::standard`] is what the `storage`
/// section starts from.
///
/// ```
/// use aileron_machinery::CopilotStorage;
/// use aileron_machinery::config::StorageConfig;
///
/// let storage = StorageConfig { container: "data".into(), ..StorageConfig::standard() };
/// assert_eq!(CopilotStorage::new(&storage, 4).stow_config["region"], "us-east-1");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(transform = schema::without_example)]
pub struct StorageConfig {
    /// Kind of store: `stow` (see `stow.kind`), `s3`, `minio`, `local` or `mem`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The object store, for type `stow`.
    pub stow: StowConfig,
    /// The Redis server, for type `redis`.
    #[schemars(extend("x-no-effect" = "the executor cannot use Redis as a store"))]
    pub redis: RedisConfig,
    /// The bucket (container) of the inputs and outputs.
    pub container: String,
    /// Allows reading and writing buckets other than `container`.
    #[serde(rename = "enable-multicontainer")]
    pub enable_multicontainer: bool,
    /// Settings for single URL schemes besides that of the configured store. The key is the scheme: `s3`, `gs`, `abfs`. A
    /// scheme that is not listed cannot be used. An entry without settings uses the credentials of the environment, such as
    /// those of the service account.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub schemes: BTreeMap<String, SchemeConfig>,
    /// Locations outside of `container` that tasks may use, as prefixes such as `s3://shared/models` or
    /// `file:///mnt/data`. If a prefix has one of the schemes of `schemes`, that scheme is restricted to its prefixes.
    #[serde(rename = "allowed-prefixes", skip_serializing_if = "Vec::is_empty")]
    pub allowed_prefixes: Vec<String>,
    /// In-memory cache of small objects.
    #[schemars(extend("x-no-effect" = "the executor does not cache stored objects"))]
    pub cache: CachingConfig,
    /// Limits on what is read.
    pub limits: LimitsConfig,
    /// The HTTP client that talks to the store.
    #[serde(rename = "defaultHttpClient")]
    pub default_http_client: HttpClientConfig,
    /// Settings for signed URLs.
    #[schemars(extend("x-no-effect" = "the executor creates no signed URLs"))]
    #[serde(rename = "signedUrl")]
    pub signed_url: SignedUrlConfig,
}

/// An object store: its kind and its settings.
///
/// ```
/// use aileron_machinery::config::{StorageConfig, storage::StowConfig};
///
/// let stow = StowConfig { kind: "google".into(), config: [("project_id".to_owned(), "team".to_owned())].into() };
/// let storage = StorageConfig { kind: "stow".into(), stow, ..StorageConfig::default() };
/// assert_eq!(storage.stow.kind, "google");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(transform = schema::without_example)]
pub struct StowConfig {
    /// `s3`, `google`, `azure` or `local`. Empty means `s3`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Settings of the store, for example `region`, `endpoint`, `auth_type`, `access_key_id`, `secret_key`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub config: BTreeMap<String, String>,
}

/// Settings for one URL scheme.
///
/// ```
/// use aileron_machinery::config::{StorageConfig, storage::SchemeConfig};
///
/// let mut storage = StorageConfig::standard();
/// // With the credentials of the environment.
/// storage.schemes.insert("gs".into(), SchemeConfig::default());
/// assert!(!storage.schemes.contains_key("abfs"), "this scheme cannot be used");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(transform = schema::without_example)]
pub struct SchemeConfig {
    /// Kind of object store. Empty means the usual one for the scheme.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Settings of the store. Empty means the credentials of the environment.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub config: BTreeMap<String, String>,
    /// The Redis server, for the scheme `redis`.
    #[schemars(extend("x-no-effect" = "the executor cannot use Redis as a store"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redis: Option<RedisConfig>,
}

/// A Redis server.
///
/// ```
/// use aileron_machinery::config::storage::RedisConfig;
/// use aileron_machinery::serde_json::{self, json};
///
/// let section: RedisConfig = serde_json::from_value(json!({"addr": "redis:6379", "db": 1}))?;
/// assert_eq!(section.addr, "redis:6379");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(transform = schema::without_example)]
pub struct RedisConfig {
    /// `host:port` of the server.
    pub addr: String,
    /// User name, if the server needs one.
    pub username: String,
    /// Password, if the server needs one.
    pub password: String,
    /// Number of the database.
    pub db: i64,
}

/// In-memory cache of small objects.
///
/// ```
/// use aileron_machinery::config::storage::CachingConfig;
/// use aileron_machinery::serde_json::{self, json};
///
/// let section: CachingConfig = serde_json::from_value(json!({"max_size_mbs": 100}))?;
/// assert_eq!(section.max_size_mbs, 100);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(transform = schema::without_example)]
pub struct CachingConfig {
    /// Size of the cache in megabytes; 0 switches it off.
    pub max_size_mbs: i64,
    /// Garbage-collection target of the Go runtime.
    pub target_gc_percent: i64,
}

/// Limits on what is read.
///
/// ```
/// use aileron_machinery::config::{StorageConfig, storage::LimitsConfig};
///
/// let storage = StorageConfig { limits: LimitsConfig { max_download_mbs: 10 }, ..StorageConfig::standard() };
/// assert_eq!(storage.limits.max_download_mbs, 10);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(transform = schema::without_example)]
pub struct LimitsConfig {
    /// Size of the largest object that the executor downloads, in megabytes. 0 means no limit.
    #[serde(rename = "maxDownloadMBs")]
    pub max_download_mbs: i64,
}

/// The HTTP client that talks to the store.
///
/// ```
/// use aileron_machinery::config::storage::HttpClientConfig;
/// use aileron_machinery::serde_json::{self, json};
///
/// let client: HttpClientConfig = serde_json::from_value(json!({"timeout": "10s"}))?;
/// assert_eq!(client.timeout.to_string(), "10s");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(transform = schema::without_example)]
pub struct HttpClientConfig {
    /// Headers added to every request.
    #[schemars(extend("x-no-effect" = "the storage client sends no additional headers"))]
    #[serde(serialize_with = "null_if_empty")]
    pub headers: BTreeMap<String, Vec<String>>,
    /// Time limit of one request. 0 means 30s.
    #[schemars(schema_with = "schema::duration")]
    pub timeout: GoDuration,
    /// Largest number of idle connections.
    #[schemars(extend("x-no-effect" = "the storage client manages its connections itself"))]
    pub max_idle_conns: i64,
    /// Largest number of idle connections per host.
    #[schemars(extend("x-no-effect" = "the storage client manages its connections itself"))]
    pub max_idle_conns_per_host: i64,
    /// Largest number of connections per host. 0 means no limit.
    #[schemars(extend("x-no-effect" = "the storage client manages its connections itself"))]
    pub max_conns_per_host: i64,
    /// How long an idle connection stays open.
    #[schemars(
        schema_with = "schema::duration",
        extend("x-no-effect" = "the storage client manages its connections itself")
    )]
    pub idle_conn_timeout: GoDuration,
}

/// Settings for signed URLs.
///
/// ```
/// use aileron_machinery::config::storage::SignedUrlConfig;
/// use aileron_machinery::serde_json::{self, json};
///
/// let section: SignedUrlConfig = serde_json::from_value(json!({"stowConfigOverride": {"endpoint": "https://s3.example.com"}}))?;
/// assert_eq!(section.stow_config_override["endpoint"], "https://s3.example.com");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(transform = schema::without_example)]
pub struct SignedUrlConfig {
    /// Object store settings that differ when URLs are signed.
    #[serde(skip_serializing_if = "is_default")]
    pub stow_config_override: BTreeMap<String, String>,
}

/// Upstream keeps many idle connections because one process talks to one store.
const MAX_IDLE_CONNECTIONS: i64 = 1024;
/// Inputs and error documents larger than this are a mistake; outputs are not read at all.
const MAX_DOWNLOAD_MBS: i64 = 2;

impl StorageConfig {
    /// An S3 store in `us-east-1`: what the `storage` section holds when nothing is configured.
    #[must_use]
    pub fn standard() -> Self {
        Self {
            kind: "stow".into(),
            stow: StowConfig {
                kind: "s3".into(),
                config: BTreeMap::from([("region".to_owned(), "us-east-1".to_owned())]),
            },
            limits: LimitsConfig { max_download_mbs: MAX_DOWNLOAD_MBS },
            default_http_client: HttpClientConfig {
                max_idle_conns: MAX_IDLE_CONNECTIONS,
                max_idle_conns_per_host: MAX_IDLE_CONNECTIONS,
                idle_conn_timeout: GoDuration::from_secs(90),
                ..HttpClientConfig::default()
            },
            ..Self::default()
        }
    }
}
