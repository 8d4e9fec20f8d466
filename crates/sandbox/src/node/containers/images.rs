//! Images: names that stand for a directory of the host or for the programs of the host.
//!
//! To show what happens when a pull fails, images cannot be pulled if their name starts with `sandbox.invalid/` or
//! contains `does-not-exist`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What an image stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Image {
    /// The programs of the host.
    Host,
    /// A Python virtual environment, whose programs are found first.
    Virtualenv(PathBuf),
    /// A directory whose files are copied into the root of the container, and whose programs are found first.
    Directory(PathBuf),
}

/// Why an image cannot be pulled. The first text is that of containerd.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PullError {
    #[error("failed to pull and unpack image {0:?}: failed to resolve reference {0:?}: {0}: not found")]
    NotFound(String),
    #[error("image {name:?} is mapped to {}, which is not a directory", path.display())]
    NoDirectory { name: String, path: PathBuf },
}

impl Image {
    /// Finds out what an image name stands for.
    pub(crate) fn pull(name: &str, mapping: &BTreeMap<String, PathBuf>) -> Result<Self, PullError> {
        if let Some(path) = mapping.get(name) {
            return match path {
                path if path.join("bin/python").exists() => Ok(Self::Virtualenv(path.clone())),
                path if path.is_dir() => Ok(Self::Directory(path.clone())),
                path => Err(PullError::NoDirectory { name: name.to_owned(), path: path.clone() }),
            };
        }
        if name.starts_with("sandbox.invalid/") || name.contains("does-not-exist") {
            return Err(PullError::NotFound(name.to_owned()));
        }
        Ok(Self::Host)
    }

    /// Directories in which programs are searched first.
    pub(crate) fn programs(&self) -> Vec<PathBuf> {
        match self {
            Self::Host => Vec::new(),
            Self::Virtualenv(path) => vec![path.join("bin")],
            Self::Directory(path) => vec![path.clone(), path.join("bin")],
        }
    }

    /// The directory to copy into the root of the container.
    pub(crate) fn files(&self) -> Option<&Path> {
        match self {
            Self::Directory(path) => Some(path),
            Self::Host | Self::Virtualenv(_) => None,
        }
    }

    /// The value of `VIRTUAL_ENV`.
    pub(crate) fn virtualenv(&self) -> Option<&Path> {
        match self {
            Self::Virtualenv(path) => Some(path),
            Self::Host | Self::Directory(_) => None,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_resolved_by_the_mapping() {
        let dir = tempfile::tempdir().unwrap();
        let (venv, plain) = (dir.path().join("venv"), dir.path().join("plain"));
        std::fs::create_dir_all(venv.join("bin")).unwrap();
        std::fs::create_dir_all(&plain).unwrap();
        std::fs::write(venv.join("bin/python"), "").unwrap();
        let mapping = BTreeMap::from([
            ("v".to_owned(), venv.clone()),
            ("d".to_owned(), plain.clone()),
            ("gone".to_owned(), dir.path().join("gone")),
            ("sandbox.invalid/mapped".to_owned(), plain.clone()),
        ]);
        let pull = |name| Image::pull(name, &mapping);
        assert_eq!(pull("v").unwrap().programs(), [venv.join("bin")]);
        assert_eq!(pull("d").unwrap().files(), Some(plain.as_path()));
        assert_eq!(pull("alpine:3"), Ok(Image::Host));
        assert!(pull("gone").unwrap_err().to_string().contains("not a directory"));
        assert!(pull("sandbox.invalid/mapped").is_ok(), "the mapping has priority");
        let error = pull("r.io/a:does-not-exist").unwrap_err().to_string();
        assert!(error.ends_with("r.io/a:does-not-exist: not found"), "{error}");
    }
}
