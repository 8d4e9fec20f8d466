//! Which storage errors pass by themselves, so that the caller waits, and which need a person.

use std::io::ErrorKind;

use aileron_machinery::error_text::chain;

use super::StorageError;
use super::outputs::OutputsError;

/// Client errors (4xx) that the same request may not get again: request time-out, too early, too many requests.
const PASSING_CLIENT_ERRORS: [&str; 3] = ["408", "425", "429"];

/// How the client of object stores writes the status of an answer. Its error type is not public, only its text is.
const STATUS_TEXT: &str = "status code: ";

impl StorageError {
    /// Whether the store does not work at the moment. The same call may succeed later without a change of the task, the
    /// blob or the configuration.
    pub fn is_outage(&self) -> bool {
        match self {
            Self::BadReference { .. }
            | Self::OtherContainer { .. }
            | Self::SchemeNotConfigured { .. }
            | Self::OutsideBoundary { .. }
            | Self::MemoryFull { .. }
            | Self::ExceedsLimit { .. }
            | Self::Settings { .. } => false,
            Self::Backend { source, .. } => is_backend_outage(source),
            Self::Files { source, .. } => is_file_system_outage(source.kind()),
        }
    }
}

impl OutputsError {
    /// Whether the store does not work at the moment; see [`StorageError::is_outage`].
    pub fn is_outage(&self) -> bool {
        matches!(self, Self::Storage { source, .. } if source.is_outage())
    }
}

fn is_backend_outage(error: &object_store::Error) -> bool {
    match error {
        // Time-outs, failed connections and answers that are not 2xx. Permission errors have variants of their own.
        object_store::Error::Generic { .. } => !is_refused_request(&chain(error)),
        object_store::Error::JoinError { .. } => true,
        _ => false,
    }
}

/// Whether the text has the status of a request that would be refused again.
fn is_refused_request(text: &str) -> bool {
    let Some(status) = text.split_once(STATUS_TEXT).and_then(|(_, rest)| rest.get(..3)) else { return false };
    status.starts_with('4') && !PASSING_CLIENT_ERRORS.contains(&status)
}

/// A missing file is not an error of the store, so it does not get here.
fn is_file_system_outage(kind: ErrorKind) -> bool {
    !matches!(
        kind,
        ErrorKind::NotFound
            | ErrorKind::PermissionDenied
            | ErrorKind::AlreadyExists
            | ErrorKind::InvalidInput
            | ErrorKind::InvalidData
            | ErrorKind::InvalidFilename
            | ErrorKind::NotADirectory
            | ErrorKind::IsADirectory
            | ErrorKind::FileTooLarge
            | ErrorKind::ReadOnlyFilesystem
            | ErrorKind::Unsupported
    )
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    fn backend(source: object_store::Error) -> StorageError {
        StorageError::Backend { action: "read", uri: "s3://b/k".into(), source }
    }

    fn generic(text: &str) -> StorageError {
        backend(object_store::Error::Generic { store: "S3", source: text.into() })
    }

    #[test]
    fn an_outage_passes_and_a_refusal_does_not() {
        let path = || "k".to_owned();
        let outages = [
            generic("error sending request: connection refused"),
            generic("operation timed out"),
            generic("Server returned non-2xx status code: 503 Service Unavailable: SlowDown"),
            generic("Server returned non-2xx status code: 429 Too Many Requests: "),
        ];
        let refusals = [
            generic("Server returned non-2xx status code: 400 Bad Request: InvalidBucketName"),
            backend(object_store::Error::PermissionDenied { path: path(), source: "403".into() }),
            backend(object_store::Error::Unauthenticated { path: path(), source: "401".into() }),
            backend(object_store::Error::NotFound { path: path(), source: "404".into() }),
            StorageError::BadReference { uri: "x".into(), detail: "d".into() },
            StorageError::ExceedsLimit { uri: "x".into(), size: 9, limit_mb: 1 },
            StorageError::Settings { subject: "s3".into(), detail: "d".into() },
        ];
        assert!(outages.iter().all(StorageError::is_outage), "{outages:?}");
        assert!(!refusals.iter().any(StorageError::is_outage), "{refusals:?}");
    }

    #[test]
    fn a_broken_file_system_passes_and_a_forbidden_file_does_not() {
        let files =
            |kind| StorageError::Files { action: "read", uri: "file:///x".into(), source: io::Error::from(kind) };
        for kind in [ErrorKind::ConnectionReset, ErrorKind::TimedOut, ErrorKind::StorageFull, ErrorKind::Other] {
            assert!(files(kind).is_outage(), "{kind}");
        }
        for kind in [ErrorKind::PermissionDenied, ErrorKind::InvalidFilename, ErrorKind::IsADirectory] {
            assert!(!files(kind).is_outage(), "{kind}");
        }
        let source = files(ErrorKind::TimedOut);
        assert!(OutputsError::Storage { what: "inputs", source }.is_outage());
        assert!(!OutputsError::MissingInputs { uri: "x".into() }.is_outage());
    }
}
