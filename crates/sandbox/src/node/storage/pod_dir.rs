//! The directory of a pod. Paths from a pod never lead out of it.
//!
//! ```text
//! <dir>/pods/<uid>/volumes/<volume>
//! <dir>/pods/<uid>/containers/<name>/root   root and working directory of the container, new at each start
//! <dir>/pods/<uid>/containers/<name>/tmp    TMPDIR of the container
//! <dir>/pods/<uid>/containers/<name>/view   root in the mount namespace of the container, if it has one
//! <dir>/pods/<uid>/logs/<name>/<restarts>.log
//! ```

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};

use super::mounts;

/// The directory of one pod.
#[derive(Clone, Debug)]
pub(crate) struct PodDir(PathBuf);

/// Why a path cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PathError {
    #[error("{0:?} must not contain \"..\" and must not be empty")]
    Invalid(String),
    #[error("{0:?} cannot be the name of a directory; use a name of lower-case letters, digits and \"-\"")]
    Name(String),
    #[error("{} leads out of the sandbox", .0.display())]
    Escape(PathBuf),
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl PathError {
    /// Converts an I/O error at this path.
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }
}

impl PodDir {
    /// The directory of the pod with this uid; it need not exist. The path `dir` must not contain symbolic links.
    pub(crate) fn new(dir: &Path, uid: &str) -> Result<Self, PathError> {
        Ok(Self(dir.join("pods").join(plain_name(uid)?)))
    }

    /// Creates the directory. Other users cannot read it, because volumes and logs may contain secrets.
    pub(crate) fn create(&self) -> Result<(), PathError> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.0).map_err(PathError::io(&self.0))?;
        // The mode above has no effect on a directory of an earlier start.
        fs::set_permissions(&self.0, fs::Permissions::from_mode(0o700)).map_err(PathError::io(&self.0))
    }

    /// The directory of a volume.
    pub(crate) fn volume(&self, name: &str) -> Result<PathBuf, PathError> {
        Ok(self.0.join("volumes").join(plain_name(name)?))
    }

    /// The directory of a container.
    pub(crate) fn container(&self, name: &str) -> Result<PathBuf, PathError> {
        Ok(self.0.join("containers").join(plain_name(name)?))
    }

    /// The root of a container.
    pub(crate) fn root(&self, container: &str) -> Result<PathBuf, PathError> {
        Ok(self.container(container)?.join("root"))
    }

    /// The directory for temporary files of a container.
    pub(crate) fn temporary(&self, container: &str) -> Result<PathBuf, PathError> {
        Ok(self.container(container)?.join("tmp"))
    }

    /// The log file of a container after this number of restarts.
    pub(crate) fn log(&self, container: &str, restarts: u32) -> Result<PathBuf, PathError> {
        Ok(self.0.join("logs").join(plain_name(container)?).join(format!("{restarts}.log")))
    }

    /// Creates an empty root for a container. An existing one is removed.
    pub(crate) fn fresh_root(&self, container: &str) -> Result<PathBuf, PathError> {
        let root = self.root(container)?;
        match fs::remove_dir_all(&root) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(PathError::io(&root)(error)),
            _ => fs::create_dir_all(&root).map_err(PathError::io(&root))?,
        }
        Ok(root)
    }

    /// The directory at `path` below `base`. Missing directories are created. Symbolic links are followed only within
    /// the directory of the pod.
    pub(crate) fn directory(&self, base: &Path, path: &str) -> Result<PathBuf, PathError> {
        let mut current = base.to_owned();
        for part in parts(path)? {
            current.push(part);
            match fs::symlink_metadata(&current) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    fs::create_dir(&current).map_err(PathError::io(&current))?;
                }
                Err(error) => return Err(PathError::io(&current)(error)),
                Ok(_) => current = self.resolve_inside(&current)?,
            }
        }
        Ok(current)
    }

    /// Creates a symbolic link at `path` below `base` that points to `target`.
    pub(crate) fn link(&self, base: &Path, path: &str, target: &Path) -> Result<(), PathError> {
        let link = self.file(base, path)?;
        // A real mount would hide a file or directory at this path. Here a file or an empty directory is replaced.
        match fs::symlink_metadata(&link) {
            Ok(known) if known.is_dir() => fs::remove_dir(&link).map_err(PathError::io(&link))?,
            Ok(_) => fs::remove_file(&link).map_err(PathError::io(&link))?,
            Err(_) => {}
        }
        std::os::unix::fs::symlink(target, &link).map_err(PathError::io(&link))
    }

    /// The path of a file below `base`. Missing parent directories are created.
    pub(crate) fn file(&self, base: &Path, path: &str) -> Result<PathBuf, PathError> {
        let mut all = parts(path)?;
        let Some(name) = all.pop() else { return Err(PathError::Invalid(path.to_owned())) };
        let parent = all.iter().collect::<PathBuf>();
        Ok(self.directory(base, &parent.to_string_lossy())?.join(name))
    }

    /// The path without symbolic links. An error if it leads out of the directory of the pod.
    pub(crate) fn resolve_inside(&self, path: &Path) -> Result<PathBuf, PathError> {
        let real = path.canonicalize().map_err(PathError::io(path))?;
        if real.starts_with(&self.0) { Ok(real) } else { Err(PathError::Escape(path.to_owned())) }
    }

    /// Removes the directory. Symbolic links are removed, but not their targets.
    pub(crate) fn remove(self) {
        if mounts::is_mount_below(&self.0) {
            return tracing::warn!(path = %self.0.display(), "the directory of a pod is not removed, because it contains a mount");
        }
        if let Err(error) = fs::remove_dir_all(&self.0)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::debug!(%error, path = %self.0.display(), "failed to remove the files of a pod");
        }
    }
}

