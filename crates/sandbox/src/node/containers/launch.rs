//! Prepares the process of a container: working directory, `PATH`, mounts, command.
//!
//! The root of a container is a directory, and its volume mounts are symbolic links below it. A volume that is mounted
//! at `/data` has the path `data` from the working directory and `$AILERON_SANDBOX_ROOT/data` from everywhere. If the
//! system has mount namespaces, it is at `/data` too. A command with an absolute path is first searched below the root.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Container, VolumeMount};

use super::images::Image;
use crate::node::environment::expand::expand;
use crate::node::processes::process::ProcessSpec;
use crate::node::storage::pod_dir::{PathError, PodDir};

/// Default path of the termination message.
const DEFAULT_MESSAGE_PATH: &str = "/dev/termination-log";

/// What the process of a container gets from the node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostEnvironment<'a> {
    pub image: &'a Image,
    /// Directories in which programs are searched after those of the image.
    pub path: &'a [PathBuf],
    /// `PATH` of the host, which is searched last.
    pub host_path: &'a str,
    /// The name of the pod, which is the host name.
    pub pod: &'a str,
}

/// The file in which the container may write its termination message.
pub(crate) fn message_file(container: &Container, dir: &PodDir, root: &Path) -> Result<PathBuf, PathError> {
    let path =
        container.termination_message_path.as_deref().filter(|path| !path.is_empty()).unwrap_or(DEFAULT_MESSAGE_PATH);
    dir.file(root, path)
}

/// Creates the links of all volume mounts below the root; outer mounts before those within them. Returns the mount
/// paths and the targets.
pub(crate) fn link_volumes(
    container: &Container,
    dir: &PodDir,
    root: &Path,
    variables: &BTreeMap<String, String>,
) -> Result<Vec<(PathBuf, PathBuf)>, PathError> {
    let mut mounted = Vec::new();
    let mut mounts: Vec<&VolumeMount> = container.volume_mounts.iter().flatten().collect();
    mounts.sort_by_key(|mount| Path::new(&mount.mount_path).components().count());
    for mount in mounts {
        let volume = dir.volume(&mount.name)?;
        let sub_path_in_volume = match (&mount.sub_path, &mount.sub_path_expr) {
            (Some(path), _) if !path.is_empty() => path.clone(),
            (_, Some(text)) => expand(text, |name| variables.get(name).map(String::as_str)),
            _ => String::new(),
        };
        let target = resolve_sub_path(dir, &volume, &sub_path_in_volume)?;
        dir.link(root, &mount.mount_path, &target)?;
        mounted.push((PathBuf::from(&mount.mount_path), target));
    }
    Ok(mounted)
}

/// The file or directory at a sub-path of a volume. If it does not exist, a directory is created.
fn resolve_sub_path(dir: &PodDir, volume: &Path, path: &str) -> Result<PathBuf, PathError> {
    if path.is_empty() {
        return Ok(volume.to_owned());
    }
    let target = dir.file(volume, path)?;
    if target.is_file() { dir.resolve_inside(&target) } else { dir.directory(volume, path) }
}

/// Determines the command, the arguments, the variables and the working directory.
pub(crate) fn process_spec(
    container: &Container,
    dir: &PodDir,
    root: &Path,
    mut variables: BTreeMap<String, String>,
    host: &HostEnvironment<'_>,
) -> Result<ProcessSpec, PathError> {
    let temporary = dir.temporary(&container.name)?;
    fs::create_dir_all(&temporary).map_err(PathError::io(&temporary))?;
    let directory = dir.directory(root, container.working_dir.as_deref().unwrap_or_default())?;
    let words = container.command.iter().flatten().chain(container.args.iter().flatten());
    let words = words.map(|word| expand(word, |name| variables.get(name).map(String::as_str)));
    let mut words = words.collect::<Vec<_>>().into_iter();
    let mut program = words.next().unwrap_or_default();
    if let Some(below) = program.strip_prefix('/').map(|rest| root.join(rest)).filter(|path| path.is_file()) {
        program = below.display().to_string();
    }
    let first = host.image.programs().into_iter().chain(host.path.iter().cloned());
    let mut search_path: Vec<String> = first.map(|path| path.display().to_string()).collect();
    search_path.push(host.host_path.to_owned());
    let mut set_default = |name: &str, value: String| {
        variables.entry(name.to_owned()).or_insert(value);
    };
    set_default("PATH", search_path.join(":"));
    set_default("HOME", root.display().to_string());
    set_default("TMPDIR", temporary.display().to_string());
    set_default("HOSTNAME", host.pod.to_owned());
    if let Some(path) = host.image.virtualenv() {
        set_default("VIRTUAL_ENV", path.display().to_string());
    }
    Ok(ProcessSpec { program, arguments: words.collect(), variables, directory, view: None })
}

