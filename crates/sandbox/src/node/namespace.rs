//! Volumes at the very paths where pods mount them, where the system allows it.
//!
//! A process that may have a mount namespace of its own sees, instead of the host's root, a copy of it in which every
//! entry is the host's own, and directories on the way to a mount have that mount as one entry more. The copy is made
//! of empty directories and files below the pod's directory; what is mounted on them is seen in the namespace only,
//! so nothing of the host is touched. A path that is taken on the host, by anything but an empty directory, is left
//! alone: such a mount is a link only, as all are where there are no namespaces.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Stdio;

use super::places::PlaceError;

/// Waits at the gate, mounts what the tables say, enters the root and begins in the working directory. An entry of the
/// host that cannot be shown is left out; a volume must be there.
pub(crate) const ENTER: &str = r#"read -r _ || exit 137
mount=$1 table=$2 chroot=$3 root=$4; shift 4
"$mount" -T "$table.host" -a 2>/dev/null
"$mount" -T "$table" -a || exit 125
exec "$chroot" "$root" /bin/sh -c 'cd "$1" && shift && unset OLDPWD && exec "$@" </dev/null' sh "$@""#;

/// Nothing is added below these: they are not files.
const SPECIAL: [&str; 3] = ["/proc", "/sys", "/dev"];
/// A directory on the way to a mount that has more entries than this is not worth it.
const MOST_ENTRIES: usize = 2_000;

/// How to make a namespace on this machine.
#[derive(Clone, Debug)]
pub(crate) struct Namespaces {
    unshare: Vec<String>,
    mount: PathBuf,
    chroot: PathBuf,
}

/// The root that one container sees.
#[derive(Clone, Debug)]
pub(crate) struct View {
    root: PathBuf,
    table: PathBuf,
    how: Namespaces,
}

/// One entry of the copied root.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Entry {
    Directory,
    Link(PathBuf),
    /// What is at the path outside, or at another one.
    Mount(PathBuf),
}

