//! The real program as a child process, which a suite can kill.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime};

use anyhow::{Context, Result, bail, ensure};

use super::{POLL_INTERVAL, Settings, WAIT_TIMEOUT};
use crate::cluster::{Cluster, User};
use crate::events_stub::{EventsStub, Listener};
use crate::recorder::Recorder;

/// Shell script that runs the program with a watcher. The watcher kills the program when the pipe from this process closes,
/// so that the program ends even if this process is killed.
const GUARD_SCRIPT: &str = r#"
exec 3<&0
( if read -r _ <&3; then exit; fi; kill -9 $$ ) >/dev/null 2>&1 &
exec "$@" 3<&- </dev/null
"#;

/// The log message when rounds have begun.
const STARTED_MESSAGE: &str = "caches are complete; starting the controller";

/// The crates of the program. If their sources are newer than the binary, it is built again.
const SOURCES: [&str; 14] = [
    "cli",
    "executor",
    "lease",
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
    recorded: Option<RecordedLife>,
}

/// What a program needs so that its requests and events can be told from those of others.
#[derive(Debug)]
pub struct Recording<'a> {
    /// The recorder that is told about the life of the program.
    pub recorder: &'a Arc<Recorder>,
    /// The services of the program.
    pub stub: &'a EventsStub,
    /// The user of its requests. Two programs that run at the same time need different users.
    pub user: User,
}

/// The recorder is told when the program ends.
#[derive(Debug)]
struct RecordedLife {
    recorder: Arc<Recorder>,
    name: String,
    _listener: Listener,
}

impl Program {
    /// Starts the program. `name` is the name of its log and configuration files and of its pod.
    ///
    /// # Errors
    /// The program cannot be built or started.
    pub fn start(cluster: &Cluster, settings: &Settings, name: &str) -> Result<Self> {
        Self::start_as(cluster, &cluster.kubeconfig(User::Executor), settings, name)
    }

