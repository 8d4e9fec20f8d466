//! Objects that outlive the process: a file that follows the store.
//!
//! The file is written a moment after a change, as a whole, beside the old one which it then replaces: whoever is
//! killed leaves either the one or the other. What was written in that last moment is lost with the process.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::server::ApiServer;
use crate::store::{Snapshot, Store};

/// The file with the objects.
const FILE: &str = "objects.json";
/// What it is called until it is whole.
const UNFINISHED: &str = "objects.json.new";
/// Held by the one who may write.
const LOCK: &str = "objects.lock";
/// The only layout there has been.
const FORMAT: u32 = 1;
/// Changes come in bursts; a burst is written once.
const SETTLE: Duration = Duration::from_millis(250);
/// Writing takes at most this part of the time, however large the file grows.
const SHARE: u32 = 10;

/// Objects cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum PersistError {
    /// The directory cannot be used.
    #[error("cannot {what} {}; see that it is a place you may write to", .path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// Upon which file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// Another process keeps its objects there.
    #[error("{} belongs to a sandbox that is running; stop it, or choose another directory", .0.display())]
    InUse(PathBuf),
    /// What is in the file was not written by us, or not completely.
    #[error("{} does not hold the objects of a sandbox: {reason}; restore it from a copy, or move it away to begin \
             with nothing", .path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

/// Keeps the objects of a server in a directory. Dropped without [`Persistence::stop`], it leaves what the last save
/// left.
#[derive(Debug)]
pub struct Persistence {
    saves: JoinHandle<Result<(), PersistError>>,
    cancel: CancellationToken,
}

#[derive(Serialize, Deserialize)]
struct Content {
    format: u32,
    #[serde(flatten)]
    snapshot: Snapshot,
}

/// A directory that is ours as long as this lives.
#[derive(Debug)]
struct Folder {
    dir: PathBuf,
    _lock: File,
}

impl Persistence {
    /// Gives the server the objects that the directory holds, if any, and keeps the directory up to date from now on.
    ///
    /// # Errors
    /// The directory cannot be used, or holds something else. Nothing in it is changed then.
    pub async fn open(dir: impl AsRef<Path>, server: &ApiServer) -> Result<Self, PersistError> {
        let folder = Folder::open(dir.as_ref())?;
        if let Some(snapshot) = folder.read()? {
            server.restore(&snapshot);
        }
        let cancel = CancellationToken::new();
        Ok(Self { saves: tokio::spawn(follow(folder, server.clone(), cancel.clone())), cancel })
    }

    /// Saves for the last time.
    ///
    /// # Errors
    /// It does not work; the file is as the last save that did has left it.
    pub async fn stop(mut self) -> Result<(), PersistError> {
        self.cancel.cancel();
        // Only a runtime that ends takes a task away, and then there is nobody to tell.
        (&mut self.saves).await.unwrap_or(Ok(()))
    }
}

impl Drop for Persistence {
    fn drop(&mut self) {
        self.saves.abort();
    }
}

impl Folder {
    fn open(dir: &Path) -> Result<Self, PersistError> {
        let file = |what, path: &Path| {
            let path = path.to_owned();
            move |source| PersistError::File { what, path, source }
        };
        fs::create_dir_all(dir).map_err(file("make", dir))?;
        let path = dir.join(LOCK);
        let lock = File::options().create(true).truncate(false).write(true).open(&path).map_err(file("open", &path))?;
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
                let reason = format!("its format is {}, and only {FORMAT} is known", content.format);
                Err(PersistError::Corrupt { path, reason })
            }
            Err(error) => Err(PersistError::Corrupt { path, reason: error.to_string() }),
        }
    }

    fn write(&self, store: &Store) -> Result<(), PersistError> {
        let (path, unfinished) = (self.dir.join(FILE), self.dir.join(UNFINISHED));
        let content = Content { format: FORMAT, snapshot: store.snapshot() };
        let write = || {
            let mut file = BufWriter::new(File::create(&unfinished)?);
            serde_json::to_writer(&mut file, &content)?;
            file.flush()?;
            // On the disk before it takes the place of the other, or a power cut could leave neither.
            file.get_ref().sync_all()?;
            fs::rename(&unfinished, &path)
        };
        write().map_err(|source| PersistError::File { what: "write", path: path.clone(), source })
    }
}

/// Saves after changes until told to stop, and then once more. A save that fails is tried again with the next change;
/// only the last one's failure is returned.
async fn follow(folder: Folder, server: ApiServer, cancel: CancellationToken) -> Result<(), PersistError> {
    let folder = std::sync::Arc::new(folder);
    let mut writes = server.store().writes();
    let save = || {
        let (folder, server) = (folder.clone(), server.clone());
        async move {
            let begin = Instant::now();
            let saved = tokio::task::spawn_blocking(move || folder.write(server.store())).await.unwrap_or(Ok(()));
            (saved, begin.elapsed())
        }
    };
    let mut pause = SETTLE;
    loop {
        let settled = async {
            // The store outlives this task, so its sender does.
            let _ = writes.changed().await;
            tokio::time::sleep(pause).await;
        };
        if cancel.run_until_cancelled(settled).await.is_none() {
            return save().await.0;
        }
        writes.mark_unchanged();
        let (saved, took) = save().await;
        if let Err(error) = saved {
            tracing::warn!(%error, "the objects of the sandbox were not saved");
        }
        pause = SETTLE.max(took * SHARE);
    }
}
