//! How other commands find the sandbox that runs: a file in a place of the user, and a lock that says it is alive.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The file with the state, and the one that is locked while a sandbox runs. The lock is a file of its own because it
/// must never be replaced or removed: two processes could each lock one of the same name.
const STATE: &str = "sandbox.json";
const LOCK: &str = "sandbox.lock";

/// Whoever looks whether the lock is taken takes it for a moment. That is no reason to refuse a start.
const PATIENCE: (u32, Duration) = (10, Duration::from_millis(20));

/// What others need to know about the sandbox that runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// Its process.
    pub pid: u32,
    /// How to reach it.
    pub kubeconfig: PathBuf,
    /// Its address.
    pub server: String,
    /// Where everything of it is.
    pub dir: PathBuf,
    /// Where inputs and outputs are.
    pub storage: PathBuf,
    /// The directory goes with it.
    pub temporary: bool,
    /// The Python of its tasks, if one was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub python: Option<PathBuf>,
}

/// A place for the state of one user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateDir(PathBuf);

/// The right to be the sandbox of this user; given back when dropped, also by a process that is killed.
#[derive(Debug)]
pub struct Claim {
    place: StateDir,
    _lock: File,
}

/// Why there is no claim.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// One runs already.
    #[error("{}", already(.0.as_deref()))]
    Taken(Option<Box<State>>),
    /// The place cannot be used.
    #[error("cannot keep the state of the sandbox in {}", .0.display())]
    Place(PathBuf, #[source] io::Error),
}

impl StateDir {
    /// The places to look at, the best first, given the user's environment.
    pub fn of(variable: impl Fn(&str) -> Option<PathBuf>) -> Vec<Self> {
        let absolute = |name: &str| variable(name).filter(|path| path.is_absolute());
        let places = [
            // It goes with the user's session, and so does the sandbox. Some environments name one that is not there.
            absolute("XDG_RUNTIME_DIR").filter(|path| path.is_dir()),
            absolute("XDG_STATE_HOME"),
            absolute("HOME").map(|home| home.join(".local/state")),
        ];
        places.into_iter().flatten().map(|path| Self(path.join("aileron"))).collect()
    }

    /// The sandbox that runs, if one does.
    pub fn running(&self) -> Option<State> {
        let lock = File::open(self.0.join(LOCK)).ok()?;
        match lock.try_lock_shared() {
            Err(TryLockError::WouldBlock) => self.read(),
            // Nobody holds it, so what is written there is of a sandbox that was killed.
            Ok(()) | Err(TryLockError::Error(_)) => None,
        }
    }

    /// Becomes the sandbox of this user. What a killed one left behind is the other part of the answer.
    pub fn claim(&self) -> Result<(Claim, Option<State>), ClaimError> {
        let place = |error| ClaimError::Place(self.0.clone(), error);
        std::fs::create_dir_all(&self.0).map_err(place)?;
        let lock =
            OpenOptions::new().create(true).truncate(false).write(true).open(self.0.join(LOCK)).map_err(place)?;
        let (tries, pause) = PATIENCE;
        for round in 1..=tries {
            match lock.try_lock() {
                Ok(()) => break,
                Err(TryLockError::Error(error)) => return Err(place(error)),
                Err(TryLockError::WouldBlock) if round < tries => std::thread::sleep(pause),
                Err(TryLockError::WouldBlock) => return Err(ClaimError::Taken(self.read().map(Box::new))),
            }
        }
        let left_behind = self.read();
        // Nothing is there, most likely.
        let _ = std::fs::remove_file(self.0.join(STATE));
        Ok((Claim { place: self.clone(), _lock: lock }, left_behind))
    }

    fn read(&self) -> Option<State> {
        serde_json::from_slice(&std::fs::read(self.0.join(STATE)).ok()?).ok()
    }
}

impl Claim {
    /// Lets others find the sandbox.
    pub fn publish(&self, state: &State) -> io::Result<()> {
        replace_private(&self.place.0.join(STATE), &serde_json::to_vec_pretty(state)?)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // If it stays, the lock still says that nothing runs.
        let _ = std::fs::remove_file(self.place.0.join(STATE));
    }
}

/// Replaces a file that only its owner may read, as a whole: whoever is killed meanwhile leaves the old one.
pub fn replace_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let draft = path.with_extension("new");
    write_private(&draft, content)?;
    std::fs::rename(draft, path)
}

/// Writes a file that only its owner may read.
pub fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    // The mode counts only for a file that is new.
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(content)
}

fn already(state: Option<&State>) -> String {
    match state {
        Some(State { pid, server, dir, .. }) => format!(
            "a sandbox runs already: process {pid}, {server}, files in {}; use it, or end it with `kill {pid}`",
            dir.display()
        ),
        None => "a sandbox is just starting; look again in a moment with `aileron get`".to_owned(),
    }
}

#[cfg(test)]
impl State {
    /// The state of some sandbox.
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
    fn a_running_sandbox_is_found_and_no_second_one_starts() {
        let home = tempfile::tempdir().unwrap();
        let place = StateDir(home.path().join("aileron"));
        assert_eq!(place.running(), None);
        let (claim, left_behind) = place.claim().unwrap();
        assert_eq!(left_behind, None);
        claim.publish(&State::example()).unwrap();
        assert_eq!(place.running(), Some(State::example()));
        let refused = place.claim().unwrap_err().to_string();
        assert!(refused.contains("process 7") && refused.contains("kill 7"), "{refused}");
        drop(claim);
        assert_eq!(place.running(), None);
        place.claim().unwrap();
    }

    #[test]
    fn what_a_killed_one_left_is_not_taken_for_alive() {
        let home = tempfile::tempdir().unwrap();
        let place = StateDir(home.path().to_owned());
        std::fs::write(home.path().join(STATE), serde_json::to_vec(&State::example()).unwrap()).unwrap();
        std::fs::write(home.path().join(LOCK), "").unwrap();
        assert_eq!(place.running(), None);
        let (_claim, left_behind) = place.claim().unwrap();
        assert_eq!(left_behind, Some(State::example()));
        assert!(!home.path().join(STATE).exists());
    }

    #[test]
    fn the_places_follow_the_environment() {
        let home = tempfile::tempdir().unwrap();
        let places = |pairs: &[(&str, &Path)]| {
            let look =
                |name: &str| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
            StateDir::of(look).into_iter().map(|place| place.0).collect::<Vec<_>>()
        };
        let here = home.path();
        let run = places(&[("XDG_RUNTIME_DIR", here), ("HOME", Path::new("/h"))]);
        assert_eq!(run, [here.join("aileron"), "/h/.local/state/aileron".into()]);
        assert_eq!(places(&[("XDG_RUNTIME_DIR", Path::new("/not/there"))]), Vec::<PathBuf>::new());
        assert_eq!(places(&[("XDG_STATE_HOME", Path::new("relative"))]), Vec::<PathBuf>::new());
    }

    #[test]
    fn secrets_are_for_their_owner() {
        use std::os::unix::fs::PermissionsExt;
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("kubeconfig");
        std::fs::write(&path, "old").unwrap();
        write_private(&path, b"new").unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
    }
}
