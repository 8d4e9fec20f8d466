//! Mount namespaces: volumes at the paths where pods mount them, if the system allows it.
//!
//! A process in its own mount namespace gets another root directory. This root shows all entries of the root of the
//! host, and in addition the volumes of the container. It consists of empty directories and files in the directory of
//! the pod; the entries of the host and the volumes are mounted on them. The mounts are visible in the namespace only,
//! so the host is not changed.
//!
//! If the path of a volume exists on the host and is not an empty directory, the volume is not mounted there. It is
//! then only a link below the working directory, as all volumes are on a system without mount namespaces.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Stdio;

use crate::node::storage::mounts::{bind_line, is_mount_below};
use crate::node::storage::pod_dir::PathError;

/// The script that starts a container in its view. It waits for a line on standard input, mounts the entries of the
/// mount tables, changes to the root of the view and starts the command in the working directory. An entry of the host
/// that cannot be mounted is left out. A volume that cannot be mounted is an error.
pub(crate) const ENTER_SCRIPT: &str = r#"read -r _ || exit 137
mount=$1 table=$2 chroot=$3 root=$4; shift 4
"$mount" -T "$table.host" -a 2>/dev/null
"$mount" -T "$table" -a || exit 125
exec "$chroot" "$root" /bin/sh -c 'cd "$1" && shift && unset OLDPWD && exec "$@" </dev/null' sh "$@""#;

/// File systems of the kernel. No volume is mounted below them.
const KERNEL_DIRS: [&str; 3] = ["/proc", "/sys", "/dev"];
/// Maximum number of entries in a view. A view with more entries would make the start of a container slow, so the
/// volumes are only links then.
const MAX_ENTRIES: usize = 2_000;

/// How to create mount namespaces on this machine.
#[derive(Clone, Debug)]
pub(crate) struct MountNamespaces {
    /// The `unshare` command with its arguments.
    unshare: Vec<String>,
    mount: PathBuf,
    chroot: PathBuf,
}

/// The root directory that one container sees.
#[derive(Clone, Debug)]
pub(crate) struct MountView {
    root: PathBuf,
    /// Mount table of the volumes. The table of the entries of the host has the same name and the extension `.host`.
    table: PathBuf,
    how: MountNamespaces,
}

/// One entry of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Entry {
    Directory,
    /// A symbolic link with this target.
    Link(PathBuf),
    /// A mount of this path of the host. It is a volume if the path differs from the path of the entry.
    Mount(PathBuf),
}

impl MountNamespaces {
    /// Tests whether the system allows mount namespaces: with the privileges of this process, or in a user namespace.
    /// `None` if it allows neither.
    pub(crate) async fn probe(dir: &Path, path: &str) -> Option<Self> {
        let find = |name: &str| {
            let dirs = path.split(':').chain(["/usr/sbin", "/sbin", "/usr/bin", "/bin"]);
            dirs.map(|dir| Path::new(dir).join(name)).find(|program| program.is_file())
        };
        let (unshare, mount, chroot) = (find("unshare")?, find("mount")?, find("chroot")?);
        // This is the default. It is explicit because the mounts must not be visible outside of the namespace.
        let private = ["--mount", "--propagation", "private"];
        for rights in [&[][..], &["--user", "--map-root-user"][..]] {
            let words = rights.iter().chain(&private).map(|word| (*word).to_owned());
            let unshare = std::iter::once(unshare.display().to_string()).chain(words).collect();
            let how = Self { unshare, mount: mount.clone(), chroot: chroot.clone() };
            if how.works(dir).await {
                return Some(how);
            }
        }
        None
    }

