//! How other commands find the running sandbox: a state file of the user, and a lock that is held while the sandbox runs.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

/// The state file, and the file that is locked while a sandbox runs. The lock file is never replaced or removed: otherwise
/// two processes could each hold a lock on a different file of the same name.
const STATE: &str = "sandbox.json";
const LOCK: &str = "sandbox.lock";

/// How often a starting sandbox tries to take the lock, and the pause between two attempts. A command that checks for a
/// running sandbox holds the lock for a moment, so that one failed attempt does not mean that a sandbox runs.
const LOCK_ATTEMPTS: u32 = 10;
const LOCK_RETRY_PAUSE: Duration = Duration::from_millis(20);

/// What other commands must know about the running sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunningSandbox {
    /// The process id of the sandbox.
    pub pid: u32,
    /// The kubeconfig file of the sandbox.
    pub kubeconfig: PathBuf,
    /// The address of the API server.
    pub server: String,
    /// The directory of the sandbox.
    pub dir: PathBuf,
    /// The directory of inputs and outputs.
    pub storage: PathBuf,
    /// The directory is removed when the sandbox stops.
    pub temporary: bool,
    /// The Python for tasks, if the user has chosen one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub python: Option<PathBuf>,
}

/// A directory for the state file and the lock file of one user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateDir(PathBuf);

/// The lock of the running sandbox: a user has at most one. Released when dropped, or when the process is killed.
#[derive(Debug)]
pub struct SandboxLock {
    state_dir: StateDir,
    _lock: File,
}

/// Why the lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another sandbox is running.
    #[error("{}", already_running(.0.as_deref()))]
    AlreadyRunning(Option<Box<RunningSandbox>>),
    /// The directory cannot be used.
    #[error("cannot keep the state of the sandbox in {}", .0.display())]
    Directory(PathBuf, #[source] io::Error),
}

impl StateDir {
    /// The directories in which the state may be, by the user's environment variables. A new sandbox uses the first.
    pub fn candidates(variable: impl Fn(&str) -> Option<PathBuf>) -> Vec<Self> {
        let absolute = |name: &str| variable(name).filter(|path| path.is_absolute());
        let directories = [
            // This directory is removed at the end of the user's session. Some environments name one that does not exist.
            absolute("XDG_RUNTIME_DIR").filter(|path| path.is_dir()),
            absolute("XDG_STATE_HOME"),
            absolute("HOME").map(|home| home.join(".local/state")),
        ];
        directories.into_iter().flatten().map(|path| Self(path.join("aileron"))).collect()
    }

    /// The running sandbox, if there is one.
    pub fn running(&self) -> Option<RunningSandbox> {
        let lock = open_regular(File::options().read(true), &self.0.join(LOCK)).ok()?;
        match lock.try_lock_shared() {
            Err(TryLockError::WouldBlock) => self.read(),
            // No process holds the lock. A state file, if there is one, was left by a sandbox that was killed.
            Ok(()) | Err(TryLockError::Error(_)) => None,
        }
    }

    /// Takes the lock of this user's sandbox. The second value is the state of an earlier sandbox that was killed.
    pub fn lock(&self) -> Result<(SandboxLock, Option<RunningSandbox>), LockError> {
        let unusable = |error| LockError::Directory(self.0.clone(), error);
        std::fs::create_dir_all(&self.0).map_err(unusable)?;
        let lock = open_regular(OpenOptions::new().create(true).truncate(false).write(true), &self.0.join(LOCK));
        let lock = lock.map_err(unusable)?;
        for attempt in 1..=LOCK_ATTEMPTS {
            match lock.try_lock() {
                Ok(()) => break,
                Err(TryLockError::Error(error)) => return Err(unusable(error)),
                Err(TryLockError::WouldBlock) if attempt < LOCK_ATTEMPTS => std::thread::sleep(LOCK_RETRY_PAUSE),
                Err(TryLockError::WouldBlock) => {
                    return Err(LockError::AlreadyRunning(self.read().map(Box::new)));
                }
            }
        }
        let left_behind = self.read();
        // Usually there is no state file.
        let _ = std::fs::remove_file(self.0.join(STATE));
        Ok((SandboxLock { state_dir: self.clone(), _lock: lock }, left_behind))
    }

    fn read(&self) -> Option<RunningSandbox> {
        serde_json::from_slice(&std::fs::read(self.0.join(STATE)).ok()?).ok()
    }
}

impl SandboxLock {
    /// Writes the state file, so that other commands find the sandbox.
    pub fn publish(&self, state: &RunningSandbox) -> io::Result<()> {
        replace_private(&self.state_dir.0.join(STATE), &serde_json::to_vec_pretty(state)?)
    }
}

