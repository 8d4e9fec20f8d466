//! Turns requests and events with their times into entries of the history.

use std::sync::Arc;

use aileron_history::history::{ActionEvent, Entry, RequestLine, What};
use aileron_lease::LEASE_NAME;
use jiff::Timestamp;

use super::changes::Changes;
use super::leadership::{InTransit, Life, Lives};
use super::since;
use crate::cluster::{AuditRecord, TimedRequest, User};
use crate::events_stub::Recorded;

/// What is needed to judge requests and events.
pub(super) struct Examination<'a> {
    pub began: Timestamp,
    pub changes: &'a Changes,
    pub lives: &'a Lives,
}

/// Writes are examined, except on the leader lease: every executor may try to take it.
pub(super) fn is_examined(request: &TimedRequest) -> bool {
    let AuditRecord { resource, name, .. } = &request.record;
    verb(&request.record.verb).is_some() && !(resource == "leases" && name == LEASE_NAME)
}

fn verb(verb: &str) -> Option<&'static str> {
    match verb {
        "create" => Some("create"),
        "update" => Some("update"),
        "patch" => Some("patch"),
        "delete" | "deletecollection" => Some("delete"),
        _ => None,
    }
}

impl Examination<'_> {
    /// The request when it was received, and its answer.
    pub fn request(&self, request: &TimedRequest, in_transit: &mut InTransit) -> Vec<Entry> {
        let TimedRequest { user, received, completed, record } = request;
        let Some(verb) = verb(&record.verb) else { return Vec::new() };
        let resource = match record.subresource.as_str() {
            "" => record.resource.clone(),
            subresource => format!("{}/{subresource}", record.resource),
        };
        let line = RequestLine { verb, resource, namespace: record.namespace.clone(), name: record.name.clone() };
        let senders: Vec<&Life> = self.lives.senders(*user, *received).collect();
        let leader = senders.iter().find(|life| self.changes.leases.leads(&life.name, *received));
        let sender = leader.or_else(|| senders.first());
        let leads = match sender {
            None => true, // an executor inside this process, without a name
            Some(life) => leader.is_some() || in_transit.excuses(life, *received),
        };
        let name = sender.map_or_else(|| unnamed(*user), |life| life.name.clone());
        let process: Arc<str> = format!("executor {name}").into();
        let uid = self.changes.uid(&record.resource, &record.namespace, &record.name);
        let sent = What::Sent { process: Arc::clone(&process), request: line.clone(), leads };
        let answered = What::Answered { who: process, request: line, code: record.code, uid, version: None };
        vec![self.entry(*received, sent), self.entry(*completed, answered)]
    }

    /// An event when it was stored. Whether its sender led is judged when it arrived.
    pub fn event(&self, recorded: &Recorded, in_transit: &mut InTransit) -> Entry {
        let id = recorded.event.id.clone().unwrap_or_default();
        let event = ActionEvent {
            run: id.run.unwrap_or_default().name,
            action: id.name,
            attempt: recorded.event.attempt,
            phase: recorded.event.phase,
        };
        let leads = recorded.sender.as_deref().is_none_or(|sender| {
            self.changes.leases.leads(sender, recorded.arrived)
                || self.lives.named(sender).is_some_and(|life| in_transit.excuses(life, recorded.arrived))
        });
        let name = recorded.sender.as_deref().unwrap_or("without a name");
        self.entry(recorded.at, What::Event { process: format!("executor {name}").into(), event, leads })
    }

    fn entry(&self, at: Timestamp, what: What) -> Entry {
        Entry { at: since(self.began, at), revision: self.changes.revision_at(at), what }
    }
}

fn unnamed(user: User) -> String {
    format!("of {user:?}")
}