    /// Starts a command in a test view, with all steps that a container needs.
    async fn works(&self, dir: &Path) -> bool {
        let (root, table) = (dir.join("probe"), dir.join("probe.table"));
        let prepared = fs::create_dir_all(&root)
            .and_then(|()| fs::write(&table, bind_line(Path::new("/"), &root)))
            .and_then(|()| root.canonicalize());
        let Ok(root) = prepared else { return false };
        let view = MountView { root: root.clone(), table: table.clone(), how: self.clone() };
        let command_line = view.command(Path::new("/"));
        let Some((program, arguments)) = command_line.split_first() else { return false };
        let mut command = tokio::process::Command::new(program);
        command.args(arguments).arg("/bin/sh").args(["-c", "exit 0"]).env_clear().kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let Ok(mut child) = command.spawn() else { return false };
        if let Some(mut gate) = child.stdin.take() {
            let _ = tokio::io::AsyncWriteExt::write_all(&mut gate, b"\n").await;
        }
        let worked = child.wait().await.is_ok_and(|status| status.success());
        let is_private = !is_mount_below(&root);
        let _ = fs::remove_file(&table);
        let _ = fs::remove_dir(&root);
        worked && is_private
    }

    /// Creates the view for a container with these mounts: pairs of mount path and volume. `None` if no mount path is
    /// free on the host. `container_dir` is the directory of the container, `node_dir` that of the node.
    pub(crate) fn view(
        &self,
        container_dir: &Path,
        node_dir: &Path,
        mounts: &[(PathBuf, PathBuf)],
    ) -> Result<Option<MountView>, PathError> {
        let Some(entries) = plan(node_dir, mounts) else { return Ok(None) };
        let root = container_dir.join("view");
        let table = container_dir.join("view.table");
        remove(&root)?;
        fs::create_dir_all(&root).map_err(PathError::io(&root))?;
        let (mut host, mut volumes) = (String::new(), String::new());
        for (path, entry) in &entries {
            let inside = root.join(path.strip_prefix("/").unwrap_or(path));
            let made = match entry {
                Entry::Directory => fs::create_dir_all(&inside),
                Entry::Link(to) => std::os::unix::fs::symlink(to, &inside),
                Entry::Mount(source) if source.is_dir() => fs::create_dir_all(&inside),
                Entry::Mount(_) => fs::write(&inside, ""),
            };
            made.map_err(PathError::io(&inside))?;
            if let Entry::Mount(source) = entry {
                let lines = if source == path { &mut host } else { &mut volumes };
                lines.push_str(&bind_line(source, &inside));
            }
        }
        fs::write(&table, volumes).map_err(PathError::io(&table))?;
        let table_of_host = container_dir.join("view.table.host");
        fs::write(&table_of_host, host).map_err(PathError::io(&table_of_host))?;
        Ok(Some(MountView { root, table, how: self.clone() }))
    }
}

impl MountView {
    /// The command line that enters the view and waits for a line on standard input. The caller appends the program and
    /// its arguments.
    pub(crate) fn command(&self, directory: &Path) -> Vec<String> {
        let text = |path: &Path| path.display().to_string();
        let Self { root, table, how } = self;
        let script = ["/bin/sh".to_owned(), "-c".to_owned(), ENTER_SCRIPT.to_owned(), "sh".to_owned()];
        let paths = [text(&how.mount), text(table), text(&how.chroot), text(root), text(directory)];
        how.unshare.iter().cloned().chain(script).chain(paths).collect()
    }
}

