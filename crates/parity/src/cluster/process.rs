//! A child process that cannot outlive this one, not even when this one is killed or never drops it.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context, Result};

/// The shell becomes the program; a watcher in the same process group waits on a pipe from us. A line on it says
/// that we stop the program ourselves. The end of the pipe without a line says that we are gone: then the watcher
/// ends the program and, after a moment for the other servers of the cluster to be ended too, removes the directory.
const GUARDED: &str = r#"
dir=$1; shift
exec 3<&0
( if read -r _ <&3; then exit; fi; kill -9 $$; sleep 1; rm -rf "$dir" ) >/dev/null 2>&1 &
exec "$@" 3<&- </dev/null
"#;

/// How much of a log an error shows: enough for the reason, which comes last, and still readable.
const LOG_TAIL: usize = 3000;

#[derive(Debug)]
pub(super) struct Process {
    child: Child,
}

impl Process {
    /// Starts `command` with its output appended to `<name>.log` in `dir`, in a process group of its own, so that an
    /// interrupt from the keyboard reaches the test first.
    pub(super) fn spawn(dir: &Path, name: &str, command: &[String]) -> Result<Self> {
        let log = open_log(dir, name)?;
        let child = Command::new("sh")
            .args(["-c", GUARDED, name])
            .arg(dir)
            .args(command)
            .current_dir(dir)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("starting {name}"))?;
        Ok(Self { child })
    }

    pub(super) fn exited(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Ends the program at once. Doing it again does nothing.
    pub(super) fn stop(&mut self) {
        if let Some(mut pipe) = self.child.stdin.take() {
            // A watcher that is already gone is no reason to leave the program running.
            let _ = pipe.write_all(b"stop\n");
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The end of `<name>.log`.
pub(super) fn log_tail(dir: &Path, name: &str) -> String {
    let bytes = fs::read(log_path(dir, name)).unwrap_or_default();
    String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(LOG_TAIL)..]).into_owned()
}

fn log_path(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.log"))
}

fn open_log(dir: &Path, name: &str) -> Result<File> {
    let path = log_path(dir, name);
    OpenOptions::new().create(true).append(true).open(&path).with_context(|| format!("opening {}", path.display()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// `sleep` in a guarded process; the pipe is closed without a word, as the kernel does when the parent dies.
    #[test]
    fn the_program_and_its_directory_go_when_the_parent_does() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("cluster");
        fs::create_dir(&dir).unwrap();
        let mut process = Process::spawn(&dir, "sleep", &["sleep".to_owned(), "600".to_owned()]).unwrap();
        assert!(process.exited().unwrap().is_none());

        drop(process.child.stdin.take());
        let begin = Instant::now();
        while process.exited().unwrap().is_none() || dir.exists() {
            assert!(begin.elapsed() < Duration::from_secs(20), "still there");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    #[test]
    fn a_stopped_program_leaves_the_directory_alone() {
        let dir = tempfile::tempdir().unwrap();
        let mut process = Process::spawn(dir.path(), "sleep", &["sleep".to_owned(), "600".to_owned()]).unwrap();
        process.stop();
        assert!(process.exited().unwrap().is_some());
        // Longer than the watcher's own pause before it removes anything.
        std::thread::sleep(Duration::from_millis(1300));
        assert!(dir.path().join("sleep.log").exists());
    }
}
