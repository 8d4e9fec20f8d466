//! The sixteen kinds of failure that Connect and gRPC share.

use std::fmt;

/// The kind of failure of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// The caller cancelled the call.
    Canceled,
    /// The kind of failure is not known.
    Unknown,
    /// The request can never be accepted.
    InvalidArgument,
    /// The call timed out. It may have taken effect.
    DeadlineExceeded,
    /// The requested thing does not exist.
    NotFound,
    /// The thing to be created already exists.
    AlreadyExists,
    /// The caller may not do this.
    PermissionDenied,
    /// A quota, or the size of a message, is exhausted.
    ResourceExhausted,
    /// The system is not in the state the call needs.
    FailedPrecondition,
    /// A conflict with another call. A retry may succeed.
    Aborted,
    /// A value is outside the valid range.
    OutOfRange,
    /// The service does not have this procedure.
    Unimplemented,
    /// The service has an internal error.
    Internal,
    /// The service cannot be reached now.
    Unavailable,
    /// Data is lost or damaged.
    DataLoss,
    /// The request has no valid credentials.
    Unauthenticated,
}

impl Code {
    /// All codes, in the order of their gRPC numbers.
    pub const ALL: [Self; 16] = [
        Self::Canceled,
        Self::Unknown,
        Self::InvalidArgument,
        Self::DeadlineExceeded,
        Self::NotFound,
        Self::AlreadyExists,
        Self::PermissionDenied,
        Self::ResourceExhausted,
        Self::FailedPrecondition,
        Self::Aborted,
        Self::OutOfRange,
        Self::Unimplemented,
        Self::Internal,
        Self::Unavailable,
        Self::DataLoss,
        Self::Unauthenticated,
    ];

    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Canceled => "canceled",
            Self::Unknown => "unknown",
            Self::InvalidArgument => "invalid_argument",
            Self::DeadlineExceeded => "deadline_exceeded",
            Self::NotFound => "not_found",
            Self::AlreadyExists => "already_exists",
            Self::PermissionDenied => "permission_denied",
            Self::ResourceExhausted => "resource_exhausted",
            Self::FailedPrecondition => "failed_precondition",
            Self::Aborted => "aborted",
            Self::OutOfRange => "out_of_range",
            Self::Unimplemented => "unimplemented",
            Self::Internal => "internal",
            Self::Unavailable => "unavailable",
            Self::DataLoss => "data_loss",
            Self::Unauthenticated => "unauthenticated",
        }
    }

    /// The code with this name on the wire.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.name() == name)
    }

    /// The code for an HTTP status that came without a Connect error, after the table in the protocol's reference.
    pub fn from_http(status: u16) -> Self {
        match status {
            400 => Self::Internal,
            401 => Self::Unauthenticated,
            403 => Self::PermissionDenied,
            404 => Self::Unimplemented,
            // Not in that table: a proxy in front of the service bounds the size of requests.
            413 => Self::ResourceExhausted,
            429 | 502 | 503 | 504 => Self::Unavailable,
            _ => Self::Unknown,
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
