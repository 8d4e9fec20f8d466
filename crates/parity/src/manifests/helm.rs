//! Runs `helm`, which the script `helm/build` finds or builds.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::objects;

/// Runs `helm` with values from its standard input: name them as `--values -`. Returns what it prints.
///
/// # Errors
/// `helm` cannot be built, or ends with an error. The message has what it said.
pub fn helm(arguments: &[&str], values: &Value) -> Result<String> {
    use std::io::Write as _;

    let mut command = Command::new(find_helm()?);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("starting helm")?;
    // Dropped at the end of the statement, so that helm sees the end of its input. An error means that helm has ended; its
    // output has the reason.
    let _ = child.stdin.take().context("no input")?.write_all(values.to_string().as_bytes());
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("helm {}: {said}{}", arguments.join(" "), String::from_utf8_lossy(&output.stdout));
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// The objects of the chart in `deploy/helm/aileron`, as release `aileron` in the namespace `flyte`.
///
/// # Errors
/// The chart refuses the values.
pub fn helm_template(values: &Value) -> Result<Vec<Value>> {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/helm/aileron").display().to_string();
    objects(&helm(&["template", "aileron", &chart, "--namespace", "flyte", "--values", "-"], values)?)
}

fn find_helm() -> Result<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("helm/build");
    let output = Command::new(&script)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("running {}; it needs python3", script.display()))?;
    let text = String::from_utf8(output.stdout)?;
    let Some(path) = text.lines().last().filter(|_| output.status.success()) else {
        bail!("{} failed; its output above has the reason", script.display())
    };
    Ok(path.into())
}
