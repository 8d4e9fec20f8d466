//! The `secrets` section: where the executor finds the secrets that core plugins ask for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The secrets that core plugins ask the executor for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct SecretsConfig {
    /// Kind of secret store.
    #[serde(rename = "type")]
    #[schemars(extend("x-no-effect" = "secrets are always read from variables and files, which upstream calls `local`"))]
    pub kind: String,
    /// Directory with secret files. The name of the file is the name of the secret.
    pub secrets_prefix: String,
    /// Prefix of environment variables with secrets. The name of the secret in upper case follows. A variable wins over a
    /// file.
    pub env_prefix: String,
}

impl Default for SecretsConfig {
    fn default() -> Self {
        Self { kind: "local".into(), secrets_prefix: "/etc/secrets".into(), env_prefix: "FLYTE_SECRET_".into() }
    }
}
