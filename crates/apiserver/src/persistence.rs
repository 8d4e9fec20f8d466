//! Keeps the objects of a server in a file.
//!
//! The whole file is written a moment after a change. The new file is completed under another name and then replaces
//! the old one, so a process that is killed leaves a complete file. Changes since the last save are lost with the
//! process.
//!
//! Objects include secrets. Therefore only the user of this process can read the directory and the files.

mod private_dir;

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use self::private_dir::{PrivateDirError, create_private_dir};
use crate::server::ApiServer;
use crate::store::{Snapshot, Store};

/// Name of the file with the objects.
const FILE: &str = "objects.json";
/// Name of the new file until it is complete.
const UNFINISHED_FILE: &str = "objects.json.new";
/// Name of the lock file. The process that uses the directory holds the lock.
const LOCK_FILE: &str = "objects.lock";
/// Permissions of the files: only their owner may read and write them.
const FILE_MODE: u32 = 0o600;
/// Version of the file format. There has been only one so far.
const FORMAT: u32 = 1;
/// Delay between a change and the save. Changes come in bursts, and one save covers a burst.
const SAVE_DELAY: Duration = Duration::from_millis(250);
/// The pause after a save is at least this many times its duration. So saving takes at most about a tenth of the time,
/// even if the file is large.
const PAUSE_FACTOR: u32 = 10;

/// Why objects cannot be read or saved.
#[derive(Debug, thiserror::Error)]
pub enum PersistError {
    /// A file or the directory cannot be used.
    #[error("failed to {what} {}; check that you may write there", .path.display())]
    File {
        /// The failed operation.
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The directory cannot be protected from other users.
    #[error(transparent)]
    Private(#[from] PrivateDirError),
    /// A file has the name of one of our files, but is a directory, a pipe or a device.
    #[error("{} is not a regular file; remove it, or choose another directory", .0.display())]
    NotAFile(PathBuf),
    /// Another process uses the directory.
    #[error("{} belongs to a sandbox that is running; stop it, or choose another directory", .0.display())]
    InUse(PathBuf),
    /// The file was not written by this program, or is damaged.
    #[error("{} does not contain the objects of a sandbox: {reason}; restore it from a copy, or move it away to start \
             without objects", .path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Why the file cannot be read.
        reason: String,
    },
}

/// Keeps the objects of a server in a directory. If it is dropped without [`Persistence::stop`], changes since the last
/// save are lost.
#[derive(Debug)]
pub struct Persistence {
    saves: JoinHandle<Result<(), PersistError>>,
    cancel: CancellationToken,
}

/// The content of the file.
#[derive(Serialize, Deserialize)]
struct Content {
    format: u32,
    #[serde(flatten)]
    snapshot: Snapshot,
}

/// A directory that this process has locked. The lock ends with this value.
#[derive(Debug)]
struct LockedDir {
    dir: PathBuf,
    _lock: File,
}

impl Persistence {
    /// Restores the objects in the directory, if there are any, and saves all changes from now on.
    ///
    /// # Errors
    /// The directory cannot be used, or does not contain the objects of a server. In this case it is not changed.
    pub async fn open(dir: impl AsRef<Path>, server: &ApiServer) -> Result<Self, PersistError> {
        let dir = LockedDir::open(dir.as_ref())?;
        if let Some(snapshot) = dir.read()? {
            server.restore(&snapshot);
        }
        let cancel = CancellationToken::new();
        Ok(Self { saves: tokio::spawn(save_changes(dir, server.clone(), cancel.clone())), cancel })
    }

