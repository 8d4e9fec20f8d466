//! Where things are below the node's directory, and how to get to them without ever leaving it.
//!
//! ```text
//! <dir>/pods/<uid>/volumes/<volume>
//! <dir>/pods/<uid>/containers/<name>/root   the container's root and working directory, new in each life
//! <dir>/pods/<uid>/containers/<name>/tmp    its TMPDIR
//! <dir>/pods/<uid>/containers/<name>/view   the root that it sees, if it has one of its own
//! <dir>/pods/<uid>/logs/<name>/<life>.log
//! ```

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::namespace;

/// The directory of one pod.
#[derive(Clone, Debug)]
pub(crate) struct PodDir(PathBuf);

/// A path that must not be followed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlaceError {
    #[error("{0:?} must not contain \"..\" and must name something")]
    Path(String),
    #[error("{} leads out of the sandbox", .0.display())]
    Escape(PathBuf),
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl PlaceError {
    /// A failure at this path.
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }
}

impl PodDir {
    /// Of the pod with this uid below a directory in whose path are no links. It need not be there.
    pub(crate) fn new(dir: &Path, uid: &str) -> Result<Self, PlaceError> {
        let [Component::Normal(_)] = Path::new(uid).components().collect::<Vec<_>>()[..] else {
            return Err(PlaceError::Path(uid.to_owned()));
        };
        Ok(Self(dir.join("pods").join(uid)))
    }

    /// The directory of a volume.
    pub(crate) fn volume(&self, name: &str) -> PathBuf {
        self.0.join("volumes").join(name)
    }

    /// All that one container has.
    pub(crate) fn container(&self, name: &str) -> PathBuf {
        self.0.join("containers").join(name)
    }

    /// The root of a container.
    pub(crate) fn root(&self, container: &str) -> PathBuf {
        self.container(container).join("root")
    }

    /// For a container's temporary files.
    pub(crate) fn temporary(&self, container: &str) -> PathBuf {
        self.container(container).join("tmp")
    }

    /// The log of a life of a container.
    pub(crate) fn log(&self, container: &str, life: u32) -> PathBuf {
        self.0.join("logs").join(container).join(format!("{life}.log"))
    }

    /// An empty directory for the root of a container.
    pub(crate) fn fresh_root(&self, container: &str) -> Result<PathBuf, PlaceError> {
        let root = self.root(container);
        match fs::remove_dir_all(&root) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(PlaceError::io(&root)(error)),
            _ => fs::create_dir_all(&root).map_err(PlaceError::io(&root))?,
        }
        Ok(root)
    }

    /// The directory at `path` below `base`, made as far as it is missing. Links are followed only within the pod.
    pub(crate) fn directory(&self, base: &Path, path: &str) -> Result<PathBuf, PlaceError> {
        let mut current = base.to_owned();
        for part in parts(path)? {
            current.push(part);
            match fs::symlink_metadata(&current) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    fs::create_dir(&current).map_err(PlaceError::io(&current))?;
                }
                Err(error) => return Err(PlaceError::io(&current)(error)),
                Ok(_) => current = self.inside(&current)?,
            }
        }
        Ok(current)
    }

    /// Makes `path` below `base` a link to `target`.
    pub(crate) fn link(&self, base: &Path, path: &str, target: &Path) -> Result<(), PlaceError> {
        let place = self.file(base, path)?;
        // What an image or another volume has there is hidden by a mount; here it is replaced, if it is nothing.
        match fs::symlink_metadata(&place) {
            Ok(known) if known.is_dir() => fs::remove_dir(&place).map_err(PlaceError::io(&place))?,
            Ok(_) => fs::remove_file(&place).map_err(PlaceError::io(&place))?,
            Err(_) => {}
        }
        std::os::unix::fs::symlink(target, &place).map_err(PlaceError::io(&place))
    }

    /// The path of a file below `base`, in a directory that is made if it is missing.
    pub(crate) fn file(&self, base: &Path, path: &str) -> Result<PathBuf, PlaceError> {
        let mut all = parts(path)?;
        let Some(name) = all.pop() else { return Err(PlaceError::Path(path.to_owned())) };
        let parent = all.iter().collect::<PathBuf>();
        Ok(self.directory(base, &parent.to_string_lossy())?.join(name))
    }

    /// A path with its links resolved, if it is still within the pod's directory.
    pub(crate) fn inside(&self, path: &Path) -> Result<PathBuf, PlaceError> {
        let real = path.canonicalize().map_err(PlaceError::io(path))?;
        if real.starts_with(&self.0) { Ok(real) } else { Err(PlaceError::Escape(path.to_owned())) }
    }

    /// Removes all of it; links are removed, not what they lead to.
    pub(crate) fn remove(self) {
        if namespace::is_mount_below(&self.0) {
            return tracing::warn!(path = %self.0.display(), "something is mounted in a pod's directory, so it stays");
        }
        if let Err(error) = fs::remove_dir_all(&self.0)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::debug!(%error, path = %self.0.display(), "the files of a pod remain");
        }
    }
}

/// The names in a path; a slash in front means nothing, since all is below some base.
fn parts(path: &str) -> Result<Vec<&std::ffi::OsStr>, PlaceError> {
    let mut names = Vec::new();
    for component in Path::new(path).components() {
        match component {
            Component::Normal(name) => names.push(name),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => return Err(PlaceError::Path(path.to_owned())),
        }
    }
    Ok(names)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn paths_stay_below_their_base() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let outside = base.join("outside");
        fs::create_dir(&outside).unwrap();
        let pod = PodDir::new(&base.join("node"), "u").unwrap();
        let root = pod.fresh_root("c").unwrap();
        assert!(pod.directory(&root, "/a/b").unwrap().ends_with("containers/c/root/a/b"));
        assert!(matches!(pod.directory(&root, "/a/../../x"), Err(PlaceError::Path(_))));
        assert!(matches!(pod.file(&root, "/"), Err(PlaceError::Path(_))));
        assert!(matches!(PodDir::new(&base, "../u"), Err(PlaceError::Path(_))));

        symlink(&outside, root.join("trap")).unwrap();
        assert!(matches!(pod.directory(&root, "/trap/x"), Err(PlaceError::Escape(_))));
        assert!(matches!(pod.link(&root, "/trap/x", &root), Err(PlaceError::Escape(_))));
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    }

    #[test]
    fn mounts_are_links_and_may_lie_within_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let pod = PodDir::new(&dir.path().canonicalize().unwrap(), "u").unwrap();
        let root = pod.fresh_root("c").unwrap();
        let (one, two) = (pod.volume("one"), pod.volume("two"));
        fs::create_dir_all(&one).unwrap();
        fs::create_dir_all(&two).unwrap();
        pod.link(&root, "/data", &one).unwrap();
        pod.link(&root, "/data/more", &two).unwrap();
        fs::write(root.join("data/more/x"), "1").unwrap();
        assert!(two.join("x").exists());
        pod.link(&root, "/data/more", &two).unwrap();
    }
}
