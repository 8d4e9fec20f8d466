//! Detects changes that a watch missed.
//!
//! If a watch misses a change, the cache stays wrong until the object changes again. So from time to time the metadata of
//! all objects is listed, and the resource versions are compared with those in the watch cache. This takes one request for
//! a few hundred objects.

use std::collections::HashMap;
use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

use kube::Resource;
use kube::api::{Api, ListParams};
use serde::de::DeserializeOwned;

use super::PAGE;
use crate::caches::{Place, VISIBLE_WITHIN, Versions, placed_version};
use crate::cluster::listed::list_metadata;

/// How often the versions are compared. As often as the safety round of an action, which also finds missed changes.
const INTERVAL: Duration = Duration::from_secs(600);

/// Returns when the watch has missed a change, and counts it. While the cache is empty nothing is compared: an object that
/// the executor created and that does not become visible is found by its round.
pub(super) async fn until_missed<K>(
    name: &'static str,
    api: &Api<K>,
    selector: &str,
    shown: impl Fn() -> Versions + Send,
) where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    until_behind(|| list(api, selector), shown).await;
    metrics::counter!("aileron_safety_finds_total").increment(1);
    tracing::warn!(
        watch = name,
        "the watch missed a change, found by comparing resource versions; listing all objects again"
    );
}

/// Compares until the watch cache stays behind the API server.
async fn until_behind<F>(list: impl Fn() -> F, shown: impl Fn() -> Versions)
where
    F: Future<Output = Result<Versions, kube::Error>>,
{
    loop {
        tokio::time::sleep(INTERVAL).await;
        if shown().is_empty() {
            continue;
        }
        // If the API server does not answer, the watch may be interrupted too. The next comparison will show it.
        let Ok(listed) = list().await else { continue };
        let suspects = behind(&listed, &shown());
        if suspects.is_empty() {
            continue;
        }
        tokio::time::sleep(VISIBLE_WITHIN).await;
        let Ok(listed) = list().await else { continue };
        let shown = shown();
        if suspects.into_iter().any(|(place, version)| is_still_behind(&place, version, &listed, &shown)) {
            return;
        }
    }
}

/// The objects whose state in the watch cache is old, with their current version; `None` for an object that is gone.
pub(super) fn behind(listed: &Versions, shown: &Versions) -> HashMap<Place, Option<u64>> {
    let older = listed.iter().filter(|(place, version)| shown.get(*place).is_none_or(|shown| shown < *version));
    let older = older.map(|(place, version)| (place.clone(), Some(*version)));
    let gone = shown.keys().filter(|place| !listed.contains_key(*place)).map(|place| (place.clone(), None));
    older.chain(gone).collect()
}

pub(super) fn is_still_behind(place: &Place, version: Option<u64>, listed: &Versions, shown: &Versions) -> bool {
    match (version, listed.get(place), shown.get(place)) {
        (Some(version), Some(_), shown) => shown.is_none_or(|shown| *shown < version),
        // The object was deleted meanwhile, and the watch may show that soon.
        (Some(_), None, _) => false,
        (None, listed, shown) => listed.is_none() && shown.is_some(),
    }
}

/// The resource versions of all objects with these labels.
pub(super) async fn list<K>(api: &Api<K>, selector: &str) -> Result<Versions, kube::Error>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let mut parameters = ListParams::default().labels(selector).limit(PAGE);
    let mut versions = Versions::new();
    loop {
        let page = list_metadata(api, &parameters).await?;
        versions.extend(page.items.iter().map(|object| placed_version(object.meta())));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters = parameters.continue_token(&token),
            None => return Ok(versions),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};

    use super::*;

    fn versions(pairs: &[(&str, u64)]) -> Versions {
        pairs.iter().map(|(name, version)| (("ns".to_owned(), (*name).to_owned()), *version)).collect()
    }

    /// How many list requests are sent until a missed change is found; `None` if none is found in an hour.
    async fn asked(lists: &[&[(&str, u64)]], shown: &[&[(&str, u64)]]) -> Option<usize> {
        let count = Mutex::new(0);
        let at = |of: &[&[(&str, u64)]]| {
            let count = *count.lock().unwrap_or_else(PoisonError::into_inner);
            versions(of[count.min(of.len() - 1)])
        };
        let list = || {
            let listed = at(lists);
            *count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
            std::future::ready(Ok(listed))
        };
        let until = until_behind(list, || at(shown));
        let found = tokio::time::timeout(Duration::from_secs(3600), until).await.is_ok();
        found.then(|| *count.lock().unwrap_or_else(PoisonError::into_inner))
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_that_is_never_shown_is_found() {
        let (old, new): (&[_], &[_]) = (&[("a", 5), ("b", 7)], &[("a", 9), ("b", 7)]);
        assert_eq!(asked(&[old], &[old]).await, None);
        assert_eq!(asked(&[new], &[old]).await, Some(2), "a change");
        assert_eq!(asked(&[old, new], &[old]).await, Some(3), "a change after the first look");
        assert_eq!(asked(&[&[("b", 7)]], &[old]).await, Some(2), "a deletion");
        assert_eq!(asked(&[old], &[&[("b", 7)]]).await, Some(2), "a new object");
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_is_only_late_has_missed_nothing() {
        let (old, new, newest): (&[_], &[_], &[_]) = (&[("a", 5)], &[("a", 9)], &[("a", 12)]);
        assert_eq!(asked(&[new], &[old, old, new]).await, None);
        assert_eq!(
            asked(&[new, newest], &[old, old, new, newest]).await,
            None,
            "and something else happened meanwhile"
        );
        assert_eq!(asked(&[&[]], &[old, old, &[]]).await, None, "a deletion");
        assert_eq!(asked(&[&[("a", 5), ("b", 7)], old], &[old]).await, None, "created and deleted within moments");
        assert_eq!(asked(&[old], &[new]).await, None, "the watch is ahead of a list from a cache");
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_asked_while_nothing_can_be_missed() {
        let asked = Mutex::new(0);
        let list = || {
            *asked.lock().unwrap_or_else(PoisonError::into_inner) += 1;
            std::future::ready(Ok(versions(&[("a", 5)])))
        };
        let until = until_behind(list, Versions::new);
        assert!(tokio::time::timeout(Duration::from_secs(86_400), until).await.is_err());
        assert_eq!(*asked.lock().unwrap_or_else(PoisonError::into_inner), 0);
    }
}
