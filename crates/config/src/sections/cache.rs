//! The `cache` section. It has no effect: no part of the executor uses this cache.

use aileron_kubekit::duration::GoDuration;
use aileron_kubekit::quantity::{Format, Quantity};
use aileron_machinery::config::schema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A general cache of the executor process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct CacheConfig {
    /// Where cached values are stored.
    #[serde(rename = "type")]
    pub kind: CacheType,
    /// The cache in memory.
    pub in_memory_fixed_size: InMemoryCacheConfig,
    /// The cache in Redis.
    pub redis: RedisCacheConfig,
}

/// Where cached values are stored.
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
    /// Name of the client in the list of connections of the server.
    pub client_name: String,
    /// Version of the protocol, 2 or 3.
    pub protocol: i64,
    /// User name.
    pub username: String,
    /// Password.
    pub password: String,
    /// Name of the secret that holds the password.
    pub password_secret_name: String,
    /// Number of the database.
    #[serde(rename = "DB")]
    pub db: i64,
    /// How often a failed command is repeated. -1 means never.
    pub max_retries: i64,
    /// Shortest delay before a command is repeated.
    #[schemars(schema_with = "schema::duration")]
    pub min_retry_backoff: GoDuration,
    /// Longest delay before a command is repeated.
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
    /// A command ends when the time limit of its caller has passed.
    pub context_timeout_enabled: bool,
    /// Uses the connection that has been idle for the longest time first.
    #[serde(rename = "PoolFIFO")]
    pub pool_fifo: bool,
    /// Number of connections in the pool.
    pub pool_size: i64,
    /// How long a command waits for a connection if all are in use.
    #[schemars(schema_with = "schema::duration")]
    pub pool_timeout: GoDuration,
    /// Smallest number of idle connections.
    pub min_idle_conns: i64,
    /// Largest number of idle connections.
    pub max_idle_conns: i64,
    /// Largest number of connections. 0 means no limit.
    pub max_active_conns: i64,
    /// How long a connection may be idle.
    #[schemars(schema_with = "schema::duration")]
    pub conn_max_idle_time: GoDuration,
    /// How long a connection may exist.
    #[schemars(schema_with = "schema::duration")]
    pub conn_max_lifetime: GoDuration,
    /// Cannot be set in a configuration file. Use `UseTLS`.
    #[serde(rename = "TLSConfig")]
    pub tls_config: Option<serde_json::Value>,
    /// Uses TLS and trusts the certificate authorities of the system.
    #[serde(rename = "UseTLS")]
    pub use_tls: bool,
    /// Does not verify the certificate of the server. Only for tests.
    #[serde(rename = "TLSInsecureSkipVerify")]
    pub tls_insecure_skip_verify: bool,
    /// Does not send the name of the client library. The spelling of the key is that of upstream.
    pub disable_indentity: bool,
}

/// One day, upstream's default.
const EXPIRATION_SECONDS: i64 = 24 * 60 * 60;
/// 100 MB, upstream's default.
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
