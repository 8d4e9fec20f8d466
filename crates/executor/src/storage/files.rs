//! Blobs in local files.

use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use tokio::io::AsyncWriteExt as _;

use super::{Location, StorageError, check_limit};

/// A root directory with one directory per container. Mirrors stow's local location.
///
/// # Differs from upstream
/// `file:///a/b` is the absolute path `/a/b`; upstream looks for it below the root. A path that leaves the root through a
/// symbolic link is refused. A container's directory is created at
/// the first write. A blob is written to a temporary file and renamed, so that no reader sees a part of it.
#[derive(Debug)]
pub(super) struct Files {
    root: PathBuf,
    /// Distinguishes the temporary files of concurrent writers.
    written: AtomicU64,
}

impl Files {
    pub fn new(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        // References have absolute paths.
        let root = std::path::absolute(&root).unwrap_or(root);
        Self { root, written: AtomicU64::new(0) }
    }

    fn path(&self, location: &Location) -> PathBuf {
        let base = if location.container.is_empty() { Path::new("/") } else { &self.root };
        base.join(&location.container).join(&location.key)
    }

    /// Refuses a path below the root that leads out of it through a symbolic link, which a task may have created. Paths of
    /// `storage.allowed-prefixes` are not below the root.
    async fn refuse_way_out(&self, uri: &str, path: &Path) -> Result<(), StorageError> {
        let failed = |source| StorageError::Files { action: "look up", uri: uri.to_owned(), source };
        let below_root = path.ancestors().take_while(|ancestor| ancestor.starts_with(&self.root));
        for ancestor in below_root {
            let Some(real) = absent_is_none(tokio::fs::canonicalize(ancestor).await).map_err(failed)? else { continue };
            let root = tokio::fs::canonicalize(&self.root).await.map_err(failed)?;
            if real.starts_with(&root) {
                return Ok(());
            }
            return Err(StorageError::OutsideBoundary {
                uri: uri.to_owned(),
                allowed: self.root.display().to_string(),
            });
        }
        Ok(())
    }

    pub async fn get(&self, uri: &str, at: &Location, limit_mb: u64) -> Result<Option<Bytes>, StorageError> {
        let path = self.path(at);
        self.refuse_way_out(uri, &path).await?;
        let failed = |source| StorageError::Files { action: "read", uri: uri.to_owned(), source };
        match size_of(&path).await.map_err(failed)? {
            None => Ok(None),
            Some(size) => {
                check_limit(uri, size, limit_mb)?;
                let content = absent_is_none(tokio::fs::read(&path).await).map_err(failed)?;
                // The file may have grown since it was measured.
                content.map_or(Ok(None), |content| {
                    check_limit(uri, content.len() as u64, limit_mb)?;
                    Ok(Some(content.into()))
                })
            }
        }
    }

    pub async fn put(&self, uri: &str, at: &Location, content: &[u8]) -> Result<(), StorageError> {
        let path = self.path(at);
        self.refuse_way_out(uri, &path).await?;
        self.write(&path, content).await.map_err(|source| StorageError::Files {
            action: "write",
            uri: uri.to_owned(),
            source,
        })
    }

    pub async fn size(&self, uri: &str, at: &Location) -> Result<Option<u64>, StorageError> {
        let path = self.path(at);
        self.refuse_way_out(uri, &path).await?;
        size_of(&path).await.map_err(|source| StorageError::Files { action: "look up", uri: uri.to_owned(), source })
    }

    pub async fn delete(&self, uri: &str, at: &Location) -> Result<(), StorageError> {
        let path = self.path(at);
        self.refuse_way_out(uri, &path).await?;
        let removed = absent_is_none(tokio::fs::remove_file(&path).await);
        removed.map(drop).map_err(|source| StorageError::Files { action: "delete", uri: uri.to_owned(), source })
    }

    async fn write(&self, path: &Path, content: &[u8]) -> Result<(), Error> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Error::from(ErrorKind::InvalidFilename));
        };
        tokio::fs::create_dir_all(parent).await?;
        let serial = self.written.fetch_add(1, Ordering::Relaxed);
        let temporary = parent.join(format!(".{}.{}-{serial}.part", name.to_string_lossy(), std::process::id()));
        let stored = async {
            // A process of the same number may have left this file. A task may have put a link there, because it may write
            // in the directory and can guess the name: the link must not be followed.
            absent_is_none(tokio::fs::remove_file(&temporary).await)?;
            let mut file = tokio::fs::OpenOptions::new().write(true).create_new(true).open(&temporary).await?;
            file.write_all(content).await?;
            file.flush().await?;
            tokio::fs::rename(&temporary, path).await
        }
        .await;
        if stored.is_err() {
            // Best effort: the first error is the one to report.
            let _ = tokio::fs::remove_file(&temporary).await;
        }
        stored
    }
}

/// Size of a file; a directory is not a blob.
async fn size_of(path: &Path) -> Result<Option<u64>, Error> {
    let metadata = absent_is_none(tokio::fs::metadata(path).await)?;
    Ok(metadata.filter(std::fs::Metadata::is_file).map(|metadata| metadata.len()))
}

fn absent_is_none<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        // A parent that is a file means the same as no file at all.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(error),
    }
}
