//! The guardian: a separate process that kills all processes of the node when this process ends in any way.
//!
//! The guardian is a shell that reads from a pipe which process groups exist. When the pipe closes, it kills them. The
//! operating system closes the pipe even if this process is killed. A process that has left its group is found by a
//! variable in its environment, if the system has `/proc`.

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::process_table;

/// Environment variable of all processes of a node. Its value is unique for each start of a node.
pub(crate) const NODE_VARIABLE: &str = "AILERON_SANDBOX_NODE";

/// The program of the guardian. A line `+4711` adds a process group, `-4711` removes it. At the end of the input the
/// script kills all remaining groups, then all processes with the variable of the node. It searches for these twice,
/// because a process that was just starting may be missed the first time.
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

/// The guardian of one node.
#[derive(Debug)]
pub(crate) struct Guardian {
    /// Value of [`NODE_VARIABLE`].
    mark: String,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    child: Child,
    /// Standard input of the guardian; `None` after the end.
    pipe: Option<ChildStdin>,
    groups: BTreeSet<i32>,
}

/// A process group. It is killed when this value is dropped.
#[derive(Debug)]
pub(crate) struct ProcessGroup {
    leader: Pid,
    guardian: Arc<Guardian>,
}

impl Guardian {
    /// Starts the guardian of a node. `mark` is the value of [`NODE_VARIABLE`].
    pub(crate) fn start(mark: &str) -> io::Result<Self> {
        let mut child = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "guardian", &format!("{NODE_VARIABLE}={mark}")])
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // In its own process group, so that Ctrl-C in the terminal does not end the guardian.
            .process_group(0)
            .spawn()?;
        let pipe = child.stdin.take();
        let inner = Mutex::new(Inner { child, pipe, groups: BTreeSet::new() });
        Ok(Self { mark: mark.to_owned(), inner })
    }

    /// Value of [`NODE_VARIABLE`] for all processes of the node.
    pub(crate) fn mark(&self) -> &str {
        &self.mark
    }

    /// Registers a process group by its leader.
    pub(crate) fn guard(self: &Arc<Self>, leader: Pid) -> io::Result<ProcessGroup> {
        let group = ProcessGroup { leader, guardian: self.clone() };
        let mut inner = self.lock();
        inner.groups.insert(leader.as_raw_nonzero().get());
        inner.send('+', leader)?;
        drop(inner);
        Ok(group)
    }

    /// Kills all remaining process groups and waits until the guardian has ended.
    pub(crate) fn finish(&self) {
        let mut inner = self.lock();
        for group in std::mem::take(&mut inner.groups).into_iter().filter_map(Pid::from_raw) {
            // An error means that the group does not exist any more.
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
    /// Sends a line to the guardian.
    fn send(&mut self, sign: char, leader: Pid) -> io::Result<()> {
        let Some(pipe) = &mut self.pipe else { return Err(io::ErrorKind::BrokenPipe.into()) };
        // The operating system never splits a write of this size to a pipe.
        pipe.write_all(format!("{sign}{}\n", leader.as_raw_nonzero()).as_bytes())
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        self.finish();
    }
}

impl ProcessGroup {
    /// The leader of the group.
    pub(crate) fn leader(&self) -> Pid {
        self.leader
    }

    /// Sends a signal to all processes of the group.
    pub(crate) fn signal(&self, signal: Signal) {
        // An error means that no process is left, or none that may be signalled.
        let _ = kill_process_group(self.leader, signal);
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        let mut inner = self.guardian.lock();
        inner.groups.remove(&self.leader.as_raw_nonzero().get());
        // An error means that the guardian has ended.
        let _ = inner.send('-', self.leader);
    }
}

/// Kills all processes with an environment variable that starts with `prefix` (`NAME=value`), including processes that
/// have left their group.
pub(crate) fn kill_by_variable(prefix: &str) {
    for pid in process_table::with_variable(prefix) {
        let _ = kill_process(pid, Signal::KILL);
    }
}
