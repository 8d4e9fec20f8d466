//! The events service: checks the events of a `Record` request and hands them to a store.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use aileron_idl::flyteidl2::workflow::{ActionEvent, RecordRequest, RecordResponse};
use aileron_idl::message_to_json;
use axum::body::Bytes;
use jiff::Timestamp;

use crate::connect::{Code, Refusal, decode, encode};

/// Keeps the events that the events service accepts.
pub trait EventStore: Send + 'static {
    /// Stores the events of one request, which arrived at `now`.
    ///
    /// # Errors
    /// The events cannot be stored. The caller sends them again.
    fn store(&mut self, events: Vec<ActionEvent>, now: Timestamp) -> Result<(), Refusal>;
}

/// A file with one event per line, each a JSON object.
#[derive(Debug)]
pub struct EventsFile {
    file: File,
}

impl EventsFile {
    /// Opens the file for appending. The file is created if it does not exist.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { file: OpenOptions::new().create(true).append(true).open(path)? })
    }
}

impl EventStore for EventsFile {
    fn store(&mut self, events: Vec<ActionEvent>, _now: Timestamp) -> Result<(), Refusal> {
        let mut lines = Vec::new();
        for event in &events {
            let event = message_to_json(event).map_err(|error| Code::Internal.with_message(error.to_string()))?;
            lines.extend_from_slice(format!("{event}\n").as_bytes());
        }
        // One write for all events: a reader never sees half of a request.
        self.file.write_all(&lines).map_err(|error| Code::Internal.with_message(error.to_string()))
    }
}

/// Answers a `Record` request. The checks are those of the real service.
pub(crate) fn record(store: &mut impl EventStore, body: &Bytes, now: Timestamp) -> Result<Bytes, Refusal> {
    let request: RecordRequest = decode(body)?;
    if request.events.is_empty() {
        return Err(Code::InvalidArgument.with_message("events: at least one is required"));
    }
    if request.events.iter().any(|event| event.id.is_none() || event.attempt == 0) {
        return Err(Code::InvalidArgument.with_message("every event needs an id and an attempt above 0"));
    }
    store.store(request.events, now)?;
    Ok(encode(&RecordResponse {}))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use aileron_idl::flyteidl2::common::ActionIdentifier;

    use super::*;

    fn request(attempts: &[u32]) -> Bytes {
        let event = |attempt: &u32| ActionEvent {
            id: Some(ActionIdentifier { name: "a".to_owned(), ..ActionIdentifier::default() }),
            attempt: *attempt,
            ..ActionEvent::default()
        };
        encode(&RecordRequest { events: attempts.iter().map(event).collect() })
    }

    #[test]
    fn a_file_of_events_has_one_event_per_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.jsonl");
        for attempts in [&[1, 2][..], &[3]] {
            let mut file = EventsFile::open(&path).unwrap();
            record(&mut file, &request(attempts), Timestamp::UNIX_EPOCH).unwrap();
        }
        let text = std::fs::read_to_string(path).unwrap();
        let attempts: Vec<_> = text
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["attempt"].clone())
            .collect();
        assert_eq!(attempts, [1, 2, 3]);
    }

    #[test]
    fn an_invalid_request_is_refused_and_nothing_of_it_is_stored() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.jsonl");
        let mut file = EventsFile::open(&path).unwrap();
        for attempts in [&[1, 0][..], &[]] {
            let refusal = record(&mut file, &request(attempts), Timestamp::UNIX_EPOCH).unwrap_err();
            assert_eq!(refusal.code, Code::InvalidArgument);
        }
        assert_eq!(std::fs::read_to_string(path).unwrap(), "");
    }
}
