//! Nothing outlives the sandbox: whatever way this process ends, a guardian ends what it started.
//!
//! The guardian is a shell that reads from a pipe which groups of processes there are, and kills them when the pipe
//! closes. The system closes it also when this process is killed. Processes that left their group are found by a mark
//! in their environment, where there is a `/proc`.

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::process_table;

/// The variable that marks all processes of a node.
pub(crate) const MARK: &str = "AILERON_SANDBOX_NODE";

/// `+4711` adds a group, `-4711` removes it; at the end all that are left are killed, then all that bear the mark, in
/// two rounds since the first may have missed what was just starting.
const SCRIPT: &str = r#"
groups=
while read -r line; do
  case $line in
    +*) groups="$groups ${line#+}" ;;
    -*) kept=
        for group in $groups; do [ "$group" = "${line#-}" ] || kept="$kept $group"; done
        groups=$kept ;;
  esac
done
for group in $groups; do kill -s KILL -- "-$group"; done
[ -d /proc/self ] || exit 0
for round in 1 2; do
  for file in $(grep -lszxF "$1" /proc/[0-9]*/environ); do
    process=${file#/proc/}
    kill -s KILL "${process%/environ}"
  done
done
"#;

/// Watches over all groups of processes of one node.
#[derive(Debug)]
pub(crate) struct Guardian {
    mark: String,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    child: Child,
    /// Closed when there is nothing left to guard.
    pipe: Option<ChildStdin>,
    groups: BTreeSet<i32>,
}

/// A group of processes. It does not outlive this value.
#[derive(Debug)]
pub(crate) struct Group {
    leader: Pid,
    guardian: Arc<Guardian>,
}

impl Guardian {
    /// Starts the guardian of processes that carry this mark.
    pub(crate) fn start(mark: &str) -> io::Result<Self> {
        let mut child = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "guardian", &format!("{MARK}={mark}")])
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // An interrupt from the terminal is not for the guardian.
            .process_group(0)
            .spawn()?;
        let pipe = child.stdin.take();
        let inner = Mutex::new(Inner { child, pipe, groups: BTreeSet::new() });
        Ok(Self { mark: mark.to_owned(), inner })
    }

    /// What processes have in [`MARK`].
    pub(crate) fn mark(&self) -> &str {
        &self.mark
    }

    /// Takes over a group by the process that leads it.
    pub(crate) fn guard(self: &Arc<Self>, leader: Pid) -> io::Result<Group> {
        let group = Group { leader, guardian: self.clone() };
        let mut inner = self.lock();
        inner.groups.insert(leader.as_raw_nonzero().get());
        inner.say('+', leader)?;
        drop(inner);
        Ok(group)
    }

    /// Kills all that is left and waits until it is gone, or the guardian at least.
    pub(crate) fn finish(&self) {
        let mut inner = self.lock();
        for group in std::mem::take(&mut inner.groups).into_iter().filter_map(Pid::from_raw) {
            // Gone already, or not ours any more: either way there is nothing to kill.
            let _ = kill_process_group(group, Signal::KILL);
        }
        if inner.pipe.take().is_some() {
            let _ = inner.child.wait();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn say(&mut self, sign: char, leader: Pid) -> io::Result<()> {
        let Some(pipe) = &mut self.pipe else { return Err(io::ErrorKind::BrokenPipe.into()) };
        // One write: lines of this size are never torn apart in a pipe.
        pipe.write_all(format!("{sign}{}\n", leader.as_raw_nonzero()).as_bytes())
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        self.finish();
    }
}

impl Group {
    /// The process that leads the group.
    pub(crate) fn leader(&self) -> Pid {
        self.leader
    }

    /// Sends a signal to all of the group.
    pub(crate) fn signal(&self, signal: Signal) {
        // The only errors are that nobody is left, or nobody that may be signalled.
        let _ = kill_process_group(self.leader, signal);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        let mut inner = self.guardian.lock();
        inner.groups.remove(&self.leader.as_raw_nonzero().get());
        // A guardian that is gone has nothing to forget.
        let _ = inner.say('-', self.leader);
    }
}

/// Kills all processes whose mark begins so, `NAME=value`, also those that left their group.
pub(crate) fn kill_marked(mark: &str) {
    for pid in process_table::marked(mark) {
        let _ = kill_process(pid, Signal::KILL);
    }
}
