//! Why a message could not be read or written.

use serde_json::Value;

use crate::path::Path;

/// Longest piece of a rejected value that an error repeats; enough to recognise it, too short to flood a status.
const SHOWN_LENGTH: usize = 80;

/// Why a message could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// The message has no descriptor.
    #[error("message {name} has no descriptor; compile its .proto file into the descriptor set that is used")]
    UnknownMessage {
        /// Full protobuf name.
        name: String,
    },
    /// A value has the wrong JSON type or is out of range.
    #[error("{path}: expected {expected}, found {found}")]
    Mismatch {
        /// Where, starting with the name of the message.
        path: String,
        /// What the field takes.
        expected: String,
        /// What was there, shortened.
        found: String,
    },
    /// An enum value nobody declared.
    #[error("{path}: {value} is not a value of {enumeration}; use one of {known}")]
    UnknownEnumValue {
        /// Where, starting with the name of the message.
        path: String,
        /// What was there.
        value: String,
        /// Full name of the enum.
        enumeration: String,
        /// The names it has.
        known: String,
    },
    /// Two fields of the same oneof.
    #[error("{path}: set together with another field of `{oneof}`; keep only one of them")]
    SecondOfOneof {
        /// The later field.
        path: String,
        /// Name of the oneof.
        oneof: String,
    },
    /// JSON cannot hold the number.
    #[error("{path}: {value} cannot be written in JSON; use a finite number")]
    NotFinite {
        /// Where, starting with the name of the message.
        path: String,
        /// The number.
        value: f64,
    },
    /// The message holds something that has no JSON form, such as a duration out of range.
    #[error("{message} has no JSON form; correct the value it names")]
    Unwritable {
        /// Full name of the message.
        message: String,
        /// What exactly.
        #[source]
        source: serde_json::Error,
    },
    /// The bytes between two forms of the message could not be read, for example because it nests too deeply.
    #[error("{message} cannot be converted; make it nest less deeply")]
    Transcode {
        /// Full name of the message.
        message: String,
        /// What exactly.
        #[source]
        source: prost::DecodeError,
    },
}

impl JsonError {
    pub(crate) fn mismatch(path: &Path<'_>, expected: impl Into<String>, found: &Value) -> Self {
        Self::Mismatch { path: path.to_string(), expected: expected.into(), found: shortened(found) }
    }
}

/// The beginning of a value, for messages.
pub(crate) fn shortened(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(SHOWN_LENGTH) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
