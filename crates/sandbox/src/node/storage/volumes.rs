//! Volumes of a pod: directories with files from config maps, secrets and the downward API.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use k8s_openapi::api::core::v1::{
    ConfigMapProjection, DownwardAPIVolumeFile, KeyToPath, Pod, SecretProjection, Volume,
};

use super::pod_dir::{PathError, PodDir};
use crate::node::environment::sources::{ConfigData, ConfigError, SourceKind};
use crate::node::environment::{PodValues, fields};

/// Content of service account tokens. The API server of the sandbox never checks them.
const TOKEN: &str = "sandbox";
/// Default permissions of files of config maps and secrets.
const FILE_MODE: i32 = 0o644;

/// Why a volume cannot be set up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VolumeError {
    /// A config map or secret is missing. A later attempt may succeed.
    #[error("MountVolume.SetUp failed for volume {volume:?} : {source}")]
    Config { volume: String, source: ConfigError },
    #[error("MountVolume.SetUp failed for volume {volume:?} : references non-existent config key: {key}")]
    NoKey { volume: String, key: String },
    #[error("volume {volume:?}: {source}")]
    Path { volume: String, source: PathError },
    /// The node does not support this volume. No later attempt can succeed.
    #[error("volume {volume:?}: {what}; use emptyDir, configMap, secret, downwardAPI or projected")]
    Refused { volume: String, what: &'static str },
}

/// One file of a volume.
struct VolumeFile {
    path: String,
    content: Vec<u8>,
    mode: i32,
}

/// The config maps and secrets that the volumes of a pod refer to.
pub(crate) fn referenced_sources(pod: &Pod) -> BTreeSet<(SourceKind, String)> {
    let mut names = BTreeSet::new();
    let maps = |name: &String| (SourceKind::ConfigMap, name.clone());
    let secrets = |name: &String| (SourceKind::Secret, name.clone());
    for volume in volumes(pod) {
        names.extend(volume.config_map.iter().map(|map| maps(&map.name)));
        names.extend(volume.secret.iter().filter_map(|secret| secret.secret_name.as_ref()).map(secrets));
        for source in volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten()) {
            names.extend(source.config_map.iter().map(|map| maps(&map.name)));
            names.extend(source.secret.iter().map(|secret| secrets(&secret.name)));
        }
    }
    names
}

/// Creates all volumes of a pod. Later changes of config maps and secrets do not reach the volumes.
pub(crate) fn set_up(pod: &Pod, dir: &PodDir, values: PodValues<'_>) -> Result<(), VolumeError> {
    for volume in volumes(pod) {
        let failed = |source| VolumeError::Path { volume: volume.name.clone(), source };
        let root = dir.volume(&volume.name).map_err(failed)?;
        fs::create_dir_all(&root).map_err(|error| failed(PathError::io(&root)(error)))?;
        for file in files(volume, values)? {
            write(dir, &root, &file).map_err(failed)?;
        }
    }
    Ok(())
}

fn volumes(pod: &Pod) -> impl Iterator<Item = &Volume> {
    pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten())
}

fn write(dir: &PodDir, root: &Path, file: &VolumeFile) -> Result<(), PathError> {
    let path = dir.file(root, &file.path)?;
    // A symbolic link that a container created here is replaced. It must not be followed.
    let _ = fs::remove_file(&path);
    fs::write(&path, &file.content).map_err(PathError::io(&path))?;
    let mode = u32::try_from(file.mode).unwrap_or(0o644);
    fs::set_permissions(&path, fs::Permissions::from_mode(mode & 0o777)).map_err(PathError::io(&path))
}

/// The files of a volume.
fn files(volume: &Volume, values: PodValues<'_>) -> Result<Vec<VolumeFile>, VolumeError> {
    let name = &volume.name;
    let refused = |what| Err(VolumeError::Refused { volume: name.clone(), what });
    if volume.empty_dir.is_some() {
        return Ok(Vec::new());
    }
    if let Some(map) = &volume.config_map {
        let reference = (SourceKind::ConfigMap, map.name.as_str(), map.optional);
        return config_files(name, reference, map.items.as_deref(), map.default_mode, values);
    }
    if let Some(secret) = &volume.secret {
        let reference = (SourceKind::Secret, secret.secret_name.as_deref().unwrap_or_default(), secret.optional);
        return config_files(name, reference, secret.items.as_deref(), secret.default_mode, values);
    }
    if let Some(downward) = &volume.downward_api {
        return downward_files(name, downward.items.as_deref(), downward.default_mode, values);
    }
    let Some(projected) = &volume.projected else {
        if volume.host_path.is_some() {
            return refused("hostPath is refused, because a sandbox must not change files of the host");
        }
        return refused("a sandbox does not support this type of volume");
    };
    let mode = projected.default_mode;
    let mut all = Vec::new();
    for source in projected.sources.iter().flatten() {
        if let Some(ConfigMapProjection { name: from, items, optional }) = &source.config_map {
            all.extend(config_files(name, (SourceKind::ConfigMap, from, *optional), items.as_deref(), mode, values)?);
        }
        if let Some(SecretProjection { name: from, items, optional }) = &source.secret {
            all.extend(config_files(name, (SourceKind::Secret, from, *optional), items.as_deref(), mode, values)?);
        }
        if let Some(downward) = &source.downward_api {
            all.extend(downward_files(name, downward.items.as_deref(), mode, values)?);
        }
        if let Some(token) = &source.service_account_token {
            let content = TOKEN.as_bytes().to_vec();
            all.push(VolumeFile { path: token.path.clone(), content, mode: mode.unwrap_or(FILE_MODE) });
        }
    }
    Ok(all)
}

