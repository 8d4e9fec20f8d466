//! The directory of a sandbox: persistent, or temporary and removed even after a crash.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use aileron_apiserver::create_private_dir;
use anyhow::Context;
use tempfile::TempDir;

use super::options::DirectoryChoice;
use super::registration::{RunningSandbox, open_regular};

/// The names of temporary directories begin with this.
const PREFIX: &str = "aileron-sandbox-";

/// This file in the directory is locked while the sandbox runs.
const LOCK: &str = "lock";

/// A persistent directory of an earlier start contains at least one of these.
const OWN_FILES: [&str; 3] = ["objects", "access.json", "node"];

/// An abandoned directory is removed only when it is older than this: a younger one may belong to a sandbox that starts
/// and has not locked it yet.
const MIN_ABANDONED_AGE: Duration = Duration::from_secs(60);

/// A sandbox's directory.
#[derive(Debug)]
pub enum SandboxDirectory {
    /// Removed when the sandbox stops.
    Temporary { dir: TempDir, _lock: File },
    /// Kept for the next start.
    Persistent(PathBuf),
}

impl SandboxDirectory {
    /// Creates the directory, unless it exists.
    pub fn open(choice: &DirectoryChoice) -> anyhow::Result<Self> {
        match choice {
            DirectoryChoice::Temporary => {
                remove_abandoned(&std::env::temp_dir(), MIN_ABANDONED_AGE);
                Self::temporary().context("cannot create a directory for the sandbox")
            }
            DirectoryChoice::Persistent(path) => {
                // Other users must not read inputs, outputs, secrets and logs.
                create_private_dir(path, &OWN_FILES).context("--persist")?;
                let path = std::fs::canonicalize(path);
                Ok(Self::Persistent(path.context("cannot use the sandbox's directory")?))
            }
        }
    }

    fn temporary() -> io::Result<Self> {
        // Other users must not read inputs, outputs and logs.
        let private = Permissions::from_mode(0o700);
        let dir = tempfile::Builder::new().prefix(PREFIX).permissions(private).tempdir()?;
        let lock = File::create(dir.path().join(LOCK))?;
        lock.lock()?;
        Ok(Self::Temporary { dir, _lock: lock })
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        match self {
            Self::Temporary { dir, .. } => dir.path(),
            Self::Persistent(path) => path,
        }
    }

    /// Removes the directory if it is temporary.
    pub fn close(self) -> anyhow::Result<()> {
        let Self::Temporary { dir, .. } = self else { return Ok(()) };
        let path = dir.path().to_owned();
        dir.close().with_context(|| format!("cannot remove {}", path.display()))
    }
}

/// Removes the temporary directories of sandboxes of this user that were killed.
fn remove_abandoned(folder: &Path, min_age: Duration) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let Some(lock) = open_lock(&entry.path()) else { continue };
        let age = lock.metadata().and_then(|data| data.modified()).ok().and_then(|time| time.elapsed().ok());
        if age.is_some_and(|age| age >= min_age) && lock.try_lock().is_ok() {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Opens the lock file of a directory of this user. All users may create files in the folder of temporary files, so the
/// file may be anything.
fn open_lock(dir: &Path) -> Option<File> {
    let user = rustix::process::geteuid().as_raw();
    if std::fs::symlink_metadata(dir).ok().filter(std::fs::Metadata::is_dir)?.uid() != user {
        return None;
    }
    open_regular(File::options().read(true), &dir.join(LOCK)).ok()
}

/// Removes the temporary directory that a killed sandbox has left behind.
pub fn remove_left_behind(left: &RunningSandbox) -> io::Result<()> {
    let is_sandbox_directory = left.dir.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
    if left.temporary && is_sandbox_directory && left.dir.is_dir() {
        std::fs::remove_dir_all(&left.dir)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_directory_of_a_running_or_starting_sandbox_is_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let dir = folder.path().join(name);
            std::fs::create_dir(&dir).unwrap();
            (File::create(dir.join(LOCK)).unwrap(), dir)
        };
        let (alive, alive_dir) = make("aileron-sandbox-1");
        alive.lock().unwrap();
        let (_, dead) = make("aileron-sandbox-2");
        let (_, other) = make("precious");
        remove_abandoned(folder.path(), MIN_ABANDONED_AGE);
        assert!(dead.exists(), "too new to tell");
        remove_abandoned(folder.path(), Duration::ZERO);
        assert!(!dead.exists());
        assert!(alive_dir.exists() && other.exists());
    }

    /// Runs the search in a thread, so that the test fails instead of waiting without end.
    #[test]
    fn a_pipe_with_the_name_of_the_lock_does_not_block() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("aileron-sandbox-1");
        std::fs::create_dir(&dir).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(dir.join(LOCK)).status().unwrap().success());
        let (done, finished) = std::sync::mpsc::channel();
        let path = folder.path().to_owned();
        std::thread::spawn(move || {
            remove_abandoned(&path, Duration::ZERO);
            done.send(())
        });
        finished.recv_timeout(Duration::from_secs(120)).unwrap();
        assert!(dir.exists(), "not the directory of a sandbox");
    }

    #[test]
    fn a_persistent_directory_is_private() {
        let parent = tempfile::tempdir().unwrap();
        let open = |path: &Path| SandboxDirectory::open(&DirectoryChoice::Persistent(path.to_owned()));
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o777;
        let wide = |path: &Path, file: &str| {
            std::fs::create_dir(path).unwrap();
            std::fs::write(path.join(file), "").unwrap();
            std::fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
        };
        let (new, earlier, other) = (parent.path().join("new"), parent.path().join("old"), parent.path().join("home"));
        wide(&earlier, "access.json");
        wide(&other, "letter.txt");
        for path in [&new, &earlier] {
            open(path).unwrap();
            assert_eq!(mode(path), 0o700);
        }
        let refused = format!("{:#}", open(&other).unwrap_err());
        assert!(refused.contains("--persist") && refused.contains("chmod 700"), "{refused}");
        assert_eq!(mode(&other), 0o755);
    }

    #[test]
    fn only_temporary_directories_of_sandboxes_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let left = |name: &str, temporary: bool| {
            let dir = parent.path().join(name);
            std::fs::create_dir(&dir).unwrap();
            let state = RunningSandbox {
                pid: 1,
                kubeconfig: dir.join("kubeconfig"),
                server: String::new(),
                storage: dir.join("data"),
                dir: dir.clone(),
                temporary,
                python: None,
            };
            remove_left_behind(&state).unwrap();
            dir.exists()
        };
        assert!(!left("aileron-sandbox-1", true));
        assert!(left("aileron-sandbox-2", false), "a persistent one stays");
        assert!(left("precious", true), "not the directory of a sandbox");
    }
}
