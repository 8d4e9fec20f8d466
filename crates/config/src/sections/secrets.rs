//! The `secrets` section.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where the executor itself finds secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct SecretsConfig {
    /// Kind of secret store; only `local` is known.
    #[serde(rename = "type")]
    pub kind: String,
    /// Directory with secret files.
    pub secrets_prefix: String,
    /// Prefix of environment variables with secrets.
    pub env_prefix: String,
}

impl Default for SecretsConfig {
    fn default() -> Self {
        Self { kind: "local".into(), secrets_prefix: "/etc/secrets".into(), env_prefix: "FLYTE_SECRET_".into() }
    }
}
