//! Kills containers that take more memory than their limit.
//!
//! There are no control groups here: the memory of a container's processes is looked at ten times a second, so a
//! container that takes a lot in an instant may pass its limit for that long. Without `/proc` limits do nothing.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::sync::Notify;

use super::process_table;

/// Quick enough that a runaway process does not fill the machine, rare enough to cost nothing.
const EVERY: Duration = Duration::from_millis(100);

/// All containers with a limit.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    watched: Mutex<BTreeMap<i32, Limit>>,
    more: Notify,
}

#[derive(Clone, Debug)]
struct Limit {
    bytes: u64,
    exceeded: Arc<AtomicBool>,
}

/// A container that is looked at while this value lives.
#[derive(Debug)]
pub(crate) struct Watched {
    limits: Arc<Limits>,
    leader: i32,
    exceeded: Arc<AtomicBool>,
}

impl Limits {
    /// Looks at the group of this leader from now on.
    pub(crate) fn watch(self: &Arc<Self>, leader: Pid, bytes: u64) -> Watched {
        let exceeded = Arc::<AtomicBool>::default();
        let leader = leader.as_raw_nonzero().get();
        self.lock().insert(leader, Limit { bytes, exceeded: exceeded.clone() });
        self.more.notify_one();
        Watched { limits: self.clone(), leader, exceeded }
    }

    /// Watches until it is dropped; rests while there is nobody to watch.
    pub(crate) async fn enforce(self: Arc<Self>) {
        loop {
            if self.lock().is_empty() {
                self.more.notified().await;
                continue;
            }
            tokio::time::sleep(EVERY).await;
            let limits = self.lock().clone();
            // It reads some hundred small files.
            let _ = tokio::task::spawn_blocking(move || kill_those_above(&limits)).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<i32, Limit>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn kill_those_above(limits: &BTreeMap<i32, Limit>) {
    let table = process_table::read();
    for (leader, limit) in limits {
        let members = process_table::members(&table, *leader);
        if process_table::memory(&members, limit.bytes) <= limit.bytes {
            continue;
        }
        limit.exceeded.store(true, Ordering::Relaxed);
        if let Some(leader) = Pid::from_raw(*leader) {
            let _ = kill_process_group(leader, Signal::KILL);
        }
        for pid in members.into_iter().filter_map(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

impl Watched {
    /// Whether it was killed for its memory.
    pub(crate) fn was_exceeded(&self) -> bool {
        self.exceeded.load(Ordering::Relaxed)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.limits.lock().remove(&self.leader);
    }
}
