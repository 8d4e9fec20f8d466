//! The plugin state of an action as Go's `encoding/gob` stores it in `status.pluginState`.
//!
//! Executors written in Go and this one must be exchangeable while tasks run, so the bytes written here are the ones
//! Go writes, and the reader follows the type descriptors a stream carries instead of trusting fixed offsets.

mod decode;
mod encode;
mod reader;
#[cfg(test)]
mod tests;
mod wire;

use jiff::Timestamp;

pub use decode::decode;
pub use encode::encode;

/// How far the plugin manager got with the resource of an action. Mirrors `k8s.PluginPhase`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum ManagerPhase {
    /// The resource was not created yet.
    #[default]
    NotStarted,
    /// The resource was created and is observed from now on.
    Started,
}

/// What a Kubernetes plugin said in the round before. Mirrors `k8s.PluginState`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct K8sPluginState {
    /// Number of the plugin phase, as in `pluginmachinery/core.Phase`.
    pub phase: i8,
    /// Version of the phase: raised when something other than the phase changed.
    pub phase_version: u32,
    /// Free text that came with the phase.
    pub reason: String,
}

/// The state the plugin manager keeps between two rounds. Mirrors `k8s.PluginManager`'s `PluginState`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct PluginState {
    /// How far the manager got.
    pub phase: ManagerPhase,
    /// The plugin's part.
    pub k8s: K8sPluginState,
    /// Creation time of the newest Kubernetes event already reported.
    pub last_event_update: Option<Timestamp>,
    /// Time at which that event was seen.
    pub last_event_recorded_at: Option<Timestamp>,
}

/// Why stored plugin state could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GobError {
    /// The stream ended inside a value.
    #[error("plugin state ends at byte {at} in the middle of a value")]
    Truncated {
        /// Offset at which more bytes were expected.
        at: usize,
    },
    /// A length or count is larger than the bytes that follow it.
    #[error("plugin state announces {announced} bytes or elements at byte {at}, but only {left} bytes follow")]
    TooLong {
        /// Offset of the announcement.
        at: usize,
        /// The announced amount.
        announced: u64,
        /// Bytes left.
        left: usize,
    },
    /// An integer is written in a form that the format does not have.
    #[error("plugin state has a malformed integer at byte {at}")]
    BadInteger {
        /// Offset of the integer.
        at: usize,
    },
    /// A number does not fit the field it is meant for.
    #[error("plugin state field {field} holds {value}, which is out of range")]
    OutOfRange {
        /// Name of the field.
        field: &'static str,
        /// The number as text.
        value: String,
    },
    /// The stream refers to a type that it never described.
    #[error("plugin state uses type {0} without describing it")]
    UnknownType(i64),
    /// The stream describes a type twice, or with a description that has no kind.
    #[error("plugin state describes type {0} wrongly")]
    BadTypeDescription(i64),
    /// A field has another type than the one stored by the plugin manager.
    #[error("plugin state field {field} has wire type {found}, expected {expected}")]
    TypeMismatch {
        /// Name of the field.
        field: &'static str,
        /// What the field should hold.
        expected: &'static str,
        /// The type number in the stream.
        found: i64,
    },
    /// Field numbers run past the last field of a struct.
    #[error("plugin state names field number {index} of type {type_id}, which has only {fields} fields")]
    NoSuchField {
        /// The type number in the stream.
        type_id: i64,
        /// The field index asked for.
        index: u64,
        /// How many fields the type has.
        fields: usize,
    },
    /// Types are nested deeper than any real state.
    #[error("plugin state nests types deeper than {0} levels")]
    TooDeep(usize),
    /// A time is not in Go's binary form, or names an impossible instant.
    #[error("plugin state field {field} holds an unreadable time: {detail}")]
    BadTime {
        /// Name of the field.
        field: &'static str,
        /// What is wrong with it.
        detail: &'static str,
    },
    /// A string is not UTF-8.
    #[error("plugin state field {0} is not valid UTF-8")]
    NotUtf8(&'static str),
    /// The stream uses a construct that no plugin state has.
    #[error("plugin state contains {0}, which cannot be skipped")]
    Unsupported(&'static str),
    /// No value follows the type descriptions.
    #[error("plugin state describes types but holds no value")]
    NoValue,
}
