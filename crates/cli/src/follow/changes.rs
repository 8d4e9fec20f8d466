//! What a watch says about actions.

use std::collections::BTreeSet;

use aileron_action::TaskAction;
use aileron_machinery::error_text::chain;
use anyhow::anyhow;
use futures::stream::{BoxStream, StreamExt, select_all};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt};

use super::board::Key;

/// Which actions are watched.
#[derive(Clone, Debug)]
pub struct Scope {
    /// One namespace, or all.
    pub namespace: Option<String>,
    /// Only those with these labels.
    pub selector: Option<String>,
}

/// What happened.
pub enum Change {
    /// An action is there, or is different.
    Seen(Box<TaskAction>),
    /// An action is gone.
    Gone(Key),
    /// These are there and no others.
    Listed { namespace: Option<String>, keys: BTreeSet<Key> },
    /// The watch broke; it mends itself unless it is broken for good.
    Broken { error: anyhow::Error, for_good: bool },
}

/// All changes in these scopes, from what is there now.
pub fn watch(client: &Client, scopes: Vec<Scope>) -> BoxStream<'static, Change> {
    select_all(scopes.into_iter().map(|scope| one(client, scope))).boxed()
}

fn one(client: &Client, Scope { namespace, selector }: Scope) -> BoxStream<'static, Change> {
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
                Some(Change::Seen(Box::new(action)))
            }
            Ok(Event::InitDone) => {
                Some(Change::Listed { namespace: namespace.clone(), keys: std::mem::take(&mut listed) })
            }
            Ok(Event::Apply(action)) => Some(Change::Seen(Box::new(action))),
            Ok(Event::Delete(action)) => Some(Change::Gone(key(&action))),
            Err(error) => Some(broken(&error)),
        };
        std::future::ready(change)
    });
    changes.boxed()
}

fn broken(error: &watcher::Error) -> Change {
    let code = match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => status.code,
        _ => 0,
    };
    // Nobody will be let in later who is refused now, and a kind that is not there does not come while one looks.
    Change::Broken { for_good: (400..=404).contains(&code), error: anyhow!("cannot watch actions: {}", chain(error)) }
}

fn key(action: &TaskAction) -> Key {
    (action.namespace().unwrap_or_default(), action.name_any())
}
