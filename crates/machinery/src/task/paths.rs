//! Where a task finds its inputs and leaves its outputs.

use serde::{Deserialize, Serialize};

/// What the control plane and the SDK call the files; never to be changed.
const INPUTS: &str = "inputs.pb";
const OUTPUTS: &str = "outputs.pb";
const ERROR: &str = "error.pb";
const DECK: &str = "deck.html";
const CHECKPOINTS: &str = "_flytecheckpoints";

/// The locations that belong to one attempt of a task.
///
/// ```
/// use aileron_machinery::TaskPaths;
///
/// let paths = TaskPaths {
///     output_prefix: "s3://data/a0/1".into(),
///     raw_output_prefix: "s3://raw/a0/1/".into(),
///     ..TaskPaths::default()
/// };
/// assert_eq!(paths.output_path(), "s3://data/a0/1/outputs.pb");
/// assert_eq!(paths.error_path(), "s3://data/a0/1/error.pb");
/// assert_eq!(paths.deck_path(), "s3://data/a0/1/deck.html");
/// assert_eq!(paths.checkpoint_prefix(), "s3://raw/a0/1/_flytecheckpoints");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TaskPaths {
    /// The folder that holds the inputs.
    pub input_prefix: String,
    /// The folder for outputs of this attempt.
    pub output_prefix: String,
    /// The folder for offloaded data of this attempt.
    pub raw_output_prefix: String,
    /// Checkpoints of the attempt before; empty on the first.
    pub prev_checkpoint_prefix: String,
    /// Where the template itself can be read from.
    pub task_template_path: String,
}

impl TaskPaths {
    /// The inputs file.
    ///
    /// ```
    /// use aileron_machinery::TaskPaths;
    ///
    /// let paths = TaskPaths { input_prefix: "s3://data/r1/a0".into(), ..TaskPaths::default() };
    /// assert_eq!(paths.input_path(), "s3://data/r1/a0/inputs.pb");
    /// ```
    pub fn input_path(&self) -> String {
        below(&self.input_prefix, INPUTS)
    }

    /// The outputs file.
    pub fn output_path(&self) -> String {
        below(&self.output_prefix, OUTPUTS)
    }

    /// The error document.
    pub fn error_path(&self) -> String {
        below(&self.output_prefix, ERROR)
    }

    /// The report page.
    pub fn deck_path(&self) -> String {
        below(&self.output_prefix, DECK)
    }

    /// Checkpoints of this attempt.
    pub fn checkpoint_prefix(&self) -> String {
        checkpoint_prefix(&self.raw_output_prefix)
    }
}

/// The checkpoint folder below a raw output prefix.
pub(crate) fn checkpoint_prefix(raw_output_prefix: &str) -> String {
    if raw_output_prefix.is_empty() { String::new() } else { below(raw_output_prefix, CHECKPOINTS) }
}

/// One more segment below a prefix that may or may not end in a slash.
fn below(prefix: &str, name: &str) -> String {
    if prefix.ends_with('/') { format!("{prefix}{name}") } else { format!("{prefix}/{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trailing_slash_is_not_doubled() {
        let paths =
            TaskPaths { input_prefix: "s3://b/in/".into(), output_prefix: "s3://b/out".into(), ..Default::default() };
        assert_eq!(paths.input_path(), "s3://b/in/inputs.pb");
        assert_eq!(paths.output_path(), "s3://b/out/outputs.pb");
        assert_eq!(paths.checkpoint_prefix(), "");
    }
}
