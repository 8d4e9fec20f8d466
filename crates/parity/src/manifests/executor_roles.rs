//! The roles of `deploy/kustomize` for the users of the suites.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::objects;

/// The roles of all features and plugins, bound to service accounts in the namespace `flyte`.
///
/// # Errors
/// The files cannot be read.
pub fn executor_roles(accounts: &[&str]) -> Result<Vec<Value>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/kustomize/permissions");
    let subjects: Vec<_> =
        accounts.iter().map(|name| json!({"kind": "ServiceAccount", "namespace": "flyte", "name": name})).collect();
    let mut roles = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path().join("roles.yaml");
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        for mut object in objects(&text)? {
            if object.get("subjects").is_some() {
                object["subjects"] = subjects.clone().into();
            }
            roles.push(object);
        }
    }
    Ok(roles)
}
