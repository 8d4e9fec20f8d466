//! The changes of actions, from watches of the API server.

use std::collections::BTreeSet;

use aileron_action::TaskAction;
use aileron_machinery::error_text::chain;
use anyhow::anyhow;
use futures::stream::{BoxStream, StreamExt, select_all};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt};

use super::tracked::Key;

/// Which actions are watched.
#[derive(Clone, Debug)]
pub struct Scope {
    /// One namespace, or all if `None`.
    pub namespace: Option<String>,
    /// Only actions with these labels.
    pub selector: Option<String>,
}

/// A change of an action, or of the watch.
pub enum Change {
    /// An action exists, or has changed.
    Updated(Box<TaskAction>),
    /// An action was deleted.
    Deleted(Key),
    /// These actions exist in the scope, and no others.
    Listed { namespace: Option<String>, keys: BTreeSet<Key> },
    /// The watch failed. It recovers by itself unless the failure is permanent.
    Failed { error: anyhow::Error, permanent: bool },
}

/// All changes in these scopes, beginning with the actions that exist now.
pub fn watch(client: &Client, scopes: Vec<Scope>) -> BoxStream<'static, Change> {
    select_all(scopes.into_iter().map(|scope| watch_scope(client, scope))).boxed()
}

fn watch_scope(client: &Client, Scope { namespace, selector }: Scope) -> BoxStream<'static, Change> {
    let actions: Api<TaskAction> = match &namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let config = watcher::Config { label_selector: selector, ..watcher::Config::default() };
    let mut listed = BTreeSet::new();
    let changes = watcher(actions, config).default_backoff().filter_map(move |event| {
        let change = match event {
            Ok(Event::Init) => {
                listed.clear();
                None
            }
            Ok(Event::InitApply(action)) => {
                listed.insert(key(&action));
                Some(Change::Updated(Box::new(action)))
            }
            Ok(Event::InitDone) => {
                Some(Change::Listed { namespace: namespace.clone(), keys: std::mem::take(&mut listed) })
            }
            Ok(Event::Apply(action)) => Some(Change::Updated(Box::new(action))),
            Ok(Event::Delete(action)) => Some(Change::Deleted(key(&action))),
            Err(error) => Some(failed(&error)),
        };
        std::future::ready(change)
    });
    changes.boxed()
}

fn failed(error: &watcher::Error) -> Change {
    let code = match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => status.code,
        _ => 0,
    };
    // Missing permissions and a missing TaskAction definition do not change while a person waits.
    Change::Failed { permanent: (400..=404).contains(&code), error: anyhow!("cannot watch actions: {}", chain(error)) }
}

fn key(action: &TaskAction) -> Key {
    (action.namespace().unwrap_or_default(), action.name_any())
}
