//! What a plugin may return instead of an object or a phase.

pub mod text;

/// Codes that callers and users know by name. Mirrors `flyteplugins/go/tasks/errors`.
pub mod code {
    /// The task's definition cannot work; the same input fails the same way, so it is never retried.
    ///
    /// ```
    /// use aileron_machinery::{PluginError, code};
    ///
    /// let error = PluginError::bad_task_specification("custom.litres: 0 is not a volume");
    /// assert_eq!(error.code(), code::BAD_TASK_SPECIFICATION);
    /// ```
    pub const BAD_TASK_SPECIFICATION: &str = "BadTaskSpecification";
    /// Something the task carries is too large to hand on; never retried.
    ///
    /// ```
    /// use aileron_machinery::{PluginError, code};
    ///
    /// let error = PluginError::new(code::METADATA_TOO_LARGE, "the query plan has 3 MiB, the operator accepts 1 MiB");
    /// assert_eq!(error.non_retryable_code(), Some(code::METADATA_TOO_LARGE));
    /// ```
    pub const METADATA_TOO_LARGE: &str = "MetadataTooLarge";
    /// The stored plugin state cannot be read.
    ///
    /// ```
    /// use aileron_machinery::{PluginError, StoredState, code, serde_json};
    ///
    /// let state = StoredState { bytes: b"job".to_vec(), version: 1 };
    /// let job: Result<u64, PluginError> = serde_json::from_slice(&state.bytes)
    ///     .map_err(|error| PluginError::caused_by(code::CORRUPTED_PLUGIN_STATE, "the number of the job", error));
    /// assert!(job.unwrap_err().to_string().starts_with("[CorruptedPluginState] the number of the job, caused by: "));
    /// ```
    pub const CORRUPTED_PLUGIN_STATE: &str = "CorruptedPluginState";
    /// A service below could not do its part.
    ///
    /// ```
    /// use aileron_machinery::{PluginError, code};
    ///
    /// let error = PluginError::new(code::DOWNSTREAM_SYSTEM_ERROR, "the query service answers 503");
    /// assert_eq!(error.non_retryable_code(), None, "the next try may succeed");
    /// ```
    pub const DOWNSTREAM_SYSTEM_ERROR: &str = "DownstreamSystemError";
}

