//! The text of a failed request to the API server.

use aileron_machinery::error_text::chain;

/// A failed request, told in plain words.
#[derive(Debug, thiserror::Error)]
#[error("{}", request_error_text(.0))]
pub struct RequestError(pub kube::Error);

/// The text of a failed request. kube's own text names Rust types, and has the answer of the API server a second time as Rust
/// prints values for debugging.
#[must_use]
pub fn request_error_text(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        kube::Error::Api(status) => format!("HTTP status {} {}", status.code, status.reason).trim_end().to_owned(),
        kube::Error::Service(error) => chain(error.as_ref()),
        kube::Error::HyperError(error) => chain(error),
        error => chain(error),
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn a_refusal_is_told_in_the_words_of_the_api_server() {
        let refused = |message: &str| kube::Error::Api(Status::failure(message, "Forbidden").with_code(403).boxed());
        assert_eq!(request_error_text(&refused("pods is forbidden")), "pods is forbidden");
        assert_eq!(request_error_text(&refused("")), "HTTP status 403 Forbidden");
    }

    #[test]
    fn a_failed_connection_is_told_with_its_causes() {
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        assert_eq!(request_error_text(&kube::Error::Service(refused.into())), "connection refused");
    }
}