    /// Saves for the last time and ends.
    ///
    /// # Errors
    /// The last save fails. The file then has the content of the last successful save.
    pub async fn stop(mut self) -> Result<(), PersistError> {
        self.cancel.cancel();
        // The task can be cancelled only by the end of the runtime. Nobody can report an error then.
        (&mut self.saves).await.unwrap_or(Ok(()))
    }
}

impl Drop for Persistence {
    fn drop(&mut self) {
        self.saves.abort();
    }
}

impl LockedDir {
    fn open(dir: &Path) -> Result<Self, PersistError> {
        let file = |what, path: &Path| {
            let path = path.to_owned();
            move |source| PersistError::File { what, path, source }
        };
        create_private_dir(dir, &[LOCK_FILE, FILE, UNFINISHED_FILE])?;
        for name in [LOCK_FILE, FILE, UNFINISHED_FILE] {
            restrict(&dir.join(name))?;
        }
        let path = dir.join(LOCK_FILE);
        let lock = private_file().truncate(false).open(&path).map_err(file("open", &path))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { dir: dir.to_owned(), _lock: lock }),
            Err(fs::TryLockError::WouldBlock) => Err(PersistError::InUse(dir.to_owned())),
            Err(fs::TryLockError::Error(source)) => Err(file("lock", &path)(source)),
        }
    }

    fn read(&self) -> Result<Option<Snapshot>, PersistError> {
        let path = self.dir.join(FILE);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(PersistError::File { what: "read", path, source }),
        };
        match serde_json::from_slice::<Content>(&bytes) {
            Ok(content) if content.format == FORMAT => Ok(Some(content.snapshot)),
            Ok(content) => {
                let reason = format!("its format is {}, but only format {FORMAT} is supported", content.format);
                Err(PersistError::Corrupt { path, reason })
            }
            Err(error) => Err(PersistError::Corrupt { path, reason: error.to_string() }),
        }
    }

    fn write(&self, store: &Store) -> Result<(), PersistError> {
        let (path, unfinished) = (self.dir.join(FILE), self.dir.join(UNFINISHED_FILE));
        let content = Content { format: FORMAT, snapshot: store.snapshot() };
        let write = || {
            let mut file = BufWriter::new(private_file().truncate(true).open(&unfinished)?);
            serde_json::to_writer(&mut file, &content)?;
            file.flush()?;
            // The data must be on the disk before the rename. Otherwise a power failure could destroy both files.
            file.get_ref().sync_all()?;
            fs::rename(&unfinished, &path)
        };
        write().map_err(|source| PersistError::File { what: "write", path: path.clone(), source })
    }
}

/// Options for a file that is created if it does not exist, and that only its owner can read.
fn private_file() -> OpenOptions {
    let mut options = File::options();
    options.create(true).write(true).mode(FILE_MODE);
    options
}

/// Takes an existing file away from other users. Only regular files are accepted, because opening a pipe would wait for
/// another process.
fn restrict(path: &Path) -> Result<(), PersistError> {
    let failed = |what| move |source| PersistError::File { what, path: path.to_owned(), source };
    match fs::symlink_metadata(path) {
        Ok(found) if !found.is_file() => Err(PersistError::NotAFile(path.to_owned())),
        Ok(_) => {
            let private = Permissions::from_mode(FILE_MODE);
            fs::set_permissions(path, private).map_err(failed("change the permissions of"))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(failed("read")(source)),
    }
}

/// Saves after changes, and a last time when it is cancelled. After a failed save, the next change triggers another
/// one; only the error of the last save is returned.
async fn save_changes(dir: LockedDir, server: ApiServer, cancel: CancellationToken) -> Result<(), PersistError> {
    let dir = std::sync::Arc::new(dir);
    let mut writes = server.store().writes();
    let save = || {
        let (dir, server) = (dir.clone(), server.clone());
        async move {
            let begin = Instant::now();
            let saved = tokio::task::spawn_blocking(move || dir.write(server.store())).await.unwrap_or(Ok(()));
            (saved, begin.elapsed())
        }
    };
    let mut pause = SAVE_DELAY;
    loop {
        let settled = async {
            // Fails only if the store is dropped, and this task holds the store.
            let _ = writes.changed().await;
            tokio::time::sleep(pause).await;
        };
        if cancel.run_until_cancelled(settled).await.is_none() {
            return save().await.0;
        }
        writes.mark_unchanged();
        let (saved, took) = save().await;
        if let Err(error) = saved {
            tracing::warn!(%error, "failed to save the objects; the next change triggers another attempt");
        }
        pause = SAVE_DELAY.max(took * PAUSE_FACTOR);
    }
}
