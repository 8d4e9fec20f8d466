//! The `cache` section: values the executor itself remembers.

use aileron_kubekit::duration::GoDuration;
use aileron_kubekit::quantity::{Format, Quantity};
use aileron_machinery::config::schema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Values the executor itself remembers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct CacheConfig {
    /// Where they are kept.
    #[serde(rename = "type")]
    pub kind: CacheType,
    /// The cache in memory.
    pub in_memory_fixed_size: InMemoryCacheConfig,
    /// The cache in Redis.
    pub redis: RedisCacheConfig,
}

/// Where values are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CacheType {
    /// In memory, up to a fixed size.
    #[default]
    InMemoryFixedSize,
    /// In Redis.
    Redis,
}

/// The cache in memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct InMemoryCacheConfig {
    /// Size of the cache in bytes.
    #[schemars(schema_with = "schema::quantity")]
    pub size: Quantity,
    /// How long a value is kept.
    #[schemars(schema_with = "schema::duration")]
    pub default_expiration: GoDuration,
}

/// The cache in Redis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct RedisCacheConfig {
    /// The connection.
    pub options: RedisOptions,
    /// How long a value is kept.
    #[schemars(schema_with = "schema::duration")]
    pub default_expiration: GoDuration,
}

/// A connection to Redis. Zero values mean the client's own defaults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "PascalCase", deny_unknown_fields)]
pub struct RedisOptions {
    /// `tcp` or `unix`.
    pub network: String,
    /// `host:port` of the server.
    pub addr: String,
    /// Name the connection gives itself.
    pub client_name: String,
    /// Version of the protocol, 2 or 3.
    pub protocol: i64,
    /// User name.
    pub username: String,
    /// Password.
    pub password: String,
    /// Secret with the password.
    pub password_secret_name: String,
    /// Number of the database.
    #[serde(rename = "DB")]
    pub db: i64,
    /// How often a command is tried again; -1 means never.
    pub max_retries: i64,
    /// Shortest wait between tries.
    #[schemars(schema_with = "schema::duration")]
    pub min_retry_backoff: GoDuration,
    /// Longest wait between tries.
    #[schemars(schema_with = "schema::duration")]
    pub max_retry_backoff: GoDuration,
    /// Time limit of connecting.
    #[schemars(schema_with = "schema::duration")]
    pub dial_timeout: GoDuration,
    /// Time limit of reading.
    #[schemars(schema_with = "schema::duration")]
    pub read_timeout: GoDuration,
    /// Time limit of writing.
    #[schemars(schema_with = "schema::duration")]
    pub write_timeout: GoDuration,
    /// Lets a caller's time limit end a command.
    pub context_timeout_enabled: bool,
    /// Takes the oldest idle connection first.
    #[serde(rename = "PoolFIFO")]
    pub pool_fifo: bool,
    /// Connections kept.
    pub pool_size: i64,
    /// How long to wait for a connection when all are busy.
    #[schemars(schema_with = "schema::duration")]
    pub pool_timeout: GoDuration,
    /// Fewest idle connections.
    pub min_idle_conns: i64,
    /// Most idle connections.
    pub max_idle_conns: i64,
    /// Most connections; 0 means no bound.
    pub max_active_conns: i64,
    /// How long a connection may be idle.
    #[schemars(schema_with = "schema::duration")]
    pub conn_max_idle_time: GoDuration,
    /// How long a connection may live.
    #[schemars(schema_with = "schema::duration")]
    pub conn_max_lifetime: GoDuration,
    /// Not for configuration files; use `UseTLS`.
    #[serde(rename = "TLSConfig")]
    pub tls_config: Option<serde_json::Value>,
    /// Speaks TLS, trusting the system's authorities.
    #[serde(rename = "UseTLS")]
    pub use_tls: bool,
    /// Does not check the server's certificate. For tests only.
    #[serde(rename = "TLSInsecureSkipVerify")]
    pub tls_insecure_skip_verify: bool,
    /// Does not announce the client library. The spelling is upstream's.
    pub disable_indentity: bool,
}

/// A day.
const EXPIRATION_SECONDS: i64 = 24 * 60 * 60;
/// 100 MB.
const SIZE_BYTES: i64 = 100_000_000;

impl Default for InMemoryCacheConfig {
    fn default() -> Self {
        Self {
            size: Quantity::new(SIZE_BYTES, Format::DecimalSi),
            default_expiration: GoDuration::from_secs(EXPIRATION_SECONDS),
        }
    }
}

impl Default for RedisCacheConfig {
    fn default() -> Self {
        Self { options: RedisOptions::default(), default_expiration: GoDuration::from_secs(EXPIRATION_SECONDS) }
    }
}