/// The entries of a view in the order in which they are created; `None` if no volume can be mounted.
fn plan(node_dir: &Path, mounts: &[(PathBuf, PathBuf)]) -> Option<Vec<(PathBuf, Entry)>> {
    let mut added: Vec<(PathBuf, PathBuf)> = Vec::new();
    // Directories of the host that contain a volume directly or below them.
    let mut opened = BTreeSet::new();
    for (path, volume) in mounts {
        // A mount within another one is already a link within the volume of the outer one.
        if mounts.iter().any(|(other, _)| other != path && path.starts_with(other)) {
            continue;
        }
        let Some((base, target)) = free_target(path) else { continue };
        if KERNEL_DIRS.iter().any(|kernel| base.starts_with(kernel))
            || base.starts_with(node_dir)
            || node_dir.starts_with(&target)
        {
            continue;
        }
        opened.extend(base.ancestors().map(Path::to_owned));
        added.push((target, volume.clone()));
    }
    if added.is_empty() {
        return None;
    }
    let mut entries = Vec::new();
    for directory in &opened {
        entries.push((directory.clone(), Entry::Directory));
        for found in fs::read_dir(directory).ok()?.flatten() {
            let path = found.path();
            let is_taken = opened.contains(&path) || added.iter().any(|(target, _)| *target == path);
            match found.file_type() {
                _ if is_taken => {}
                Ok(kind) if kind.is_symlink() => entries.push((path.clone(), Entry::Link(fs::read_link(&path).ok()?))),
                Ok(_) => entries.push((path.clone(), Entry::Mount(path))),
                Err(_) => {}
            }
        }
        if entries.len() > MAX_ENTRIES {
            return None;
        }
    }
    // The host directory that contains this view is mounted first. Otherwise everything that is already mounted on the
    // view would be mounted again inside that directory.
    entries.sort_by_key(|(path, entry)| {
        (!matches!(entry, Entry::Directory), !(matches!(entry, Entry::Mount(_)) && node_dir.starts_with(path)))
    });
    for (target, volume) in added {
        entries.extend(target.parent().map(|parent| (parent.to_owned(), Entry::Directory)));
        entries.push((target, Entry::Mount(volume)));
    }
    Some(entries)
}

/// Where a volume with this mount path can be mounted: the deepest existing directory of the host, without symbolic
/// links, and the target below it. `None` if the path is not free.
fn free_target(path: &Path) -> Option<(PathBuf, PathBuf)> {
    if !path.is_absolute() || path.components().any(|part| !matches!(part, Component::RootDir | Component::Normal(_))) {
        return None;
    }
    if let Ok(mut entries) = fs::read_dir(path) {
        let target = path.canonicalize().ok()?;
        let base = target.parent()?.to_owned();
        return entries.next().is_none().then_some((base, target));
    }
    if fs::symlink_metadata(path).is_ok() {
        return None;
    }
    let known = path.ancestors().find(|ancestor| fs::symlink_metadata(ancestor).is_ok())?;
    let base = known.canonicalize().ok().filter(|base| base.is_dir())?;
    let target = base.join(path.strip_prefix(known).ok()?);
    Some((base, target))
}

/// Removes an old view. Refuses if a mount on it is visible outside of the namespace, because the removal would then
/// delete files of the host.
fn remove(root: &Path) -> Result<(), PathError> {
    if is_mount_below(root) {
        return Err(PathError::Escape(root.to_owned()));
    }
    match fs::remove_dir_all(root) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(PathError::io(root)(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn volumes_are_mounted_at_free_paths_only() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        fs::create_dir_all(base.join("empty")).unwrap();
        fs::create_dir_all(base.join("full/x")).unwrap();
        fs::write(base.join("file"), "").unwrap();
        std::os::unix::fs::symlink(base.join("full"), base.join("link")).unwrap();
        let target = |path: &str| free_target(&base.join(path));
        assert_eq!(target("new/deep"), Some((base.clone(), base.join("new/deep"))));
        assert_eq!(target("empty"), Some((base.clone(), base.join("empty"))));
        assert_eq!(target("link/new"), Some((base.join("full"), base.join("full/new"))));
        assert_eq!(target("full"), None);
        assert_eq!(target("file"), None);
        assert_eq!(target("file/x"), None);
        assert_eq!(target("../x"), None);
    }

    #[test]
    fn a_view_has_the_entries_of_the_host_and_the_volume() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        fs::write(base.join("file"), "").unwrap();
        let mounts = [(base.join("data"), PathBuf::from("/volume")), (base.join("data/more"), PathBuf::from("/other"))];
        let entries = plan(Path::new("/sandbox"), &mounts).unwrap();
        assert_eq!(entries.last(), Some(&(base.join("data"), Entry::Mount(PathBuf::from("/volume")))));
        assert!(entries.contains(&(base.join("file"), Entry::Mount(base.join("file")))));
        assert!(entries.contains(&(base.clone(), Entry::Directory)));
        assert!(entries.contains(&(PathBuf::from("/usr"), Entry::Mount(PathBuf::from("/usr")))));
        assert_eq!(plan(&base, &mounts), None, "not within the directory of the node");
    }
}
