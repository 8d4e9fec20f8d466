//! One request to the API server, as a value: what it answered, or why there is no answer.

use std::time::Duration;

use aileron_executor::cluster::kube::requests::is_kind_not_served;

use crate::connection;

/// What a request returned.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer<T> {
    /// The API server answered.
    Found(T),
    /// The API server says that the object does not exist.
    Missing,
    /// The API server does not serve the kind.
    NotServed,
    /// The API server does not accept the credentials.
    Unauthenticated(String),
    /// The user may not do this.
    Forbidden(String),
    /// Every other error, also no answer in time.
    Failed(String),
}

impl<T> Answer<T> {
    /// Sends a request and waits for its answer.
    pub async fn of(timeout: Duration, request: impl Future<Output = Result<T, kube::Error>>) -> Self {
        match tokio::time::timeout(timeout, request).await {
            Ok(Ok(value)) => Self::Found(value),
            Ok(Err(error)) => Self::refused(&error),
            Err(_) => Self::Failed(format!("no answer within {} s", timeout.as_secs())),
        }
    }

    fn refused(error: &kube::Error) -> Self {
        let text = connection::error_text(error);
        let kube::Error::Api(status) = error else { return Self::Failed(text) };
        match status.code {
            _ if is_kind_not_served(status) => Self::NotServed,
            401 => Self::Unauthenticated(text),
            403 => Self::Forbidden(text),
            404 => Self::Missing,
            _ => Self::Failed(text),
        }
    }

    /// Changes the value of an answer.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Answer<U> {
        match self {
            Self::Found(value) => Answer::Found(change(value)),
            Self::Missing => Answer::Missing,
            Self::NotServed => Answer::NotServed,
            Self::Unauthenticated(text) => Answer::Unauthenticated(text),
            Self::Forbidden(text) => Answer::Forbidden(text),
            Self::Failed(text) => Answer::Failed(text),
        }
    }

    /// Why there is no value.
    pub fn problem(&self) -> Option<String> {
        match self {
            Self::Found(_) => None,
            Self::Missing => Some("it does not exist".to_owned()),
            Self::NotServed => Some("the API server does not serve the kind".to_owned()),
            Self::Unauthenticated(text) | Self::Forbidden(text) | Self::Failed(text) => Some(text.clone()),
        }
    }
}