    /// As [`start`](Self::start), with another kubeconfig.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_as(cluster: &Cluster, kubeconfig: &Path, settings: &Settings, name: &str) -> Result<Self> {
        Self::spawn(cluster, kubeconfig, settings, name, name)
    }

    /// Starts the program as the user of a recording. `name` must be new: it is the name of its pod. Its log and its
    /// configuration are `log`.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn start_recorded(
        cluster: &Cluster,
        kubeconfig: &Path,
        settings: &Settings,
        (name, log): (&str, &str),
        recording: &Recording<'_>,
    ) -> Result<Self> {
        let listener = recording.stub.listen_for(name).await?;
        let settings = settings
            .clone()
            .with(&["executor", "EventsServiceURL"], listener.url())
            .with(&["executor", "cacheServiceURL"], listener.url());
        // Built before its life begins, because a build takes minutes.
        binary()?;
        recording.recorder.started(recording.user, name);
        let mut program = Self::spawn(cluster, kubeconfig, &settings, name, log)?;
        let recorder = Arc::clone(recording.recorder);
        program.recorded = Some(RecordedLife { recorder, name: name.to_owned(), _listener: listener });
        Ok(program)
    }

    /// Starts the program with the arguments of a container, as the kubelet would. `--kubeconfig` stands for the token of the
    /// service account in the pod. Its log has the name of the pod.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_container(cluster: &Cluster, user: User, arguments: &[String], pod: (&str, &str)) -> Result<Self> {
        let (namespace, name) = pod;
        let kubeconfig = cluster.kubeconfig(user);
        Self::launch(cluster, &kubeconfig, name, |command| {
            command.args(arguments).env("POD_NAME", name).env("POD_NAMESPACE", namespace);
        })
    }

    fn spawn(cluster: &Cluster, kubeconfig: &Path, settings: &Settings, name: &str, log: &str) -> Result<Self> {
        let config = cluster.dir().join(format!("{log}.yaml"));
        fs::write(&config, settings.text())?;
        Self::launch(cluster, kubeconfig, log, |command| {
            command.args(["run", "--log-format", "text", "--log-level", "info,aileron_executor=debug", "--config"]);
            command.arg(&config).env("POD_NAME", name);
        })
    }

    fn launch(cluster: &Cluster, kubeconfig: &Path, log: &str, arguments: impl FnOnce(&mut Command)) -> Result<Self> {
        let log = cluster.dir().join(format!("{log}.log"));
        let file = OpenOptions::new().create(true).append(true).open(&log)?;
        let mut command = Command::new("sh");
        command.args(["-c", GUARD_SCRIPT, "aileron"]).arg(binary()?);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        arguments(&mut command);
        let child = command
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .current_dir(cluster.dir())
            .stdin(Stdio::piped())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .context("starting aileron")?;
        Ok(Self { child, log, recorded: None })
    }

    /// The log, including that of earlier programs with the same name.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Whether rounds have begun, in this program or in an earlier one with the same name.
    pub fn has_started(&self) -> bool {
        self.log().contains(STARTED_MESSAGE)
    }

    /// Waits until rounds have begun.
    ///
    /// # Errors
    /// Rounds did not begin in time, or the program ended.
    pub async fn until_started(&mut self) -> Result<()> {
        let begin = Instant::now();
        while !self.has_started() {
            if let Some(status) = self.child.try_wait()? {
                bail!("aileron ended with {status}:\n{}", self.log());
            }
            if begin.elapsed() > WAIT_TIMEOUT {
                bail!("aileron did not start rounds:\n{}", self.log());
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }

    /// Fails if the program has ended by itself.
    ///
    /// # Errors
    /// The program has ended.
    pub fn check(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("aileron ended with {status}:\n{}", self.log()),
        }
    }

    /// The exit status, if the program has ended by itself.
    ///
    /// # Errors
    /// The system does not know the process.
    pub fn exited(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// The number of the process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// `kill -9`.
    pub fn kill(mut self) {
        self.end();
    }

    /// Stops the process with SIGSTOP.
    ///
    /// # Errors
    /// The signal cannot be sent.
    pub fn pause(&self) -> Result<()> {
        self.signal("STOP")?;
        if let Some(RecordedLife { recorder, name, .. }) = &self.recorded {
            recorder.paused(name);
        }
        Ok(())
    }

    /// Lets a paused process go on with SIGCONT.
    ///
    /// # Errors
    /// The signal cannot be sent.
    pub fn go_on(&self) -> Result<()> {
        if let Some(RecordedLife { recorder, name, .. }) = &self.recorded {
            recorder.continues(name);
        }
        self.signal("CONT")
    }

    fn signal(&self, signal: &str) -> Result<()> {
        let status = Command::new("kill").args(["-s", signal, &self.child.id().to_string()]).status();
        ensure!(status.context("running kill")?.success(), "SIG{signal} could not be sent");
        Ok(())
    }

    /// Sends SIGTERM and waits until the program has ended.
    ///
    /// # Errors
    /// The program did not end in time, or ended with an error.
    pub async fn terminate(mut self) -> Result<()> {
        self.signal("TERM")?;
        let begin = Instant::now();
        loop {
            match self.child.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => bail!("aileron ended with {status}:\n{}", self.log()),
                None if begin.elapsed() > WAIT_TIMEOUT => bail!("aileron did not end:\n{}", self.log()),
                None => tokio::time::sleep(POLL_INTERVAL).await,
            }
        }
    }

    fn end(&mut self) {
        let had_ended = self.child.try_wait().ok().flatten();
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(RecordedLife { recorder, name, .. }) = self.recorded.take() {
            recorder
                .ended(&name, &had_ended.map_or_else(|| "is killed".to_owned(), |status| format!("ended: {status}")));
        }
        if let Some(mut pipe) = self.child.stdin.take() {
            // An error means that the watcher has already ended.
            let _ = pipe.write_all(b"stop\n");
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.end();
    }
}

/// The path of the program in the target directory. It is built if it is older than its sources, because cargo does not
/// build it for the tests of this crate.
///
/// # Errors
/// The build failed.
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
        // The directory has the name of the profile, except for this one.
        if let Some(profile) = target.file_name().filter(|name| *name != "debug") {
            command.arg("--profile").arg(profile);
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
