//! A recorded case, and loading the cases of a folder.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value};

/// An input, and the result that upstream produced for it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Case {
    /// The kind of case. It determines the format of the input.
    pub family: String,
    /// The folder below the family, empty for flat families.
    #[serde(default)]
    pub group: String,
    /// The name, unique within family and group.
    pub name: String,
    /// The clock at the start.
    pub now: Timestamp,
    /// The configuration, as in the configuration file.
    #[serde(default)]
    pub config: Value,
    /// The environment variables of the process, if the case uses them.
    #[serde(default)]
    pub process_env: BTreeMap<String, String>,
    /// What upstream produced.
    pub expected: Value,
    /// Known upstream defects that `expected` documents.
    #[serde(default)]
    pub upstream_bugs: Vec<String>,
    /// Everything else: the input.
    #[serde(flatten)]
    pub input: Map<String, Value>,
}

/// A folder of cases could not be read.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The folder or a file in it is unreadable.
    #[error("failed to read {path}")]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: std::io::Error,
    },
    /// A file is not a case.
    #[error("{path} is not a case: fields family, name, now and expected are required")]
    Decode {
        /// The file.
        path: PathBuf,
        /// The error of the decoder.
        #[source]
        source: serde_json::Error,
    },
    /// The folder has no case at all, which would otherwise look like success.
    #[error("{0} holds no cases; it must be laid out as <family>[/<group>]/<name>.json")]
    Empty(PathBuf),
}

impl Case {
    /// A committed case, named by its path below the folder of open cases, without the extension.
    ///
    /// # Errors
    /// There is no such file, or it is not a case.
    pub fn committed(path: &str) -> anyhow::Result<Self> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors/open").join(path).with_extension("json");
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_slice(&bytes).with_context(|| format!("{} is not a case", path.display()))
    }

    /// `family/group`, or the family alone where there are no groups.
    pub fn folder(&self) -> String {
        if self.group.is_empty() { self.family.clone() } else { format!("{}/{}", self.family, self.group) }
    }

    /// The id of the case: its folder and its name.
    pub fn id(&self) -> String {
        format!("{}/{}", self.folder(), self.name)
    }

    /// A member of the input, null if absent.
    pub fn input(&self, key: &str) -> &Value {
        self.input.get(key).unwrap_or(&Value::Null)
    }

    /// An argument of a function case, null if absent.
    pub fn arg(&self, key: &str) -> &Value {
        self.input("args").get(key).unwrap_or(&Value::Null)
    }

    /// The function of a function case, empty for the others.
    pub fn function(&self) -> &str {
        self.input("fn").as_str().unwrap_or_default()
    }

    /// Whether the result is a list of steps.
    pub fn is_scenario(&self) -> bool {
        ["manager", "reconcile"].contains(&self.family.as_str())
    }

    /// The clock of a step, which upstream's own pauses may have moved.
    pub fn step_time(&self, index: usize) -> anyhow::Result<Timestamp> {
        let now = self.expected.pointer(&format!("/steps/{index}/now")).and_then(Value::as_str);
        now.map_or(Ok(self.now), |now| Ok(now.parse()?))
    }

    /// Whether the case documents this upstream defect.
    pub fn has_bug(&self, id: &str) -> bool {
        self.upstream_bugs.iter().any(|bug| bug == id)
    }
}

/// Every case below a folder, in the order of their ids.
pub fn load(folder: &Path) -> Result<Vec<Case>, LoadError> {
    let mut files = Vec::new();
    collect(folder, &mut files)?;
    if files.is_empty() {
        return Err(LoadError::Empty(folder.to_owned()));
    }
    let mut cases = files.iter().map(|file| read(file)).collect::<Result<Vec<_>, _>>()?;
    cases.sort_by_key(Case::id);
    Ok(cases)
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), LoadError> {
    let unreadable = |source| LoadError::Read { path: folder.to_owned(), source };
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.is_dir() {
            collect(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "json") {
            found.push(path);
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<Case, LoadError> {
    let text = fs::read_to_string(path).map_err(|source| LoadError::Read { path: path.to_owned(), source })?;
    serde_json::from_str(&text).map_err(|source| LoadError::Decode { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_empty_folder_is_an_error_and_not_a_success() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(load(folder.path()), Err(LoadError::Empty(_))));
    }

    #[test]
    fn cases_are_found_at_both_depths() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("build/pod")).unwrap();
        let text = |rest: &str| format!(r#"{{"now":"2009-11-10T23:00:00Z","expected":{{}},"fn":"f",{rest}}}"#);
        fs::write(folder.path().join("build/pod/a.json"), text(r#""family":"build","group":"pod","name":"a""#))
            .unwrap();
        fs::write(folder.path().join("b.json"), text(r#""family":"names","name":"b""#)).unwrap();
        let cases = load(folder.path()).unwrap();
        assert_eq!(cases.iter().map(Case::id).collect::<Vec<_>>(), ["build/pod/a", "names/b"]);
        assert_eq!(cases[0].function(), "f");
    }
}
