//! The `secrets` section. It has no effect: the executor itself uses no secrets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The secrets that the executor itself uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct SecretsConfig {
    /// Kind of secret store. Only `local` exists.
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
