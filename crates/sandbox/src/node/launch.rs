//! How a container's process is started: in which directory, with what on its path, and with what mounted.
//!
//! A container's root is a directory and its mounts are links below it: a volume mounted at `/data` is `data` in the
//! working directory and `$AILERON_SANDBOX_ROOT/data` anywhere; where the system allows, it is at `/data` as well. A
//! command that is an absolute path is looked for below the root first.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Container, VolumeMount};

use super::expand::expand;
use super::images::Image;
use super::places::{PlaceError, PodDir};
use super::process::Launch;

/// Where the message of an ended container is, unless it says otherwise.
const MESSAGE_PATH: &str = "/dev/termination-log";

/// What a container finds besides what its pod says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surroundings<'a> {
    pub image: &'a Image,
    pub path: &'a [PathBuf],
    pub host_path: &'a str,
    pub pod: &'a str,
}

/// The file into which the container may write its last words.
pub(crate) fn message_file(container: &Container, dir: &PodDir, root: &Path) -> Result<PathBuf, PlaceError> {
    let path = container.termination_message_path.as_deref().filter(|path| !path.is_empty()).unwrap_or(MESSAGE_PATH);
    dir.file(root, path)
}

/// Links the volumes into the root, outer ones before those within them. Gives the paths of the mounts and what is
/// there.
pub(crate) fn mount(
    container: &Container,
    dir: &PodDir,
    root: &Path,
    variables: &BTreeMap<String, String>,
) -> Result<Vec<(PathBuf, PathBuf)>, PlaceError> {
    let mut mounted = Vec::new();
    let mut mounts: Vec<&VolumeMount> = container.volume_mounts.iter().flatten().collect();
    mounts.sort_by_key(|mount| Path::new(&mount.mount_path).components().count());
    for mount in mounts {
        let volume = dir.volume(&mount.name);
        let within = match (&mount.sub_path, &mount.sub_path_expr) {
            (Some(path), _) if !path.is_empty() => path.clone(),
            (_, Some(text)) => expand(text, |name| variables.get(name).map(String::as_str)),
            _ => String::new(),
        };
        let target = sub_path(dir, &volume, &within)?;
        dir.link(root, &mount.mount_path, &target)?;
        mounted.push((PathBuf::from(&mount.mount_path), target));
    }
    Ok(mounted)
}

/// A file or a directory within a volume; a directory if there is nothing.
fn sub_path(dir: &PodDir, volume: &Path, path: &str) -> Result<PathBuf, PlaceError> {
    if path.is_empty() {
        return Ok(volume.to_owned());
    }
    let place = dir.file(volume, path)?;
    if place.is_file() { dir.inside(&place) } else { dir.directory(volume, path) }
}

/// Command, arguments, variables and working directory.
pub(crate) fn assemble(
    container: &Container,
    dir: &PodDir,
    root: &Path,
    mut variables: BTreeMap<String, String>,
    around: &Surroundings<'_>,
) -> Result<Launch, PlaceError> {
    let temporary = dir.temporary(&container.name);
    fs::create_dir_all(&temporary).map_err(PlaceError::io(&temporary))?;
    let directory = dir.directory(root, container.working_dir.as_deref().unwrap_or_default())?;
    let words = container.command.iter().flatten().chain(container.args.iter().flatten());
    let words = words.map(|word| expand(word, |name| variables.get(name).map(String::as_str)));
    let mut words = words.collect::<Vec<_>>().into_iter();
    let mut program = words.next().unwrap_or_default();
    if let Some(below) = program.strip_prefix('/').map(|rest| root.join(rest)).filter(|path| path.is_file()) {
        program = below.display().to_string();
    }
    let first = around.image.programs().into_iter().chain(around.path.iter().cloned());
    let mut places: Vec<String> = first.map(|path| path.display().to_string()).collect();
    places.push(around.host_path.to_owned());
    let mut offer = |name: &str, value: String| {
        variables.entry(name.to_owned()).or_insert(value);
    };
    offer("PATH", places.join(":"));
    offer("HOME", root.display().to_string());
    offer("TMPDIR", temporary.display().to_string());
    offer("HOSTNAME", around.pod.to_owned());
    if let Some(path) = around.image.virtualenv() {
        offer("VIRTUAL_ENV", path.display().to_string());
    }
    Ok(Launch { program, arguments: words.collect(), variables, directory, view: None })
}

