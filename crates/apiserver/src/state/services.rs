//! URLs of services that webhook configurations name.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// The URL of each service, by namespace and name. This server has no cluster network, so the owner of the server
/// registers the URLs.
#[derive(Debug, Default)]
pub(crate) struct ServiceUrls(Mutex<BTreeMap<(String, String), String>>);

impl ServiceUrls {
    pub(crate) fn set(&self, namespace: &str, name: &str, url: &str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert((namespace.to_owned(), name.to_owned()), url.trim_end_matches('/').to_owned());
    }

    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<String> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }
}