/// The name, if it can only be the name of an entry of a directory. The API server checks the names of containers and
/// volumes too, but the node must not write anywhere else even if it gets a pod that was not checked.
fn plain_name(name: &str) -> Result<&str, PathError> {
    // `Path` would ignore a slash at the end.
    match Path::new(name).components().collect::<Vec<_>>()[..] {
        [Component::Normal(only)] if only == name && !name.contains('\0') => Ok(name),
        _ => Err(PathError::Name(name.to_owned())),
    }
}

/// The names in a path. A leading slash is ignored, because all paths are below a base directory.
fn parts(path: &str) -> Result<Vec<&std::ffi::OsStr>, PathError> {
    let mut names = Vec::new();
    for component in Path::new(path).components() {
        match component {
            Component::Normal(name) => names.push(name),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => return Err(PathError::Invalid(path.to_owned())),
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
        assert!(matches!(pod.directory(&root, "/a/../../x"), Err(PathError::Invalid(_))));
        assert!(matches!(pod.file(&root, "/"), Err(PathError::Invalid(_))));

        symlink(&outside, root.join("trap")).unwrap();
        assert!(matches!(pod.directory(&root, "/trap/x"), Err(PathError::Escape(_))));
        assert!(matches!(pod.link(&root, "/trap/x", &root), Err(PathError::Escape(_))));
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    }

    #[test]
    fn names_that_are_paths_are_refused() {
        let pod = PodDir::new(Path::new("/node"), "u").unwrap();
        for name in ["", ".", "..", "../x", "/home/u/.ssh", "a/b", "a/", "/", "a\0b"] {
            assert!(matches!(PodDir::new(Path::new("/node"), name), Err(PathError::Name(_))), "{name:?}");
            for path in [pod.volume(name), pod.container(name), pod.root(name), pod.temporary(name), pod.log(name, 1)] {
                assert!(matches!(path, Err(PathError::Name(_))), "{name:?}: {path:?}");
            }
            assert!(matches!(pod.fresh_root(name), Err(PathError::Name(_))), "{name:?}");
        }
        assert_eq!(pod.volume("a").unwrap(), Path::new("/node/pods/u/volumes/a"));
        assert_eq!(pod.log("a", 2).unwrap(), Path::new("/node/pods/u/logs/a/2.log"));
    }

    #[test]
    fn a_pod_directory_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let pod = PodDir::new(dir.path(), "u").unwrap();
        let path = dir.path().join("pods/u");
        for _ in 0..2 {
            pod.create().unwrap();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }

    #[test]
    fn a_link_may_be_within_the_target_of_another() {
        let dir = tempfile::tempdir().unwrap();
        let pod = PodDir::new(&dir.path().canonicalize().unwrap(), "u").unwrap();
        let root = pod.fresh_root("c").unwrap();
        let (one, two) = (pod.volume("one").unwrap(), pod.volume("two").unwrap());
        fs::create_dir_all(&one).unwrap();
        fs::create_dir_all(&two).unwrap();
        pod.link(&root, "/data", &one).unwrap();
        pod.link(&root, "/data/more", &two).unwrap();
        fs::write(root.join("data/more/x"), "1").unwrap();
        assert!(two.join("x").exists());
        pod.link(&root, "/data/more", &two).unwrap();
    }
}
