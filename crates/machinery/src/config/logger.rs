//! The `logger` section.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema;

/// The log output of the executor.
///
/// ```
/// use aileron_machinery::config::LoggerConfig;
///
/// let config = LoggerConfig { level: 5, ..LoggerConfig::default() };
/// assert_eq!((config.level, config.formatter.kind.as_str()), (5, "json"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(transform = schema::without_example)]
pub struct LoggerConfig {
    /// Adds the source file and line to every log record.
    #[serde(rename = "show-source")]
    pub show_source: bool,
    /// Writes no logs at all. Meant for benchmarks and tests.
    pub mute: bool,
    /// The most detailed level that is written: 0 panic, 1 fatal, 2 error, 3 warning, 4 info, 5 debug. Co-pilot
    /// containers get the same level.
    pub level: i64,
    /// The format of log records.
    pub formatter: FormatterConfig,
}

/// The format of log records.
///
/// ```
/// use aileron_machinery::config::logger::FormatterConfig;
/// use aileron_machinery::serde_json::{self, json};
///
/// let formatter: FormatterConfig = serde_json::from_value(json!({"type": "text"}))?;
/// assert_eq!(formatter.kind, "text");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(transform = schema::without_example)]
pub struct FormatterConfig {
    /// `json`, `text`, or `gcp` (JSON for Google Cloud Logging).
    #[serde(rename = "type")]
    pub kind: String,
}

/// Upstream's numbering puts warnings at 3.
const WARN_LEVEL: i64 = 3;

impl Default for LoggerConfig {
    fn default() -> Self {
        Self { show_source: false, mute: false, level: WARN_LEVEL, formatter: FormatterConfig::default() }
    }
}

impl Default for FormatterConfig {
    fn default() -> Self {
        Self { kind: "json".into() }
    }
}
