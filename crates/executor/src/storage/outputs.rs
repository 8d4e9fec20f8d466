//! The results of a task in storage: its outputs, or an error document.

use aileron_idl::flyteidl2::core::{ContainerError, ErrorDocument, ExecutionError, LiteralMap};
use aileron_idl::flyteidl2::core::{container_error, execution_error};
use aileron_machinery::error_text::chain;
use prost::Message;

use super::{BlobStore, StorageError};

/// The result of a task that ran to its end.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskResult {
    /// The task succeeded, and its outputs exist if it declares any.
    Succeeded,
    /// The task reported an error.
    Error(Reported),
}

/// The content of an error document.
#[derive(Debug, Clone, PartialEq)]
pub struct Reported {
    /// Whether another attempt may help.
    pub recoverable: bool,
    /// What the task reported.
    pub error: Box<ExecutionError>,
}

/// Why the files of a task could not be read.
#[derive(Debug, thiserror::Error)]
pub enum OutputsError {
    /// The interface declares outputs, but the task wrote none.
    #[error("failed to read data from dataDir [{uri}]. Error: path:{uri}: file does not exist")]
    MissingOutputs {
        /// Where they should be.
        uri: String,
    },
    /// The inputs file does not exist.
    #[error("[READ_FAILED] failed to read data from dataDir [{uri}]., caused by: path:{uri}: file does not exist")]
    MissingInputs {
        /// Where they should be.
        uri: String,
    },
    /// The error document cannot be decoded.
    #[error("failed to read error data from task @[{uri}]: unmarshall: {uri}: {source}")]
    MalformedError {
        /// Where it is.
        uri: String,
        /// What is wrong with it.
        source: prost::DecodeError,
    },
    /// The outputs cannot be decoded.
    #[error("failed to read data from dataDir [{uri}]. Error: unmarshall: {uri}: {source}")]
    MalformedOutputs {
        /// Where they are.
        uri: String,
        /// What is wrong with them.
        source: prost::DecodeError,
    },
    /// Another file cannot be decoded.
    #[error("failed to read {what} at {uri}: not a protobuf message")]
    Malformed {
        /// Which file.
        what: &'static str,
        /// Where it is.
        uri: String,
        /// What is wrong with it.
        #[source]
        source: prost::DecodeError,
    },
    /// The storage failed.
    ///
    /// Users see only this text, so it must contain the reason, such as a size limit and how to raise it.
    #[error("failed to read {what} of the task: {}", chain(.source))]
    Storage {
        /// Which file.
        what: &'static str,
        /// What went wrong.
        #[source]
        source: StorageError,
    },
}

/// Reads the result of a finished task. An error document wins over outputs. Mirrors `RemoteFileOutputReader`.
///
/// # Differs from upstream
/// Nothing is written. Upstream writes the outputs again to the same place, and an error document next to empty outputs,
/// which turns a success that is observed twice into a failure. An empty outputs file means empty outputs. A missing one
/// is an error only if `declares_outputs`. Outputs larger than `maxDownloadMBs` are not read here, and the task succeeds;
/// upstream fails the task.
///
/// # Errors
/// When a file cannot be read, or declared outputs are missing.
pub async fn read_result(
    store: &dyn BlobStore,
    outputs_uri: &str,
    error_uri: &str,
    declares_outputs: bool,
) -> Result<TaskResult, OutputsError> {
    // Almost every task needs both files, so they are read concurrently.
    let (error, outputs) = tokio::join!(read_error(store, error_uri), store.get(outputs_uri));
    if let Some(reported) = error? {
        return Ok(TaskResult::Error(reported));
    }
    let what = "outputs";
    match outputs {
        Ok(Some(bytes)) => LiteralMap::decode(bytes)
            .map(|_| TaskResult::Succeeded)
            .map_err(|source| OutputsError::MalformedOutputs { uri: outputs_uri.to_owned(), source }),
        Ok(None) if declares_outputs => Err(OutputsError::MissingOutputs { uri: outputs_uri.to_owned() }),
        Ok(None) | Err(StorageError::ExceedsLimit { .. }) => Ok(TaskResult::Succeeded),
        Err(source) => Err(OutputsError::Storage { what, source }),
    }
}

