//! The Helm chart as a package.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::tar::{gunzip, gzip, with_time};
use crate::manifests::helm;

/// The compression of the package. It is small, and helm uses the best as well.
const LEVEL: u32 = 9;

/// Packs the chart with `helm package`, which checks it, and replaces the times in the package: helm writes the time of the
/// call. Returns the name of the file that helm gives it, and its content.
///
/// # Errors
/// `helm` cannot be built, or refuses the chart.
pub fn package_chart(chart: &Path, time: u64) -> Result<(String, Vec<u8>)> {
    let folder = tempfile::tempdir()?;
    let destination = folder.path().display().to_string();
    helm(&["package", &chart.display().to_string(), "--destination", &destination], &Value::Null)?;
    let file = fs::read_dir(folder.path())?.next().context("helm package wrote nothing")??;
    let content = gzip(&with_time(gunzip(&fs::read(file.path())?)?, time)?, LEVEL)?;
    Ok((file.file_name().to_string_lossy().into_owned(), content))
}
