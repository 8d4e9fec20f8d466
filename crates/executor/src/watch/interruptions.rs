//! Log records about interrupted watches: what happened and what helps, and the same text only once in a while.
//!
//! About ten watches lose their connection together when the API server is away, and each of them tries again every few
//! seconds. Without a limit they would write several identical records per second.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use aileron_lease::request_error_text;
use aileron_machinery::error_text::chain;
use aileron_machinery::time::repeats::Repeats;
use kube::core::Status;
use kube::runtime::watcher::Error;

use super::{actions, ended};
use crate::cluster::kube::requests::is_kind_not_served;

/// The same error of any watch is logged at most this often: often enough that the last lines of a log show why nothing
/// happens.
const LOG_INTERVAL: Duration = Duration::from_secs(30);

/// The longest text of an error in a log record, in characters. Some errors of the kube client contain the whole answer of
/// the API server.
const LONGEST_ERROR: usize = 300;

/// The errors of all watches that were logged lately. Clones share them.
#[derive(Clone, Debug)]
pub struct Interruptions(Arc<Mutex<Repeats>>);

impl Default for Interruptions {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Repeats::every(LOG_INTERVAL))))
    }
}

impl Interruptions {
    /// Logs an error of a watch, unless a watch had the same one lately.
    pub(super) fn log(&self, watch: &str, error: &Error, now: Instant) {
        let text = describe(watch, error);
        if let Some(repeated) = self.0.lock().unwrap_or_else(PoisonError::into_inner).seen(&text, now) {
            tracing::warn!(watch, error = text, repeated, "the watch was interrupted and reconnects");
        }
    }
}

/// What happened, on one line, and what helps if the API server refused the request.
fn describe(watch: &str, error: &Error) -> String {
    let (text, status) = match error {
        Error::InitialListFailed(error) | Error::WatchStartFailed(error) | Error::WatchFailed(error) => {
            let status = if let kube::Error::Api(status) = error { Some(status.as_ref()) } else { None };
            (request_error_text(error), status)
        }
        Error::WatchError(status) => (status.message.clone(), Some(status.as_ref())),
        error @ Error::NoResourceVersion => (chain(error), None),
    };
    let text = shorten_line(&text);
    match status.and_then(|status| remedy(watch, status)) {
        Some(remedy) => format!("{text}; {remedy}"),
        None => text,
    }
}

fn remedy(watch: &str, status: &Status) -> Option<&'static str> {
    let of_actions = watch == actions::NAME || watch == ended::NAME;
    if of_actions && is_kind_not_served(status) {
        return Some("the cluster has no definition of TaskAction; install it with `aileron crd | kubectl apply -f -`");
    }
    match status.code {
        401 => Some("the API server does not accept the credentials of this process"),
        403 => Some("grant the permission; `aileron doctor` lists all that are missing"),
        _ => None,
    }
}

/// The text of a failed request: one line, bounded, with its beginning and its end.
pub(super) fn bounded(error: &kube::Error) -> String {
    shorten_line(&request_error_text(error))
}

fn shorten_line(text: &str) -> String {
    let letters: Vec<char> = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    if letters.len() <= LONGEST_ERROR {
        return letters.into_iter().collect();
    }
    let half = LONGEST_ERROR / 2;
    let left_out = letters.len() - 2 * half;
    let (head, tail) = (&letters[..half], &letters[letters.len() - half..]);
    format!("{} … {left_out} characters left out … {}", String::from_iter(head), String::from_iter(tail))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: u16, message: &str, reason: &str) -> Error {
        Error::InitialListFailed(kube::Error::Api(Status::failure(message, reason).with_code(code).boxed()))
    }

    #[test]
    fn a_refusal_names_the_remedy_and_no_rust_types() {
        let forbidden = describe("pods", &refused(403, "pods is forbidden: User \"x\" cannot list", "Forbidden"));
        let expected = "pods is forbidden: User \"x\" cannot list; grant the permission; `aileron doctor` lists all that are missing";
        assert_eq!(forbidden, expected);
        let missing = refused(404, "404 page not found", "Failed to parse error data");
        let text = describe(actions::NAME, &missing);
        assert!(text.contains("no definition of TaskAction; install it with `aileron crd"), "{text}");
        assert_eq!(describe("podtemplates", &missing), "404 page not found");
        assert!(!text.contains("Failed to parse") && !text.contains("Status {"), "{text}");
    }

    #[test]
    fn the_same_error_of_many_watches_is_logged_once_in_a_while() {
        let (interruptions, start) = (Interruptions::default(), Instant::now());
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let text = describe("pods", &Error::WatchStartFailed(kube::Error::Service(refused.into())));
        let mut repeats = interruptions.0.lock().unwrap_or_else(PoisonError::into_inner);
        let logged = (0..600).filter(|tenth| repeats.seen(&text, start + Duration::from_millis(tenth * 100)).is_some());
        assert_eq!(logged.count(), 2, "in a minute with ten errors per second");
    }

    #[test]
    fn an_error_is_one_bounded_line() {
        let body = format!("begin {}\nend", "{\"items\": [1]}".repeat(100_000));
        let text = shorten_line(&body);
        assert!(text.chars().count() < LONGEST_ERROR + 60 && !text.contains('\n'), "{text}");
        assert!(text.starts_with("begin ") && text.ends_with(" end") && text.contains("characters left out"));
        assert_eq!(shorten_line("short"), "short");
    }
}