/// Reads the error document of a task, if it wrote one. Mirrors `RemoteFileOutputReader.ReadError`.
///
/// # Errors
/// When it cannot be read.
pub async fn read_error(store: &dyn BlobStore, uri: &str) -> Result<Option<Reported>, OutputsError> {
    let what = "error document";
    let bytes = store.get(uri).await.map_err(|source| OutputsError::Storage { what, source })?;
    let Some(bytes) = bytes else { return Ok(None) };
    let document =
        ErrorDocument::decode(bytes).map_err(|source| OutputsError::MalformedError { uri: uri.to_owned(), source })?;
    Ok(Some(from_document(document, uri)))
}

/// Reads the error document of a task that is known to have failed, if the task wrote one. Mirrors how upstream's Ray
/// plugin reads it.
///
/// # Differs from upstream
/// A document above the size limit counts as a document without content; upstream treats it as missing. If the storage
/// fails, the result is an error, so that the document is read again; upstream fails the task permanently.
///
/// # Errors
/// When the storage fails.
pub async fn read_error_document(store: &dyn BlobStore, uri: &str) -> Result<Option<ErrorDocument>, OutputsError> {
    match store.get(uri).await {
        Ok(bytes) => Ok(bytes.map(|bytes| error_document(&bytes))),
        Err(StorageError::ExceedsLimit { .. }) => Ok(Some(ErrorDocument::default())),
        Err(source) => Err(OutputsError::Storage { what: "error document", source }),
    }
}

/// The error document of a task that is known to have failed.
///
/// A document that cannot be decoded is a document without content. The task has failed anyway, the document never
/// changes, and it does not say that another attempt may help.
pub fn error_document(bytes: &[u8]) -> ErrorDocument {
    ErrorDocument::decode(bytes).unwrap_or_default()
}

/// Reads the inputs of a task. Mirrors `RemoteFileInputReader.Get`.
///
/// # Errors
/// When they are missing or cannot be read.
pub async fn read_inputs(store: &dyn BlobStore, uri: &str) -> Result<LiteralMap, OutputsError> {
    read_literals(store, uri, "inputs").await
}

/// Reads the outputs that a cache entry refers to.
///
/// # Errors
/// When they are missing or cannot be read.
pub async fn read_cached(store: &dyn BlobStore, uri: &str) -> Result<LiteralMap, OutputsError> {
    read_literals(store, uri, "cached outputs").await
}

async fn read_literals(store: &dyn BlobStore, uri: &str, what: &'static str) -> Result<LiteralMap, OutputsError> {
    let bytes = store.get(uri).await.map_err(|source| OutputsError::Storage { what, source })?;
    let bytes = bytes.ok_or_else(|| OutputsError::MissingInputs { uri: uri.to_owned() })?;
    LiteralMap::decode(bytes).map_err(|source| OutputsError::Malformed { what, uri: uri.to_owned(), source })
}

/// Stores outputs that did not come from the task itself: those of a cache hit, or of a connector.
///
/// # Errors
/// When the storage fails.
pub async fn write_outputs(store: &dyn BlobStore, uri: &str, outputs: &LiteralMap) -> Result<(), StorageError> {
    store.put(uri, outputs.encode_to_vec().into()).await
}

fn from_document(document: ErrorDocument, uri: &str) -> Reported {
    let Some(ContainerError { code, message, kind, origin, .. }) = document.error else {
        return Reported {
            recoverable: true,
            error: Box::new(ExecutionError {
                code: "ErrorFileBadFormat".to_owned(),
                message: format!("error not formatted correctly, nil error @path [{uri}]"),
                kind: execution_error::ErrorKind::System.into(),
                ..ExecutionError::default()
            }),
        };
    };
    Reported {
        recoverable: kind == i32::from(container_error::Kind::Recoverable),
        error: Box::new(ExecutionError { code, message, kind: origin, recoverability: kind, ..<_>::default() }),
    }
}