/// Copies the files of an image, so that changes of the container do not change the image.
pub(crate) fn copy_files(from: &Path, to: &Path) -> Result<(), PathError> {
    for entry in fs::read_dir(from).map_err(PathError::io(from))? {
        let entry = entry.map_err(PathError::io(from))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().map_err(PathError::io(&source))?;
        if kind.is_dir() {
            fs::create_dir_all(&target).map_err(PathError::io(&target))?;
            copy_files(&source, &target)?;
        } else if kind.is_symlink() {
            let link_target = fs::read_link(&source).map_err(PathError::io(&source))?;
            std::os::unix::fs::symlink(link_target, &target).map_err(PathError::io(&target))?;
        } else if kind.is_file() {
            fs::copy(&source, &target).map_err(PathError::io(&target))?;
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
    fn the_process_follows_from_container_image_and_node() {
        let dir = tempfile::tempdir().unwrap();
        let pod = PodDir::new(&dir.path().canonicalize().unwrap(), "u").unwrap();
        let root = pod.fresh_root("c").unwrap();
        fs::create_dir_all(pod.volume("v").unwrap()).unwrap();
        fs::write(pod.volume("v").unwrap().join("tool"), "").unwrap();
        let container: Container = serde_json::from_value(json!({
            "name": "c", "command": ["/data/tool"], "args": ["$(X)", "$(Y)"], "workingDir": "/work",
            "volumeMounts": [{"name": "v", "mountPath": "/data"}, {"name": "v", "mountPath": "/f", "subPath": "tool"}],
        }))
        .unwrap();
        let variables = BTreeMap::from([("X".to_owned(), "1".to_owned()), ("HOME".to_owned(), "/h".to_owned())]);
        link_volumes(&container, &pod, &root, &variables).unwrap();
        assert!(root.join("f").is_file());
        let image = Image::Virtualenv(PathBuf::from("/venv"));
        let path = [PathBuf::from("/extra")];
        let host = HostEnvironment { image: &image, path: &path, host_path: "/bin", pod: "p" };
        let spec = process_spec(&container, &pod, &root, variables, &host).unwrap();
        assert_eq!(spec.program, root.join("data/tool").display().to_string());
        assert_eq!(spec.arguments, ["1", "$(Y)"]);
        assert_eq!(spec.directory, root.join("work"));
        assert_eq!(spec.variables["PATH"], "/venv/bin:/extra:/bin");
        assert_eq!(spec.variables["HOME"], "/h", "the pod has priority");
        assert_eq!(spec.variables["HOSTNAME"], "p");
        assert_eq!(spec.variables["VIRTUAL_ENV"], "/venv");
    }

    #[test]
    fn a_mount_whose_volume_name_is_a_path_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let pod = PodDir::new(&dir.path().canonicalize().unwrap(), "u").unwrap();
        let root = pod.fresh_root("c").unwrap();
        for name in ["/etc", "../../../outside"] {
            let mounts = json!([{"name": name, "mountPath": "/x"}]);
            let container = serde_json::from_value(json!({"name": "c", "volumeMounts": mounts})).unwrap();
            let error = link_volumes(&container, &pod, &root, &BTreeMap::new()).unwrap_err().to_string();
            assert!(error.contains("cannot be the name of a directory"), "{error}");
        }
        assert_eq!(fs::read_dir(&root).unwrap().count(), 0);
    }

    #[test]
    fn mounts_do_not_lead_out_of_the_sandbox() {
        let dir = tempfile::tempdir().unwrap();
        let pod = PodDir::new(&dir.path().canonicalize().unwrap(), "u").unwrap();
        let root = pod.fresh_root("c").unwrap();
        fs::create_dir_all(pod.volume("v").unwrap()).unwrap();
        std::os::unix::fs::symlink("/etc", pod.volume("v").unwrap().join("etc")).unwrap();
        let tried = |mount_path: &str, sub_path: &str| {
            let mounts = json!([{"name": "v", "mountPath": mount_path, "subPath": sub_path}]);
            let container = serde_json::from_value(json!({"name": "c", "volumeMounts": mounts})).unwrap();
            link_volumes(&container, &pod, &root, &BTreeMap::new()).unwrap_err().to_string()
        };
        assert!(tried("/../x", "").contains("must not contain"));
        assert!(tried("/x", "../y").contains("must not contain"));
        assert!(tried("/x", "etc").contains("leads out of the sandbox"));
        assert!(tried("/x", "etc/passwd").contains("leads out of the sandbox"));
    }
}
