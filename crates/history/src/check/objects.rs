//! The objects that executors create.

use std::collections::{BTreeMap, BTreeSet};

use super::{Change, Facts, Owner, Version, has_ended, is_deleting, text};
use crate::history::What;

/// From which revision to which revision an object was at work.
fn at_work(facts: &Facts<'_>, versions: &[Version]) -> Option<(u64, u64)> {
    let begin = versions.first()?.revision;
    let ended = |version: &&Version| {
        version.change == Change::Deleted || is_deleting(&version.object) || facts.work_ended(&version.object)
    };
    Some((begin, versions.iter().find(ended).map_or(u64::MAX, |version| version.revision)))
}

pub(super) fn one_at_work(facts: &Facts<'_>) -> Vec<String> {
    let mut spans: BTreeMap<String, Vec<(u64, u64, Owner)>> = BTreeMap::new();
    for (owner, versions) in facts.work() {
        if let Some((begin, end)) = at_work(facts, versions) {
            spans.entry(owner.uid.clone()).or_default().push((begin, end, owner));
        }
    }
    let mut wrong = Vec::new();
    for spans in spans.values_mut() {
        spans.sort();
        for pair in spans.windows(2) {
            if pair[1].0 < pair[0].1 {
                wrong.push(format!("{} and {} at revision {}", pair[0].2, pair[1].2, pair[1].0));
            }
        }
    }
    wrong
}

pub(super) fn not_again(facts: &Facts<'_>) -> Vec<String> {
    let mut wrong = Vec::new();
    let work: Vec<_> = facts.work().collect();
    for (owner, versions) in &work {
        if facts.is_disturbed(&owner.namespace, &owner.name) {
            continue;
        }
        let ended = versions.iter().find(|version| facts.work_ended(&version.object));
        let Some(ended) = ended else { continue };
        let again = work.iter().find(|(other, versions)| {
            other.uid == owner.uid
                && other.attempt == owner.attempt
                && versions.first().is_some_and(|first| first.revision > ended.revision)
        });
        if again.is_some() {
            wrong.push(format!("{owner} ended at revision {} and was started again", ended.revision));
        }
    }
    wrong
}

pub(super) fn no_orphans(facts: &Facts<'_>) -> Vec<String> {
    if !facts.evidence.settled {
        return Vec::new();
    }
    let end = &facts.evidence.end;
    let mut wrong = Vec::new();
    for (resource, object) in &end.work {
        let Some(owner) = Owner::of(object) else { continue };
        let action = end.actions.iter().find(|action| text(action, "/metadata/uid") == owner.uid);
        let problem = match action {
            None => Some("its action does not exist"),
            Some(action) if has_ended(action) && !facts.work_ended(object) => {
                Some("it is at work though its action ended")
            }
            Some(_) if is_deleting(object) => Some("its deletion does not end"),
            Some(_) => None,
        };
        if let Some(problem) = problem {
            wrong.push(format!("{resource} {}: {problem}", text(object, "/metadata/name")));
        }
    }
    for lease in &end.leases {
        if lease.pointer("/metadata/labels/flyte.org~1pool").is_some() {
            wrong.push(format!("token {} was not returned", text(lease, "/metadata/name")));
        }
    }
    wrong
}

pub(super) fn foreign(facts: &Facts<'_>) -> Vec<String> {
    let foreign = facts.evidence.traces.foreign();
    let touched = facts.entries.iter().filter(|entry| match &entry.what {
        What::Answered { who, code, uid: Some(uid), .. } => {
            who.starts_with("executor") && *code < 300 && foreign.contains(uid)
        }
        _ => false,
    });
    touched.map(ToString::to_string).collect()
}

/// Where the limit of the pool changed, the largest one counts: holders may keep their tokens when a pool becomes smaller.
pub(super) fn tokens(facts: &Facts<'_>) -> Vec<String> {
    let licensed = |owner: &Owner| {
        facts.planned(&owner.namespace, &owner.name).is_some_and(|planned| planned.task_type == "licensed")
    };
    let mut spans: Vec<_> = facts
        .work()
        .filter(|(owner, _)| licensed(owner))
        .filter_map(|(owner, versions)| at_work(facts, versions).map(|(begin, end)| (begin, end, owner)))
        .collect();
    spans.sort();
    let mut wrong = Vec::new();
    for (begin, _, owner) in &spans {
        let holders: BTreeSet<_> =
            spans.iter().filter(|(from, to, _)| from <= begin && begin < to).map(|(_, _, owner)| &owner.uid).collect();
        if holders.len() > facts.evidence.pool_limit {
            wrong.push(format!("{} tasks hold a token when {owner} starts", holders.len()));
        }
    }
    wrong
}
