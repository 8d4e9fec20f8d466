//! Locates the control plane's programs. The script `apiserver/build` finds or builds them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// The directory of etcd and kube-apiserver.
pub(super) fn servers() -> Result<PathBuf> {
    locate(&["etcd", "kube-apiserver"])
}

/// The directory of kube-controller-manager. It is separate because few suites need it and few installations have it.
pub(super) fn manager() -> Result<PathBuf> {
    locate(&["kube-controller-manager"])
}

/// Runs `apiserver/build`. Its progress goes to standard error, because a first build takes minutes and a silent test
/// seems to hang.
fn locate(names: &[&str]) -> Result<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("apiserver/build");
    let output = Command::new(&script)
        .args(names)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("running {}; it needs python3", script.display()))?;
    if !output.status.success() {
        bail!("{} ended with {}; its output above has the reason", script.display(), output.status);
    }
    let stdout = String::from_utf8(output.stdout).context("the output of the script is not UTF-8")?;
    let Some(dir) = stdout.lines().last() else { bail!("{} printed no directory", script.display()) };
    Ok(PathBuf::from(dir))
}
