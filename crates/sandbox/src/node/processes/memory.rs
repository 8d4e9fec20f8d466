//! Kills containers that use more memory than their limit.
//!
//! The node does not use control groups. It measures the processes of each container ten times per second, so a
//! container may exceed its limit for a tenth of a second. Without `/proc` memory limits have no effect.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::sync::Notify;

use super::process_table;

/// Time between two measurements: short enough that a process cannot fill the memory of the machine meanwhile, long
/// enough to cost almost nothing.
const INTERVAL: Duration = Duration::from_millis(100);

/// All running containers with a memory limit.
#[derive(Debug, Default)]
pub(crate) struct MemoryLimits {
    /// Limits by the process id of the group leader.
    limits: Mutex<BTreeMap<i32, Limit>>,
    /// Notified when a limit is added.
    added: Notify,
}

#[derive(Clone, Debug)]
struct Limit {
    bytes: u64,
    exceeded: Arc<AtomicBool>,
}

/// The limit of one container. It is enforced while this value lives.
#[derive(Debug)]
pub(crate) struct EnforcedLimit {
    all: Arc<MemoryLimits>,
    leader: i32,
    exceeded: Arc<AtomicBool>,
}

impl MemoryLimits {
    /// Limits the memory of the process group with this leader.
    pub(crate) fn add(self: &Arc<Self>, leader: Pid, bytes: u64) -> EnforcedLimit {
        let exceeded = Arc::<AtomicBool>::default();
        let leader = leader.as_raw_nonzero().get();
        self.lock().insert(leader, Limit { bytes, exceeded: exceeded.clone() });
        self.added.notify_one();
        EnforcedLimit { all: self.clone(), leader, exceeded }
    }

    /// Enforces the limits until the future is dropped. Sleeps while there are no limits.
    pub(crate) async fn enforce(self: Arc<Self>) {
        loop {
            if self.lock().is_empty() {
                self.added.notified().await;
                continue;
            }
            tokio::time::sleep(INTERVAL).await;
            let limits = self.lock().clone();
            // Reads hundreds of small files, which blocks.
            let _ = tokio::task::spawn_blocking(move || kill_above_limit(&limits)).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<i32, Limit>> {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn kill_above_limit(limits: &BTreeMap<i32, Limit>) {
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

impl EnforcedLimit {
    /// Whether the container was killed because of its memory.
    pub(crate) fn was_exceeded(&self) -> bool {
        self.exceeded.load(Ordering::Relaxed)
    }
}

impl Drop for EnforcedLimit {
    fn drop(&mut self) {
        self.all.lock().remove(&self.leader);
    }
}
