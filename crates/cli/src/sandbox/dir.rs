//! The directory of a sandbox: one that is kept, or one that vanishes, whatever way the sandbox ends.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use tempfile::TempDir;

use super::Place;
use super::state::State;

/// What directories of sandboxes that vanish are called.
const PREFIX: &str = "aileron-sandbox-";

/// Locked as long as the sandbox lives.
const LOCK: &str = "lock";

/// A directory that is younger than this may belong to a sandbox that has not locked it yet.
const SETTLED: Duration = Duration::from_secs(60);

/// A sandbox's directory.
#[derive(Debug)]
pub enum Dir {
    /// It goes with the sandbox.
    Temporary { dir: TempDir, _lock: File },
    /// It stays.
    Persistent(PathBuf),
}

impl Dir {
    /// Makes it, unless it is there.
    pub fn open(place: &Place) -> anyhow::Result<Self> {
        match place {
            Place::Temporary => {
                sweep(&std::env::temp_dir(), SETTLED);
                Self::temporary().context("cannot make a directory for the sandbox")
            }
            Place::Persistent(path) => {
                std::fs::create_dir_all(path).with_context(|| format!("cannot make {}", path.display()))?;
                let path = std::fs::canonicalize(path);
                Ok(Self::Persistent(path.context("cannot use the sandbox's directory")?))
            }
        }
    }

    fn temporary() -> io::Result<Self> {
        // Inputs, outputs and logs are nobody else's business.
        let private = Permissions::from_mode(0o700);
        let dir = tempfile::Builder::new().prefix(PREFIX).permissions(private).tempdir()?;
        let lock = File::create(dir.path().join(LOCK))?;
        lock.lock()?;
        Ok(Self::Temporary { dir, _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        match self {
            Self::Temporary { dir, .. } => dir.path(),
            Self::Persistent(path) => path,
        }
    }

    /// Removes it if it is to vanish.
    pub fn close(self) -> anyhow::Result<()> {
        let Self::Temporary { dir, .. } = self else { return Ok(()) };
        let path = dir.path().to_owned();
        dir.close().with_context(|| format!("cannot remove {}", path.display()))
    }
}

/// Removes what sandboxes left that were killed. What cannot be removed is somebody else's, or the system's to remove.
fn sweep(folder: &Path, settled: Duration) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let Ok(lock) = File::open(entry.path().join(LOCK)) else { continue };
        let age = lock.metadata().and_then(|data| data.modified()).ok().and_then(|time| time.elapsed().ok());
        if age.is_some_and(|age| age >= settled) && lock.try_lock().is_ok() {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Removes what a sandbox left that was killed.
pub fn clean(left: &State) -> io::Result<()> {
    let is_ours = left.dir.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
    if left.temporary && is_ours && left.dir.is_dir() {
        std::fs::remove_dir_all(&left.dir)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn what_is_alive_or_new_is_not_swept_away() {
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
        sweep(folder.path(), SETTLED);
        assert!(dead.exists(), "too new to tell");
        sweep(folder.path(), Duration::ZERO);
        assert!(!dead.exists());
        assert!(alive_dir.exists() && other.exists());
    }

    #[test]
    fn only_directories_of_our_own_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let left = |name: &str, temporary: bool| {
            let dir = parent.path().join(name);
            std::fs::create_dir(&dir).unwrap();
            let state = State {
                pid: 1,
                kubeconfig: dir.join("kubeconfig"),
                server: String::new(),
                storage: dir.join("data"),
                dir: dir.clone(),
                temporary,
                python: None,
            };
            clean(&state).unwrap();
            dir.exists()
        };
        assert!(!left("aileron-sandbox-1", true));
        assert!(left("aileron-sandbox-2", false), "a persistent one stays");
        assert!(left("precious", true), "not made by us");
    }
}
