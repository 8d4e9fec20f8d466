//! The volumes of a pod: directories, filled from config maps, secrets and fields.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use k8s_openapi::api::core::v1::{
    ConfigMapProjection, DownwardAPIVolumeFile, KeyToPath, Pod, SecretProjection, Volume,
};

use super::environment::{ConfigError, Content, Facts, SourceKind};
use super::fields;
use super::places::{PlaceError, PodDir};

/// What a service account's token reads here: no API server asks for it.
const TOKEN: &str = "sandbox";
/// Files of config maps and secrets, where nothing else is said.
const FILE_MODE: i32 = 0o644;

/// Why a volume cannot be set up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VolumeError {
    /// It may work later.
    #[error("MountVolume.SetUp failed for volume {volume:?} : {source}")]
    Config { volume: String, source: ConfigError },
    #[error("MountVolume.SetUp failed for volume {volume:?} : references non-existent config key: {key}")]
    NoKey { volume: String, key: String },
    #[error("volume {volume:?}: {source}")]
    Place { volume: String, source: PlaceError },
    /// It never will.
    #[error("volume {volume:?}: {what}; use emptyDir, configMap, secret, downwardAPI or projected")]
    Refused { volume: String, what: &'static str },
}

/// One file of a volume.
struct Piece {
    path: String,
    content: Vec<u8>,
    mode: i32,
}

/// The config maps and secrets that a pod's volumes refer to.
pub(crate) fn referred(pod: &Pod) -> BTreeSet<(SourceKind, String)> {
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

/// Makes all volumes of a pod. They keep what their sources say now, also when those change later.
pub(crate) fn set_up(pod: &Pod, dir: &PodDir, facts: Facts<'_>) -> Result<(), VolumeError> {
    for volume in volumes(pod) {
        let place = dir.volume(&volume.name);
        let failed = |source| VolumeError::Place { volume: volume.name.clone(), source };
        fs::create_dir_all(&place).map_err(|error| failed(PlaceError::io(&place)(error)))?;
        for piece in pieces(volume, facts)? {
            write(dir, &place, &piece).map_err(failed)?;
        }
    }
    Ok(())
}

fn volumes(pod: &Pod) -> impl Iterator<Item = &Volume> {
    pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten())
}

fn write(dir: &PodDir, place: &Path, piece: &Piece) -> Result<(), PlaceError> {
    let path = dir.file(place, &piece.path)?;
    // A link that a container put there is replaced, not followed.
    let _ = fs::remove_file(&path);
    fs::write(&path, &piece.content).map_err(PlaceError::io(&path))?;
    let mode = u32::try_from(piece.mode).unwrap_or(0o644);
    fs::set_permissions(&path, fs::Permissions::from_mode(mode & 0o777)).map_err(PlaceError::io(&path))
}

fn pieces(volume: &Volume, facts: Facts<'_>) -> Result<Vec<Piece>, VolumeError> {
    let name = &volume.name;
    let refused = |what| Err(VolumeError::Refused { volume: name.clone(), what });
    if volume.empty_dir.is_some() {
        return Ok(Vec::new());
    }
    if let Some(map) = &volume.config_map {
        let reference = (SourceKind::ConfigMap, map.name.as_str(), map.optional);
        return keys(name, reference, map.items.as_deref(), map.default_mode, facts);
    }
    if let Some(secret) = &volume.secret {
        let reference = (SourceKind::Secret, secret.secret_name.as_deref().unwrap_or_default(), secret.optional);
        return keys(name, reference, secret.items.as_deref(), secret.default_mode, facts);
    }
    if let Some(downward) = &volume.downward_api {
        return fields_of(name, downward.items.as_deref(), downward.default_mode, facts);
    }
    let Some(projected) = &volume.projected else {
        if volume.host_path.is_some() {
            return refused("hostPath is refused, since nothing in a sandbox touches the files of the host");
        }
        return refused("this kind of volume does not exist in a sandbox");
    };
    let mode = projected.default_mode;
    let mut all = Vec::new();
    for source in projected.sources.iter().flatten() {
        if let Some(ConfigMapProjection { name: from, items, optional }) = &source.config_map {
            all.extend(keys(name, (SourceKind::ConfigMap, from, *optional), items.as_deref(), mode, facts)?);
        }
        if let Some(SecretProjection { name: from, items, optional }) = &source.secret {
            all.extend(keys(name, (SourceKind::Secret, from, *optional), items.as_deref(), mode, facts)?);
        }
        if let Some(downward) = &source.downward_api {
            all.extend(fields_of(name, downward.items.as_deref(), mode, facts)?);
        }
        if let Some(token) = &source.service_account_token {
            let content = TOKEN.as_bytes().to_vec();
            all.push(Piece { path: token.path.clone(), content, mode: mode.unwrap_or(FILE_MODE) });
        }
    }
    Ok(all)
}

