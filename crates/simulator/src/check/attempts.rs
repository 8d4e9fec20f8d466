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

/// Nothing in a simulation fails through the fault of an object: pods are not evicted. So what fails is the platform.
pub(super) fn not_charged(facts: &Facts<'_>) -> Vec<String> {
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
