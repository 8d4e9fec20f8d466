//! The `plugins.ioutils` section: names of files below a task's output prefix.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Names of files the tasks write.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct IoUtilsConfig {
    /// Names of files below the output prefix.
    #[serde(rename = "remoteFileOutputPaths")]
    pub remote_file_output_paths: RemoteFileOutputPaths,
}

/// Names of files below the output prefix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
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
