//! A child process that ends with this process, even when this process is killed or never drops it.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context, Result};

/// Shell script that runs the program with a watcher. The shell replaces itself by the program; the watcher waits on a
/// pipe from this process. A line on the pipe means that this process stops the program itself. The end of the pipe
/// without a line means that this process has ended: the watcher then kills the program and removes the directory,
/// after a second in which the watchers of the cluster's other servers do the same.
const GUARD_SCRIPT: &str = r#"
dir=$1; shift
exec 3<&0
( if read -r _ <&3; then exit; fi; kill -9 $$; sleep 1; rm -rf "$dir" ) >/dev/null 2>&1 &
exec "$@" 3<&- </dev/null
"#;

/// How many bytes of a log an error shows. The reason is normally in the last lines.
const LOG_TAIL: usize = 3000;

#[derive(Debug)]
pub(super) struct Process {
    child: Child,
}

impl Process {
    /// Starts `command` with its output appended to `<name>.log` in `dir`. It gets its own process group, so that Ctrl-C
    /// does not reach it before the test.
    pub(super) fn spawn(dir: &Path, name: &str, command: &[String]) -> Result<Self> {
        let log = open_log(dir, name)?;
        let child = Command::new("sh")
            .args(["-c", GUARD_SCRIPT, name])
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

    /// Kills the program. A second call does nothing.
    pub(super) fn stop(&mut self) {
        if let Some(mut pipe) = self.child.stdin.take() {
            // If the watcher has already ended, the program is killed all the same.
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

    /// Closes the pipe without a line, as the kernel does when the parent process ends.
    #[test]
    fn the_program_and_its_directory_are_removed_when_the_parent_ends() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("cluster");
        fs::create_dir(&dir).unwrap();
        let mut process = Process::spawn(&dir, "sleep", &["sleep".to_owned(), "600".to_owned()]).unwrap();
        assert!(process.exited().unwrap().is_none());

        drop(process.child.stdin.take());
        let begin = Instant::now();
        while process.exited().unwrap().is_none() || dir.exists() {
            assert!(begin.elapsed() < Duration::from_secs(120), "the program or its directory still exists");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    #[test]
    fn a_stopped_program_leaves_the_directory_alone() {
        let dir = tempfile::tempdir().unwrap();
        let mut process = Process::spawn(dir.path(), "sleep", &["sleep".to_owned(), "600".to_owned()]).unwrap();
        process.stop();
        assert!(process.exited().unwrap().is_some());
        // Longer than the watcher's pause before it removes the directory.
        std::thread::sleep(Duration::from_millis(1300));
        assert!(dir.path().join("sleep.log").exists());
    }
}