impl Namespaces {
    /// Finds out whether processes may have namespaces here, with privileges or as they are.
    pub(crate) async fn probe(dir: &Path, path: &str) -> Option<Self> {
        let find = |name: &str| {
            let places = path.split(':').chain(["/usr/sbin", "/sbin", "/usr/bin", "/bin"]);
            places.map(|place| Path::new(place).join(name)).find(|program| program.is_file())
        };
        let (unshare, mount, chroot) = (find("unshare")?, find("mount")?, find("chroot")?);
        // Said, although it is the default: what is mounted must not be seen outside.
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

    /// Tries all that a container will need.
    async fn works(&self, dir: &Path) -> bool {
        let (root, table) = (dir.join("probe"), dir.join("probe.table"));
        let prepared = fs::create_dir_all(&root)
            .and_then(|()| fs::write(&table, line(Path::new("/"), &root)))
            .and_then(|()| root.canonicalize());
        let Ok(root) = prepared else { return false };
        let view = View { root: root.clone(), table: table.clone(), how: self.clone() };
        let words = view.words(Path::new("/"));
        let Some((program, arguments)) = words.split_first() else { return false };
        let mut command = tokio::process::Command::new(program);
        command.args(arguments).arg("/bin/sh").args(["-c", "exit 0"]).env_clear().kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let Ok(mut child) = command.spawn() else { return false };
        if let Some(mut gate) = child.stdin.take() {
            let _ = tokio::io::AsyncWriteExt::write_all(&mut gate, b"\n").await;
        }
        let worked = child.wait().await.is_ok_and(|status| status.success());
        let unseen = !is_mount_below(&root);
        let _ = fs::remove_file(&table);
        let _ = fs::remove_dir(&root);
        worked && unseen
    }

    /// Makes the root for a container with these mounts, `(path, what is there)`. `None` if no mount has a path that
    /// can be added to the host's.
    pub(crate) fn view(
        &self,
        place: &Path,
        sandbox: &Path,
        mounts: &[(PathBuf, PathBuf)],
    ) -> Result<Option<View>, PlaceError> {
        let Some(entries) = plan(sandbox, mounts) else { return Ok(None) };
        let root = place.join("view");
        let table = place.join("view.table");
        remove(&root)?;
        fs::create_dir_all(&root).map_err(PlaceError::io(&root))?;
        let (mut host, mut volumes) = (String::new(), String::new());
        for (path, entry) in &entries {
            let inside = root.join(path.strip_prefix("/").unwrap_or(path));
            let made = match entry {
                Entry::Directory => fs::create_dir_all(&inside),
                Entry::Link(to) => std::os::unix::fs::symlink(to, &inside),
                Entry::Mount(what) if what.is_dir() => fs::create_dir_all(&inside),
                Entry::Mount(_) => fs::write(&inside, ""),
            };
            made.map_err(PlaceError::io(&inside))?;
            if let Entry::Mount(what) = entry {
                let lines = if what == path { &mut host } else { &mut volumes };
                lines.push_str(&line(what, &inside));
            }
        }
        fs::write(&table, volumes).map_err(PlaceError::io(&table))?;
        let table_of_host = place.join("view.table.host");
        fs::write(&table_of_host, host).map_err(PlaceError::io(&table_of_host))?;
        Ok(Some(View { root, table, how: self.clone() }))
    }
}

impl View {
    /// The command that enters the view and waits at the gate; what it is to run follows.
    pub(crate) fn words(&self, directory: &Path) -> Vec<String> {
        let text = |path: &Path| path.display().to_string();
        let Self { root, table, how } = self;
        let script = ["/bin/sh".to_owned(), "-c".to_owned(), ENTER.to_owned(), "sh".to_owned()];
        let places = [text(&how.mount), text(table), text(&how.chroot), text(root), text(directory)];
        how.unshare.iter().cloned().chain(script).chain(places).collect()
    }
}

/// The entries of the copied root in the order in which they are made, or `None` if no mount can be added.
fn plan(sandbox: &Path, mounts: &[(PathBuf, PathBuf)]) -> Option<Vec<(PathBuf, Entry)>> {
    let mut added: Vec<(PathBuf, PathBuf)> = Vec::new();
    let mut opened = BTreeSet::new();
    for (path, what) in mounts {
        // A mount within another is a link within its volume.
        if mounts.iter().any(|(other, _)| other != path && path.starts_with(other)) {
            continue;
        }
        let Some((base, place)) = free_place(path) else { continue };
        if SPECIAL.iter().any(|special| base.starts_with(special))
            || base.starts_with(sandbox)
            || sandbox.starts_with(&place)
        {
            continue;
        }
        opened.extend(base.ancestors().map(Path::to_owned));
        added.push((place, what.clone()));
    }
    if added.is_empty() {
        return None;
    }
    let mut entries = Vec::new();
    for directory in &opened {
        entries.push((directory.clone(), Entry::Directory));
        for found in fs::read_dir(directory).ok()?.flatten() {
            let path = found.path();
            let is_taken = opened.contains(&path) || added.iter().any(|(place, _)| *place == path);
            match found.file_type() {
                _ if is_taken => {}
                Ok(kind) if kind.is_symlink() => entries.push((path.clone(), Entry::Link(fs::read_link(&path).ok()?))),
                Ok(_) => entries.push((path.clone(), Entry::Mount(path))),
                Err(_) => {}
            }
        }
        if entries.len() > MOST_ENTRIES {
            return None;
        }
    }
    // First what holds this very copy, or all that is mounted on the copy would be mounted once more within it.
    entries.sort_by_key(|(path, entry)| {
        (!matches!(entry, Entry::Directory), !(matches!(entry, Entry::Mount(_)) && sandbox.starts_with(path)))
    });
    for (place, what) in added {
        entries.extend(place.parent().map(|parent| (parent.to_owned(), Entry::Directory)));
        entries.push((place, Entry::Mount(what)));
    }
    Some(entries)
}

/// Where a mount can be added to the host's files: the deepest directory that exists, with no links in its path, and
/// the place below it. `None` if something is there already.
fn free_place(path: &Path) -> Option<(PathBuf, PathBuf)> {
    if !path.is_absolute() || path.components().any(|part| !matches!(part, Component::RootDir | Component::Normal(_))) {
        return None;
    }
    if let Ok(mut entries) = fs::read_dir(path) {
        let place = path.canonicalize().ok()?;
        let base = place.parent()?.to_owned();
        return entries.next().is_none().then_some((base, place));
    }
    if fs::symlink_metadata(path).is_ok() {
        return None;
    }
    let known = path.ancestors().find(|ancestor| fs::symlink_metadata(ancestor).is_ok())?;
    let base = known.canonicalize().ok().filter(|base| base.is_dir())?;
    let place = base.join(path.strip_prefix(known).ok()?);
    Some((base, place))
}

/// A line in the table of mounts.
fn line(what: &Path, place: &Path) -> String {
    format!("{} {} none rbind 0 0\n", escaped(what), escaped(place))
}

/// A path as tables of mounts have it: there are blanks between their fields.
fn escaped(path: &Path) -> String {
    let escape = |letter: char| match letter {
        ' ' | '\t' | '\n' | '\\' | '#' => format!("\\{:03o}", u32::from(letter)),
        letter => letter.to_string(),
    };
    path.display().to_string().chars().map(escape).collect()
}

/// Whether this process sees anything mounted at a path or below it.
pub(crate) fn is_mount_below(path: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let path = PathBuf::from(escaped(path));
    mounts.lines().filter_map(|line| line.split(' ').nth(4)).any(|place| Path::new(place).starts_with(&path))
}

/// Removes a copied root, but never what is mounted on it, should that be seen out here against all precautions.
fn remove(root: &Path) -> Result<(), PlaceError> {
    if is_mount_below(root) {
        return Err(PlaceError::Escape(root.to_owned()));
    }
    match fs::remove_dir_all(root) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(PlaceError::io(root)(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn only_free_paths_are_added() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        fs::create_dir_all(base.join("empty")).unwrap();
        fs::create_dir_all(base.join("full/x")).unwrap();
        fs::write(base.join("file"), "").unwrap();
        std::os::unix::fs::symlink(base.join("full"), base.join("link")).unwrap();
        let place = |path: &str| free_place(&base.join(path));
        assert_eq!(place("new/deep"), Some((base.clone(), base.join("new/deep"))));
        assert_eq!(place("empty"), Some((base.clone(), base.join("empty"))));
        assert_eq!(place("link/new"), Some((base.join("full"), base.join("full/new"))));
        assert_eq!(place("full"), None);
        assert_eq!(place("file"), None);
        assert_eq!(place("file/x"), None);
        assert_eq!(place("../x"), None);
    }

    #[test]
    fn the_copy_has_all_entries_on_the_way_and_the_mount() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        fs::write(base.join("file"), "").unwrap();
        let mounts = [(base.join("data"), PathBuf::from("/volume")), (base.join("data/more"), PathBuf::from("/other"))];
        let entries = plan(Path::new("/sandbox"), &mounts).unwrap();
        assert_eq!(entries.last(), Some(&(base.join("data"), Entry::Mount(PathBuf::from("/volume")))));
        assert!(entries.contains(&(base.join("file"), Entry::Mount(base.join("file")))));
        assert!(entries.contains(&(base.clone(), Entry::Directory)));
        assert!(entries.contains(&(PathBuf::from("/usr"), Entry::Mount(PathBuf::from("/usr")))));
        assert_eq!(plan(&base, &mounts), None, "not within the sandbox's own directory");
    }

    #[test]
    fn a_table_has_no_blanks_in_its_fields() {
        assert_eq!(line(Path::new("/a b"), Path::new("/c\\d")), "/a\\040b /c\\134d none rbind 0 0\n");
    }
}