fn keys(
    volume: &str,
    (kind, name, optional): (SourceKind, &str, Option<bool>),
    items: Option<&[KeyToPath]>,
    default_mode: Option<i32>,
    facts: Facts<'_>,
) -> Result<Vec<Piece>, VolumeError> {
    let optional = optional.unwrap_or(false);
    let failed = |source| VolumeError::Config { volume: volume.to_owned(), source };
    let nothing = Content::new();
    let content = facts.sources.content(kind, name, optional).map_err(failed)?.unwrap_or(&nothing);
    let mode = default_mode.unwrap_or(FILE_MODE);
    let Some(items) = items else {
        let all = content.iter();
        return Ok(all.map(|(key, content)| Piece { path: key.clone(), content: content.clone(), mode }).collect());
    };
    let mut all = Vec::new();
    for item in items {
        match content.get(&item.key) {
            Some(content) => {
                let mode = item.mode.unwrap_or(mode);
                all.push(Piece { path: item.path.clone(), content: content.clone(), mode });
            }
            None if optional => {}
            None => return Err(VolumeError::NoKey { volume: volume.to_owned(), key: item.key.clone() }),
        }
    }
    Ok(all)
}

fn fields_of(
    volume: &str,
    items: Option<&[DownwardAPIVolumeFile]>,
    default_mode: Option<i32>,
    facts: Facts<'_>,
) -> Result<Vec<Piece>, VolumeError> {
    let one = |item: &DownwardAPIVolumeFile| {
        let text = match (&item.field_ref, &item.resource_field_ref) {
            (Some(field), _) => fields::field(facts.pod, &field.field_path)?,
            (None, Some(resource)) => fields::resource(facts.pod, None, resource, facts.allocatable)?,
            (None, None) => String::new(),
        };
        let mode = item.mode.or(default_mode).unwrap_or(FILE_MODE);
        Ok(Piece { path: item.path.clone(), content: text.into_bytes(), mode })
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
    use crate::node::environment::Sources;
    use crate::node::requests::Amounts;

    /// Sets up one volume and tells what is in it.
    fn set_up_one(volume: &Value) -> Result<Vec<String>, String> {
        let mut volume = volume.clone();
        volume["name"] = "v".into();
        let metadata = json!({"name": "p", "labels": {"a": "b"}});
        let spec = json!({"containers": [], "volumes": [volume]});
        let pod: Pod = serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap();
        let content = Content::from([("a".to_owned(), b"1".to_vec()), ("b".to_owned(), b"2".to_vec())]);
        let found = BTreeMap::from([((SourceKind::ConfigMap, "map".to_owned()), content)]);
        let sources = Sources { namespace: "ns".to_owned(), found };
        let facts = Facts { pod: &pod, allocatable: &Amounts::new(), sources: &sources };
        let dir = tempfile::tempdir().unwrap();
        let place = PodDir::new(&dir.path().canonicalize().unwrap(), "u").unwrap();
        set_up(&pod, &place, facts).map_err(|error| error.to_string())?;
        let mut files = Vec::new();
        for entry in fs::read_dir(place.volume("v")).unwrap().flatten() {
            let text = fs::read_to_string(entry.path()).unwrap_or_else(|_| "directory".to_owned());
            files.push(format!("{}={text}", entry.file_name().display()));
        }
        files.sort();
        Ok(files)
    }

    #[test]
    fn volumes_have_what_their_sources_say() {
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
    fn what_cannot_be_is_said() {
        let said = |volume: &Value| set_up_one(volume).unwrap_err();
        let missing = said(&json!({"secret": {"secretName": "none"}}));
        assert_eq!(missing, "MountVolume.SetUp failed for volume \"v\" : secret \"none\" not found");
        let item = |key: &str, path: &str| json!({"configMap": {"name": "map", "items": [{"key": key, "path": path}]}});
        assert!(said(&item("z", "x")).ends_with("references non-existent config key: z"));
        assert!(said(&item("a", "../x")).contains("must not contain"));
        assert!(said(&json!({"hostPath": {"path": "/etc"}})).contains("hostPath is refused"));
        assert!(said(&json!({"nfs": {"path": "/", "server": "s"}})).contains("does not exist in a sandbox"));
    }
}
