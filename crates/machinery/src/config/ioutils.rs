//! The `plugins.ioutils` section: names of files below a task's output prefix.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema;

/// Names of files the tasks write.
///
/// ```
/// use aileron_machinery::config::IoUtilsConfig;
///
/// assert_eq!(IoUtilsConfig::default().remote_file_output_paths.deck_filename, "deck.html");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(transform = schema::without_example)]
pub struct IoUtilsConfig {
    /// Names of files below the output prefix.
    #[serde(rename = "remoteFileOutputPaths")]
    pub remote_file_output_paths: RemoteFileOutputPaths,
}

/// Names of files below the output prefix.
///
/// ```
/// use aileron_machinery::config::ioutils::RemoteFileOutputPaths;
/// use aileron_machinery::serde_json::{self, json};
///
/// let paths: RemoteFileOutputPaths = serde_json::from_value(json!({"deckFilename": "report.html"}))?;
/// assert_eq!(paths.deck_filename, "report.html");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(transform = schema::without_example)]
pub struct RemoteFileOutputPaths {
    /// Name of the file with the task's report.
    #[serde(rename = "deckFilename")]
    pub deck_filename: String,
}

impl Default for RemoteFileOutputPaths {
    fn default() -> Self {
        Self { deck_filename: "deck.html".into() }
    }
}
