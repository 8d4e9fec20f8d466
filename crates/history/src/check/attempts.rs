//! How attempts and failures are counted.

use super::{Facts, status, text};

pub(super) fn rise(facts: &Facts<'_>) -> Vec<String> {
    let mut wrong = Vec::new();
    for (_, versions) in facts.actions() {
        let mut before = 0;
        for version in versions {
            let attempts = status(&version.object).attempts;
            if attempts < before || attempts > before.max(1) + 1 {
                let name = text(&version.object, "/metadata/name");
                wrong.push(format!("{name}: {before} to {attempts} at revision {}", version.revision));
            }
            before = attempts;
        }
    }
    wrong
}

/// Objects of a simulation never fail by themselves, so a charge comes from a fault. Failed requests to the API server are
/// charged as upstream does; no other fault is.
pub(super) fn not_charged(facts: &Facts<'_>) -> Vec<String> {
    if facts.evidence.api_faults {
        return Vec::new();
    }
    let mut wrong = Vec::new();
    for (_, versions) in facts.actions() {
        let Some(first) = versions.first() else { continue };
        let (namespace, name) = (text(&first.object, "/metadata/namespace"), text(&first.object, "/metadata/name"));
        let most = versions.iter().map(|version| status(&version.object).system_failures).max().unwrap_or_default();
        if most > 0 && !facts.is_disturbed(namespace, name) {
            wrong.push(format!("{namespace}/{name} was charged {most} times"));
        }
    }
    wrong
}
