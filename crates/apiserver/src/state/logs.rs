//! Logs of pods: kept per container while the pod exists.
//!
//! The API server does not know nodes. A kubelet appends the lines, and `pods/log` reads them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tokio::sync::Notify;

/// Upper bound of the memory for the log of one container; the oldest lines are dropped first. A kubelet keeps as much
/// in a file.
const MAX_BYTES: usize = 10 * 1024 * 1024;
/// Memory of a line besides its text: the entry in the list and, at most, as much for a list that has just doubled its
/// space. Without it, a container that writes only empty lines would use memory without limit.
const LINE_OVERHEAD: usize = 2 * size_of::<LogLine>();

/// One line of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// When the line was written.
    pub time: Timestamp,
    /// The line, without its line break.
    pub text: String,
}

/// The logs of all pods, by the uid of the pod and the name of the container. Clones refer to the same logs.
#[derive(Clone, Debug, Default)]
pub struct PodLogs {
    logs: Arc<Mutex<HashMap<LogKey, Log>>>,
}

/// The uid of the pod and the name of the container.
type LogKey = (String, String);

#[derive(Debug, Default)]
struct Log {
    /// Lines of the container before its last restart; `None` if it has not been restarted.
    previous: Option<VecDeque<LogLine>>,
    lines: VecDeque<LogLine>,
    /// Total memory of `lines`.
    bytes: usize,
    /// How many lines were dropped in front of `lines`.
    dropped: usize,
    /// Whether the container has terminated.
    ended: bool,
    /// Notified at every change. `Notify` wakes followers in the order in which they started to wait.
    changed: Arc<Notify>,
}

/// Reads the lines that are appended to a log, until the container terminates or the pod is deleted.
pub(crate) struct LogFollower {
    logs: PodLogs,
    key: LogKey,
    /// Number of the next line, counted from the first line that was ever written.
    next: usize,
    changed: Arc<Notify>,
}

/// How much memory a line takes, at most.
fn memory_of(line: &LogLine) -> usize {
    line.text.capacity() + LINE_OVERHEAD
}

impl PodLogs {
    /// Appends a line.
    pub fn append(&self, uid: &str, container: &str, line: LogLine) {
        self.change(uid, container, |log| {
            log.bytes += memory_of(&line);
            log.lines.push_back(line);
            while log.bytes > MAX_BYTES {
                let Some(old) = log.lines.pop_front() else { break };
                log.bytes -= memory_of(&old);
                log.dropped += 1;
            }
        });
    }

    /// The container starts. If it has run before, its lines become the previous log.
    pub fn start(&self, uid: &str, container: &str) {
        self.change(uid, container, |log| {
            if log.ended {
                let last = std::mem::take(&mut log.lines);
                log.dropped += last.len();
                log.previous = Some(last);
                log.bytes = 0;
            }
            log.ended = false;
        });
    }

    /// The container has terminated. Requests that follow its log end.
    pub fn end(&self, uid: &str, container: &str) {
        self.change(uid, container, |log| log.ended = true);
    }

    /// All kept lines of a container since its last start.
    #[must_use]
    pub fn lines(&self, uid: &str, container: &str) -> Vec<LogLine> {
        let logs = self.lock();
        let log = logs.get(&(uid.to_owned(), container.to_owned()));
        log.map(|log| log.lines.iter().cloned().collect()).unwrap_or_default()
    }

    /// Drops the logs of a pod. Requests that follow them end.
    pub fn forget(&self, uid: &str) {
        self.lock().retain(|(owner, _), log| {
            if owner == uid {
                log.ended = true;
                log.changed.notify_waiters();
            }
            owner != uid
        });
    }

    /// The lines that the container wrote before its last restart; `None` if it has not been restarted.
    pub(crate) fn previous_lines(&self, uid: &str, container: &str) -> Option<Vec<LogLine>> {
        let logs = self.lock();
        let previous = logs.get(&(uid.to_owned(), container.to_owned()))?.previous.as_ref()?;
        Some(previous.iter().cloned().collect())
    }

    /// The kept lines of a container, and a reader of all lines after them.
    pub(crate) fn follow(&self, uid: &str, container: &str) -> (Vec<LogLine>, LogFollower) {
        let key = (uid.to_owned(), container.to_owned());
        let mut logs = self.lock();
        let log = logs.entry(key.clone()).or_default();
        let lines = log.lines.iter().cloned().collect();
        let (next, changed) = (log.dropped + log.lines.len(), log.changed.clone());
        (lines, LogFollower { logs: self.clone(), key, next, changed })
    }

    fn change(&self, uid: &str, container: &str, change: impl FnOnce(&mut Log)) {
        let mut logs = self.lock();
        let log = logs.entry((uid.to_owned(), container.to_owned())).or_default();
        change(log);
        log.changed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<LogKey, Log>> {
        self.logs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LogFollower {
    /// Waits for the next lines. `None` when the container has terminated and all its lines were returned.
    pub(crate) async fn next(&mut self) -> Option<Vec<LogLine>> {
        loop {
            // Before the lines are read, so that no change is missed.
            let changed = self.changed.notified();
            let (new, ended) = {
                let logs = self.logs.lock();
                // After the pod was deleted, a late line of its container may have started another log.
                let log = logs.get(&self.key).filter(|log| Arc::ptr_eq(&log.changed, &self.changed))?;
                let skipped = self.next.saturating_sub(log.dropped);
                let new: Vec<LogLine> = log.lines.iter().skip(skipped).cloned().collect();
                self.next = log.dropped + log.lines.len();
                (new, log.ended)
            };
            if !new.is_empty() {
                return Some(new);
            }
            if ended {
                return None;
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> LogLine {
        LogLine { time: Timestamp::UNIX_EPOCH, text: text.to_owned() }
    }

    #[test]
    fn empty_lines_count_towards_the_limit() {
        let logs = PodLogs::default();
        let more_than_fit = 2 * MAX_BYTES / LINE_OVERHEAD;
        for _ in 0..more_than_fit {
            logs.append("u", "c", line(""));
        }
        logs.append("u", "c", line("last"));
        let kept = logs.lines("u", "c");
        assert!(kept.len() * size_of::<LogLine>() <= MAX_BYTES, "{} lines", kept.len());
        assert!(kept.len() > more_than_fit / 4, "{} lines", kept.len());
        assert_eq!(kept.last(), Some(&line("last")));
    }

    #[test]
    fn the_oldest_lines_are_dropped_first() {
        let logs = PodLogs::default();
        let long = "x".repeat(MAX_BYTES / 4);
        for number in 0..6 {
            logs.append("u", "c", line(&format!("{number}{long}")));
        }
        let first: Vec<_> = logs.lines("u", "c").iter().map(|line| line.text[..1].to_owned()).collect();
        assert_eq!(first, ["3", "4", "5"]);
    }
}