/// The files of a config map or secret: all keys, or the listed ones.
fn config_files(
    volume: &str,
    (kind, name, optional): (SourceKind, &str, Option<bool>),
    items: Option<&[KeyToPath]>,
    default_mode: Option<i32>,
    values: PodValues<'_>,
) -> Result<Vec<VolumeFile>, VolumeError> {
    let optional = optional.unwrap_or(false);
    let failed = |source| VolumeError::Config { volume: volume.to_owned(), source };
    let empty = ConfigData::new();
    let data = values.sources.data(kind, name, optional).map_err(failed)?.unwrap_or(&empty);
    let mode = default_mode.unwrap_or(FILE_MODE);
    let Some(items) = items else {
        let all = data.iter();
        return Ok(all
            .map(|(key, content)| VolumeFile { path: key.clone(), content: content.clone(), mode })
            .collect());
    };
    let mut all = Vec::new();
    for item in items {
        match data.get(&item.key) {
            Some(content) => {
                let mode = item.mode.unwrap_or(mode);
                all.push(VolumeFile { path: item.path.clone(), content: content.clone(), mode });
            }
            None if optional => {}
            None => return Err(VolumeError::NoKey { volume: volume.to_owned(), key: item.key.clone() }),
        }
    }
    Ok(all)
}

/// The files of a downward API volume.
fn downward_files(
    volume: &str,
    items: Option<&[DownwardAPIVolumeFile]>,
    default_mode: Option<i32>,
    values: PodValues<'_>,
) -> Result<Vec<VolumeFile>, VolumeError> {
    let one = |item: &DownwardAPIVolumeFile| {
        let text = match (&item.field_ref, &item.resource_field_ref) {
            (Some(field), _) => fields::field(values.pod, &field.field_path)?,
            (None, Some(resource)) => fields::resource(values.pod, None, resource, values.allocatable)?,
            (None, None) => String::new(),
        };
        let mode = item.mode.or(default_mode).unwrap_or(FILE_MODE);
        Ok(VolumeFile { path: item.path.clone(), content: text.into_bytes(), mode })
    };
    let all: Result<_, fields::FieldError> = items.unwrap_or_default().iter().map(one).collect();
    all.map_err(|error| VolumeError::Config { volume: volume.to_owned(), source: error.into() })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::*;
    use crate::node::environment::sources::ConfigSources;
    use crate::node::resources::Amounts;

    /// Sets up one volume and returns its files.
    fn set_up_one(volume: &Value) -> Result<Vec<String>, String> {
        let mut volume = volume.clone();
        volume["name"] = "v".into();
        let metadata = json!({"name": "p", "labels": {"a": "b"}});
        let spec = json!({"containers": [], "volumes": [volume]});
        let pod: Pod = serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap();
        let data = ConfigData::from([("a".to_owned(), b"1".to_vec()), ("b".to_owned(), b"2".to_vec())]);
        let found = BTreeMap::from([((SourceKind::ConfigMap, "map".to_owned()), data)]);
        let sources = ConfigSources { namespace: "ns".to_owned(), found };
        let values = PodValues { pod: &pod, allocatable: &Amounts::new(), sources: &sources };
        let dir = tempfile::tempdir().unwrap();
        let place = PodDir::new(&dir.path().canonicalize().unwrap(), "u").unwrap();
        set_up(&pod, &place, values).map_err(|error| error.to_string())?;
        let mut files = Vec::new();
        for entry in fs::read_dir(place.volume("v").unwrap()).unwrap().flatten() {
            let text = fs::read_to_string(entry.path()).unwrap_or_else(|_| "directory".to_owned());
            files.push(format!("{}={text}", entry.file_name().display()));
        }
        files.sort();
        Ok(files)
    }

    #[test]
    fn volumes_have_the_files_of_their_sources() {
        let files = |volume: &Value| set_up_one(volume).unwrap();
        assert_eq!(files(&json!({"emptyDir": {"medium": "Memory"}})), Vec::<String>::new());
        assert_eq!(files(&json!({"configMap": {"name": "map"}})), ["a=1", "b=2"]);
        assert_eq!(files(&json!({"configMap": {"name": "map", "items": [{"key": "b", "path": "x"}]}})), ["x=2"]);
        assert_eq!(
            files(&json!({"configMap": {"name": "map", "items": [{"key": "b", "path": "d/x"}]}})),
            ["d=directory"]
        );
        assert_eq!(files(&json!({"secret": {"secretName": "none", "optional": true}})), Vec::<String>::new());
        let label = json!({"path": "l", "fieldRef": {"fieldPath": "metadata.labels['a']"}});
        assert_eq!(files(&json!({"downwardAPI": {"items": [label]}})), ["l=b"]);
        let sources = json!([{"configMap": {"name": "map"}}, {"serviceAccountToken": {"path": "token"}}]);
        assert_eq!(files(&json!({"projected": {"sources": sources}})), ["a=1", "b=2", "token=sandbox"]);
    }

    #[test]
    fn a_volume_that_cannot_be_set_up_is_an_error_with_the_reason() {
        let error = |volume: &Value| set_up_one(volume).unwrap_err();
        let missing = error(&json!({"secret": {"secretName": "none"}}));
        assert_eq!(missing, "MountVolume.SetUp failed for volume \"v\" : secret \"none\" not found");
        let item = |key: &str, path: &str| json!({"configMap": {"name": "map", "items": [{"key": key, "path": path}]}});
        assert!(error(&item("z", "x")).ends_with("references non-existent config key: z"));
        assert!(error(&item("a", "../x")).contains("must not contain"));
        assert!(error(&json!({"hostPath": {"path": "/etc"}})).contains("hostPath is refused"));
        assert!(error(&json!({"nfs": {"path": "/", "server": "s"}})).contains("does not support this type"));
    }
}