/// A plugin could not compute its answer.
///
/// The text reads as upstream's does, because it ends in stored statuses: `[code] message`, and after it the cause.
///
/// ```
/// use aileron_machinery::PluginError;
///
/// let error = PluginError::bad_task_specification("custom.litres: 0 is not a volume");
/// assert_eq!(error.to_string(), "[BadTaskSpecification] custom.litres: 0 is not a volume");
/// assert_eq!(error.non_retryable_code(), Some("BadTaskSpecification"), "the task fails at once");
///
/// let error = PluginError::uncoded("the query service does not answer");
/// assert_eq!((error.code(), error.non_retryable_code()), ("", None), "it is tried again");
/// ```
#[derive(Debug)]
pub struct PluginError {
    code: String,
    message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// The object store does not work at the moment: it cannot be reached, does not answer, or answers that it is
/// overloaded or broken.
///
/// It is the cause of a [`PluginError`]. The executor then waits until the store works again, and counts no failure.
///
/// ```
/// use aileron_machinery::{PluginError, StorageOutage};
///
/// let error = PluginError::from(StorageOutage::new("s3://data/a0/inputs.pb: 503 Slow Down"));
/// assert!(error.storage_outage().is_some(), "the executor waits, and counts no failure");
/// ```
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct StorageOutage(String);

impl StorageOutage {
    /// An outage; the text names the blob, what was tried and what the store answered.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl From<StorageOutage> for PluginError {
    fn from(outage: StorageOutage) -> Self {
        Self::caused_by(code::DOWNSTREAM_SYSTEM_ERROR, "the object store does not work", outage)
    }
}

impl PluginError {
    /// An error with a code.
    ///
    /// ```
    /// use aileron_machinery::PluginError;
    ///
    /// let error = PluginError::new("QuotaOfService", "the query service accepts 5 queries at a time");
    /// assert_eq!(error.code(), "QuotaOfService");
    /// ```
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), source: None }
    }

    /// An error with a code and the error that led to it.
    ///
    /// ```
    /// use aileron_machinery::PluginError;
    ///
    /// let size = "tall".parse::<u32>().map_err(|error| PluginError::caused_by("BadSize", "size of the batch", error));
    /// let text = "[BadSize] size of the batch, caused by: invalid digit found in string";
    /// assert_eq!(size.unwrap_err().to_string(), text);
    /// ```
    pub fn caused_by(
        code: impl Into<String>,
        message: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self { code: code.into(), message: message.into(), source: Some(source.into()) }
    }

    /// An error that carries no code, only a text.
    pub fn uncoded(message: impl Into<String>) -> Self {
        Self { code: String::new(), message: message.into(), source: None }
    }

    /// The task's definition cannot work.
    pub fn bad_task_specification(message: impl Into<String>) -> Self {
        Self::new(code::BAD_TASK_SPECIFICATION, message)
    }

    /// The stable code, empty if the error has none.
    pub fn code(&self) -> &str {
        &self.code
    }

    /// The outage of the object store that led to this error, if one is among the causes.
    ///
    /// ```
    /// use aileron_machinery::{ServiceError, StorageOutage};
    ///
    /// let cause = ServiceError::caused_by("inputs of a0", StorageOutage::new("s3://data/inputs.pb: 503 Slow Down"));
    /// assert!(cause.into_plugin_error("the query cannot be sent").storage_outage().is_some());
    /// ```
    pub fn storage_outage(&self) -> Option<&StorageOutage> {
        let causes = std::iter::successors(std::error::Error::source(self), |error| error.source());
        causes.into_iter().find_map(|error| error.downcast_ref())
    }

    /// The first code, here or among the causes, that says trying again is useless.
    pub fn non_retryable_code(&self) -> Option<&str> {
        if [code::BAD_TASK_SPECIFICATION, code::METADATA_TOO_LARGE].contains(&self.code.as_str()) {
            return Some(&self.code);
        }
        let mut next = std::error::Error::source(self);
        while let Some(error) = next {
            if let Some(inner) = error.downcast_ref::<Self>() {
                return inner.non_retryable_code();
            }
            next = error.source();
        }
        None
    }
}

impl std::fmt::Display for PluginError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.source, self.code.is_empty()) {
            (Some(source), _) => write!(f, "[{}] {}, caused by: {source}", self.code, self.message),
            (None, false) => write!(f, "[{}] {}", self.code, self.message),
            (None, true) => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for PluginError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_stands_in_front_of_the_message() {
        assert_eq!(PluginError::bad_task_specification("no image").to_string(), "[BadTaskSpecification] no image");
        assert_eq!(PluginError::uncoded("plain").to_string(), "plain");
        assert_eq!(PluginError::caused_by("", "failed", "why").to_string(), "[] failed, caused by: why");
    }

    #[test]
    fn an_outage_of_the_object_store_is_found_below_wrappers() {
        let wrapped = PluginError::caused_by("Outer", "x", PluginError::from(StorageOutage::new("503")));
        assert_eq!(wrapped.storage_outage().map(ToString::to_string).as_deref(), Some("503"));
        assert!(PluginError::caused_by("Outer", "x", "404").storage_outage().is_none());
    }

    #[test]
    fn a_non_retryable_code_is_found_below_a_wrapper() {
        let wrapped = PluginError::caused_by("Outer", "x", PluginError::bad_task_specification("y"));
        assert_eq!(wrapped.non_retryable_code(), Some("BadTaskSpecification"));
        assert_eq!(PluginError::new("Outer", "x").non_retryable_code(), None);
    }
}
