//! Reports objects that cannot be decoded: a log record and a count for each version of each object.

use std::collections::{HashMap, HashSet};

use kube::api::ObjectMeta;

use crate::caches::{Place, place};

/// The malformed objects of one watch that were reported. It has an entry only for malformed objects that exist.
pub(super) struct MalformedReports {
    watch: &'static str,
    /// The reported resource versions.
    reported: HashMap<Place, Option<String>>,
    /// The malformed objects of a list that is not complete yet.
    listed: HashSet<Place>,
}

impl MalformedReports {
    pub(super) fn new(watch: &'static str) -> Self {
        Self { watch, reported: HashMap::new(), listed: HashSet::new() }
    }

    /// Reports a malformed object, unless this version of it was reported before.
    pub(super) fn seen(&mut self, metadata: &ObjectMeta, error: &str, listed: bool) {
        let place = place(metadata);
        if listed {
            self.listed.insert(place.clone());
        }
        let version = metadata.resource_version.clone();
        if self.reported.insert(place.clone(), version.clone()) == Some(version) {
            return;
        }
        metrics::counter!("aileron_malformed_objects_total", "watch" => self.watch).increment(1);
        let (namespace, name) = place;
        tracing::warn!(
            watch = self.watch,
            namespace,
            name,
            error,
            "this object cannot be decoded and is left out; correct or delete it"
        );
    }

    pub(super) fn restarted(&mut self) {
        self.listed.clear();
    }

    pub(super) fn listed(&mut self) {
        let listed = std::mem::take(&mut self.listed);
        self.reported.retain(|place, _| listed.contains(place));
    }

    pub(super) fn gone(&mut self, metadata: &ObjectMeta) {
        // Most watches never see a malformed object.
        if !self.reported.is_empty() {
            self.reported.remove(&place(metadata));
        }
    }
}

#[cfg(test)]
mod tests {
    use metrics_exporter_prometheus::PrometheusBuilder;

    use super::*;

    fn object(name: &str, version: &str) -> ObjectMeta {
        ObjectMeta {
            name: Some(name.into()),
            namespace: Some("ns".into()),
            resource_version: Some(version.into()),
            ..ObjectMeta::default()
        }
    }

    #[test]
    fn each_version_of_an_object_is_counted_once() {
        let recorder = PrometheusBuilder::new().build_recorder();
        metrics::with_local_recorder(&recorder, || {
            let mut reports = MalformedReports::new("pods");
            for (name, version) in [("a", "1"), ("b", "1"), ("a", "1"), ("a", "2"), ("a", "2")] {
                reports.seen(&object(name, version), "e", false);
            }
        });
        let page = recorder.handle().render();
        assert!(page.contains("aileron_malformed_objects_total{watch=\"pods\"} 3"), "{page}");
    }

    #[test]
    fn objects_that_are_gone_or_no_longer_malformed_are_forgotten() {
        let mut reports = MalformedReports::new("pods");
        for name in ["a", "b", "c"] {
            reports.seen(&object(name, "1"), "e", false);
        }
        reports.gone(&object("a", "1"));
        assert_eq!(reports.reported.len(), 2);
        reports.restarted();
        reports.seen(&object("b", "1"), "e", true);
        reports.listed();
        assert_eq!(reports.reported.keys().collect::<Vec<_>>(), [&("ns".to_owned(), "b".to_owned())]);
    }
}
