//! Directories that only the user of this process can read.
//!
//! The directories of a sandbox contain secrets: objects of the API server, volumes, inputs, outputs and logs of tasks.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Permissions of a private directory: only its owner may list, read and change it.
const PRIVATE: u32 = 0o700;
/// Permissions of the owner's group and of all other users.
const OTHERS: u32 = 0o077;
/// The bit of directories that several users share, like `/tmp`.
const STICKY: u32 = 0o1000;

/// Why a directory cannot be made private.
#[derive(Debug, thiserror::Error)]
pub enum PrivateDirError {
    /// The directory cannot be created, read or changed.
    #[error("failed to {what} {}; check that it belongs to you and that you may write there", .path.display())]
    Io {
        /// The failed operation.
        what: &'static str,
        /// The directory.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The directory is open to other users and is not only used for this purpose.
    #[error("{} can be read by other users and contains other files; choose another directory, or run `chmod 700 {}`",
            .0.display(), .0.display())]
    Shared(PathBuf),
    /// The directory belongs to another user, who can read everything in it and can open it to others at any time.
    #[error("{} belongs to another user; choose another directory, or become its owner with `chown`", .0.display())]
    OtherOwner(PathBuf),
}

/// Creates a directory with the permissions 0700, with its parents.
///
/// If the directory exists with wider permissions, they are narrowed to 0700. This is refused if the directory contains
/// files, but none of the names in `own`: then it has another purpose, and other users may depend on it. A directory of
/// another user is refused, whatever its permissions are. This matters if this process runs as root, which may write there.
///
/// # Errors
/// The directory cannot be created or changed, has another purpose, or belongs to another user.
pub fn create_private_dir(path: &Path, own: &[&str]) -> Result<(), PrivateDirError> {
    let failed = |what| move |source| PrivateDirError::Io { what, path: path.to_owned(), source };
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(failed("create"))?;
    }
    match DirBuilder::new().mode(PRIVATE).create(path) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(failed("create")(error)),
    }
    let found = fs::metadata(path).map_err(failed("read"))?;
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(PrivateDirError::OtherOwner(path.to_owned()));
    }
    let mode = found.mode();
    if mode & OTHERS == 0 {
        return Ok(());
    }
    let is_empty = fs::read_dir(path).map_err(failed("read"))?.next().is_none();
    let has_own = own.iter().any(|name| path.join(name).symlink_metadata().is_ok());
    if !may_narrow(mode, is_empty, has_own) {
        return Err(PrivateDirError::Shared(path.to_owned()));
    }
    fs::set_permissions(path, Permissions::from_mode(PRIVATE)).map_err(failed("change the permissions of"))
}

/// Whether other users can lose their access to an existing directory.
fn may_narrow(mode: u32, is_empty: bool, has_own: bool) -> bool {
    mode & STICKY == 0 && (is_empty || has_own)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    fn wide(path: &Path) {
        fs::create_dir_all(path).unwrap();
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn a_new_directory_and_an_empty_one_become_private() {
        let dir = tempfile::tempdir().unwrap();
        let (new, empty) = (dir.path().join("a/new"), dir.path().join("empty"));
        wide(&empty);
        for path in [&new, &empty, &new] {
            create_private_dir(path, &[]).unwrap();
            assert_eq!(mode(path), 0o700);
        }
    }

    #[test]
    fn an_earlier_directory_of_the_sandbox_becomes_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        wide(&path);
        fs::write(path.join("other"), "").unwrap();
        let refused = create_private_dir(&path, &["mine"]).unwrap_err().to_string();
        assert!(refused.contains("chmod 700") && refused.contains("state"), "{refused}");
        assert_eq!(mode(&path), 0o755, "a refused directory is not changed");
        fs::write(path.join("mine"), "").unwrap();
        create_private_dir(&path, &["mine"]).unwrap();
        assert_eq!(mode(&path), 0o700);
    }

    #[test]
    fn a_directory_that_users_share_is_never_changed() {
        assert!(!may_narrow(0o1777, true, true));
        assert!(may_narrow(0o755, true, false) && may_narrow(0o755, false, true) && !may_narrow(0o755, false, false));
    }

    /// Root can give a directory away. For others, `/` is one that belongs to somebody else.
    #[test]
    fn a_directory_of_another_user_is_refused_even_if_nobody_else_can_read_it() {
        let dir = tempfile::tempdir().unwrap();
        let given_away = dir.path().join("foreign");
        fs::create_dir(&given_away).unwrap();
        fs::set_permissions(&given_away, Permissions::from_mode(0o700)).unwrap();
        let path = match std::os::unix::fs::chown(&given_away, Some(65_534), None) {
            Ok(()) => given_away.as_path(),
            Err(_) => Path::new("/"),
        };
        let refused = create_private_dir(path, &[]).unwrap_err().to_string();
        assert!(refused.contains("belongs to another user"), "{refused}");
    }

    #[test]
    fn a_file_in_place_of_the_directory_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        assert!(create_private_dir(&path, &[]).unwrap_err().to_string().contains("file"));
    }
}
