//! The real program as a child, which can be killed.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Instant, SystemTime};

use anyhow::{Context, Result, bail};

use super::{LOOK_EVERY, PATIENCE, Settings};
use crate::cluster::{Cluster, User};

/// The program must not outlive us even if we are killed: a watcher beside it waits on a pipe from us.
const GUARDED: &str = r#"
exec 3<&0
( if read -r _ <&3; then exit; fi; kill -9 $$ ) >/dev/null 2>&1 &
exec "$@" 3<&- </dev/null
"#;

/// Says in the log that rounds have begun.
const WORKING: &str = "caches are complete; working";

/// The crates that the program is made of.
const SOURCES: [&str; 13] = [
    "cli",
    "executor",
    "flyte-local",
    "preview",
    "action",
    "admission",
    "config",
    "apiserver",
    "sandbox",
    "plugins",
    "machinery",
    "kubekit",
    "idl",
];

/// A running `aileron run`.
#[derive(Debug)]
pub struct Program {
    child: Child,
    log: PathBuf,
}

impl Program {
    /// Starts the program; `name` tells its log from those of others.
    ///
    /// # Errors
    /// It cannot be built or started.
    pub fn start(cluster: &Cluster, settings: &Settings, name: &str) -> Result<Self> {
        Self::start_as(cluster, &cluster.kubeconfig(User::Executor), settings, name)
    }

    /// The same with another kubeconfig.
    ///
    /// # Errors
    /// As there.
    pub fn start_as(cluster: &Cluster, kubeconfig: &Path, settings: &Settings, name: &str) -> Result<Self> {
        let config = cluster.dir().join(format!("{name}.yaml"));
        fs::write(&config, settings.text())?;
        let log = cluster.dir().join(format!("{name}.log"));
        let file = OpenOptions::new().create(true).append(true).open(&log)?;
        let child = Command::new("sh")
            .args(["-c", GUARDED, "aileron"])
            .arg(binary()?)
            .args(["run", "--log-format", "text", "--log-level", "info,aileron_executor=debug", "--config"])
            .arg(&config)
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .current_dir(cluster.dir())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("POD_NAME", name)
            .stdin(Stdio::piped())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .context("starting aileron")?;
        Ok(Self { child, log })
    }

    /// The log, of earlier programs of the same name too.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Whether rounds have begun, in this program or an earlier one of the same name.
    pub fn works(&self) -> bool {
        self.log().contains(WORKING)
    }

    /// Waits until rounds have begun.
    ///
    /// # Errors
    /// They do not.
    pub async fn until_works(&mut self) -> Result<()> {
        let begin = Instant::now();
        while !self.works() {
            if let Some(status) = self.child.try_wait()? {
                bail!("aileron ended with {status}:\n{}", self.log());
            }
            if begin.elapsed() > PATIENCE {
                bail!("aileron did not begin to work:\n{}", self.log());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    /// Fails if the program has ended by itself.
    ///
    /// # Errors
    /// It has.
    pub fn check(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("aileron ended with {status}:\n{}", self.log()),
        }
    }

    /// `kill -9`.
    pub fn kill(mut self) {
        self.end();
    }

    /// SIGTERM, and the wait for its end in good order.
    ///
    /// # Errors
    /// It does not end, or not well.
    pub async fn terminate(mut self) -> Result<()> {
        let id = self.child.id().to_string();
        Command::new("kill").args(["-s", "TERM", &id]).status().context("running kill")?;
        let begin = Instant::now();
        loop {
            match self.child.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => bail!("aileron ended with {status}:\n{}", self.log()),
                None if begin.elapsed() > PATIENCE => bail!("aileron did not end:\n{}", self.log()),
                None => tokio::time::sleep(LOOK_EVERY).await,
            }
        }
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(mut pipe) = self.child.stdin.take() {
            // A watcher that is already gone needs no word.
            let _ = pipe.write_all(b"stop\n");
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.end();
    }
}

/// The program beside this one, built anew if it is older than its sources: cargo builds it for the tests of its own
/// crate, but not for ours alone.
///
/// # Errors
/// It cannot be built.
pub fn binary() -> Result<PathBuf> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let built = BUILT.get_or_init(|| find_or_build().map_err(|error| format!("{error:#}")));
    built.clone().map_err(anyhow::Error::msg)
}

fn find_or_build() -> Result<PathBuf> {
    let this = std::env::current_exe()?;
    let target = this.ancestors().find(|dir| dir.join("deps").is_dir()).context("not inside a target directory")?;
    let program = target.join("aileron");
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let newest = SOURCES.iter().filter_map(|name| newest(&crates.join(name).join("src"))).max();
    let built = fs::metadata(&program).and_then(|meta| meta.modified()).ok();
    if built.is_none() || built < newest {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.args(["build", "--locked", "--quiet", "--package", "aileron"]).current_dir(&crates);
        if target.ends_with("release") {
            command.arg("--release");
        }
        let status = command.status().context("running cargo")?;
        if !status.success() {
            bail!("cargo build --package aileron failed");
        }
    }
    Ok(program)
}

fn newest(dir: &Path) -> Option<SystemTime> {
    let entries = fs::read_dir(dir).ok()?.flatten();
    entries
        .filter_map(|entry| {
            let path = entry.path();
            if path.is_dir() { newest(&path) } else { entry.metadata().ok()?.modified().ok() }
        })
        .max()
}