impl Drop for SandboxLock {
    fn drop(&mut self) {
        // If the file cannot be removed, the released lock still shows that no sandbox runs.
        let _ = std::fs::remove_file(self.state_dir.0.join(STATE));
    }
}

/// Opens a file without waiting and without following a link. It fails for anything but a regular file: opening a pipe
/// would wait for another process.
pub fn open_regular(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let irregular =
        || io::Error::new(io::ErrorKind::InvalidInput, format!("{} is not a regular file; remove it", path.display()));
    if std::fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(irregular());
    }
    // Another process may replace the file after the check above.
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits().cast_signed();
    let file = options.custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(irregular()) }
}

/// Replaces a file atomically by one that only its owner may read. A process that is killed meanwhile leaves the old file.
pub fn replace_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let draft = path.with_extension("new");
    write_private(&draft, content)?;
    std::fs::rename(draft, path)
}

/// Writes a file that only its owner may read.
pub fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    // The mode is applied only when the file is created.
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(content)
}

fn already_running(state: Option<&RunningSandbox>) -> String {
    match state {
        Some(RunningSandbox { pid, server, dir, .. }) => format!(
            "a sandbox is already running: process {pid}, {server}, files in {}; use it, or stop it with `kill {pid}`",
            dir.display()
        ),
        None => "another sandbox is starting; use it in a moment, or stop it first".to_owned(),
    }
}

#[cfg(test)]
impl RunningSandbox {
    /// A sandbox for tests.
    pub fn example() -> Self {
        Self {
            pid: 7,
            kubeconfig: "/s/kubeconfig".into(),
            server: "http://127.0.0.1:1".into(),
            dir: "/s".into(),
            storage: "/s/data".into(),
            temporary: true,
            python: None,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_pipe_instead_of_the_lock_file_is_reported() {
        let home = tempfile::tempdir().unwrap();
        let state_dir = StateDir(home.path().to_owned());
        assert!(std::process::Command::new("mkfifo").arg(home.path().join(LOCK)).status().unwrap().success());
        assert_eq!(state_dir.running(), None);
        let error = std::error::Error::source(&state_dir.lock().unwrap_err()).unwrap().to_string();
        assert!(error.contains(LOCK) && error.contains("not a regular file; remove it"), "{error}");
    }

    #[test]
    fn a_running_sandbox_is_found_and_no_second_one_starts() {
        let home = tempfile::tempdir().unwrap();
        let place = StateDir(home.path().join("aileron"));
        assert_eq!(place.running(), None);
        let (lock, left_behind) = place.lock().unwrap();
        assert_eq!(left_behind, None);
        lock.publish(&RunningSandbox::example()).unwrap();
        assert_eq!(place.running(), Some(RunningSandbox::example()));
        let refused = place.lock().unwrap_err().to_string();
        assert!(refused.contains("process 7") && refused.contains("kill 7"), "{refused}");
        drop(lock);
        assert_eq!(place.running(), None);
        place.lock().unwrap();
    }

    #[test]
    fn the_state_of_a_killed_sandbox_is_not_that_of_a_running_one() {
        let home = tempfile::tempdir().unwrap();
        let place = StateDir(home.path().to_owned());
        std::fs::write(home.path().join(STATE), serde_json::to_vec(&RunningSandbox::example()).unwrap()).unwrap();
        std::fs::write(home.path().join(LOCK), "").unwrap();
        assert_eq!(place.running(), None);
        let (_lock, left_behind) = place.lock().unwrap();
        assert_eq!(left_behind, Some(RunningSandbox::example()));
        assert!(!home.path().join(STATE).exists());
    }

    #[test]
    fn the_directories_depend_on_the_environment() {
        let home = tempfile::tempdir().unwrap();
        let places = |pairs: &[(&str, &Path)]| {
            let look =
                |name: &str| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
            StateDir::candidates(look).into_iter().map(|place| place.0).collect::<Vec<_>>()
        };
        let here = home.path();
        let run = places(&[("XDG_RUNTIME_DIR", here), ("HOME", Path::new("/h"))]);
        assert_eq!(run, [here.join("aileron"), "/h/.local/state/aileron".into()]);
        assert_eq!(places(&[("XDG_RUNTIME_DIR", Path::new("/not/there"))]), Vec::<PathBuf>::new());
        assert_eq!(places(&[("XDG_STATE_HOME", Path::new("relative"))]), Vec::<PathBuf>::new());
    }

    #[test]
    fn a_private_file_is_readable_only_by_its_owner() {
        use std::os::unix::fs::PermissionsExt;
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("kubeconfig");
        std::fs::write(&path, "old").unwrap();
        write_private(&path, b"new").unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
    }
}