/// Copies the files of an image: what a container changes is its own.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), PlaceError> {
    for entry in fs::read_dir(from).map_err(PlaceError::io(from))? {
        let entry = entry.map_err(PlaceError::io(from))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().map_err(PlaceError::io(&source))?;
        if kind.is_dir() {
            fs::create_dir_all(&target).map_err(PlaceError::io(&target))?;
            copy(&source, &target)?;
        } else if kind.is_symlink() {
            let leads_to = fs::read_link(&source).map_err(PlaceError::io(&source))?;
            std::os::unix::fs::symlink(leads_to, &target).map_err(PlaceError::io(&target))?;
        } else if kind.is_file() {
            fs::copy(&source, &target).map_err(PlaceError::io(&target))?;
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_launch_is_put_together() {
        let dir = tempfile::tempdir().unwrap();
        let pod = PodDir::new(&dir.path().canonicalize().unwrap(), "u").unwrap();
        let root = pod.fresh_root("c").unwrap();
        fs::create_dir_all(pod.volume("v")).unwrap();
        fs::write(pod.volume("v").join("tool"), "").unwrap();
        let container: Container = serde_json::from_value(json!({
            "name": "c", "command": ["/data/tool"], "args": ["$(X)", "$(Y)"], "workingDir": "/work",
            "volumeMounts": [{"name": "v", "mountPath": "/data"}, {"name": "v", "mountPath": "/f", "subPath": "tool"}],
        }))
        .unwrap();
        let variables = BTreeMap::from([("X".to_owned(), "1".to_owned()), ("HOME".to_owned(), "/h".to_owned())]);
        mount(&container, &pod, &root, &variables).unwrap();
        assert!(root.join("f").is_file());
        let image = Image::Virtualenv(PathBuf::from("/venv"));
        let path = [PathBuf::from("/extra")];
        let around = Surroundings { image: &image, path: &path, host_path: "/bin", pod: "p" };
        let launch = assemble(&container, &pod, &root, variables, &around).unwrap();
        assert_eq!(launch.program, root.join("data/tool").display().to_string());
        assert_eq!(launch.arguments, ["1", "$(Y)"]);
        assert_eq!(launch.directory, root.join("work"));
        assert_eq!(launch.variables["PATH"], "/venv/bin:/extra:/bin");
        assert_eq!(launch.variables["HOME"], "/h", "what the pod says goes first");
        assert_eq!(launch.variables["HOSTNAME"], "p");
        assert_eq!(launch.variables["VIRTUAL_ENV"], "/venv");
    }

    #[test]
    fn mounts_do_not_lead_out() {
        let dir = tempfile::tempdir().unwrap();
        let pod = PodDir::new(&dir.path().canonicalize().unwrap(), "u").unwrap();
        let root = pod.fresh_root("c").unwrap();
        fs::create_dir_all(pod.volume("v")).unwrap();
        std::os::unix::fs::symlink("/etc", pod.volume("v").join("etc")).unwrap();
        let tried = |mount_path: &str, sub_path: &str| {
            let mounts = json!([{"name": "v", "mountPath": mount_path, "subPath": sub_path}]);
            let container = serde_json::from_value(json!({"name": "c", "volumeMounts": mounts})).unwrap();
            mount(&container, &pod, &root, &BTreeMap::new()).unwrap_err().to_string()
        };
        assert!(tried("/../x", "").contains("must not contain"));
        assert!(tried("/x", "../y").contains("must not contain"));
        assert!(tried("/x", "etc").contains("leads out of the sandbox"));
        assert!(tried("/x", "etc/passwd").contains("leads out of the sandbox"));
    }
}
