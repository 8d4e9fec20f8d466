//! Runs the image as a container would: with its root, which is read-only, as its user, and with nothing else.
//!
//! `make image-check` names a static program in `AILERON_STATIC_PROGRAM`. It is one without optimisations, because an optimised one
//! takes many minutes; `make image` and `make dist` check the size of those.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use aileron_parity::cluster::{Cluster, Options, Server, User, install_crd};
use aileron_parity::release::{Entry, Image, Kind, entries};
use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use super::{repository, sources};

/// Limit for one step. Steps take milliseconds; this is for a machine whose processors are busy with other programs.
const PATIENCE: Duration = Duration::from_secs(120);

/// Makes the root read-only, as a mount in a namespace of its own, and runs the program in it as another user.
/// `$1` is the root, `$2` are options of chroot.
const CONTAINER: &str = r#"
set -eu
root=$1 options=$2
shift 2
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
if touch "$root/probe" 2>/dev/null; then echo "the root is not read-only" >&2; exit 99; fi
exec chroot $options "$root" "$@"
"#;

/// What Kubernetes mounts into every container.
const HOSTS: &str = "127.0.0.1 localhost\n127.0.0.1 api.cluster.test\n";

/// An unpacked image.
struct Container {
    root: tempfile::TempDir,
    image: Image,
}

impl Container {
    /// Unpacks the image, and adds what a container runtime mounts.
    fn new(program: &Path, mounts: &[Entry]) -> Result<Self> {
        let image = sources().image(&repository(), &fs::read(program)?)?;
        let root = tempfile::tempdir()?;
        // A temporary directory is its owner's only, and the process in it is another user.
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755))?;
        let unpacked = entries(&image.layer)?;
        for entry in unpacked.iter().map(|(entry, _)| entry).chain(mounts) {
            let path = root.path().join(&entry.path);
            match &entry.kind {
                Kind::Directory => fs::create_dir_all(&path)?,
                Kind::File(content) => fs::write(&path, content)?,
            }
            fs::set_permissions(&path, fs::Permissions::from_mode(entry.mode))?;
        }
        Ok(Self { root, image })
    }

    /// The entry point with these arguments instead of the image's.
    fn command(&self, arguments: &[&str]) -> Result<Command> {
        let config = &self.image.config["config"];
        let (user, program) = (text(&config["User"])?, text(&config["Entrypoint"][0])?);
        // Without root, the process stays the user of the test.
        let options = if is_root()? { format!("--userspec={user} --groups=") } else { String::new() };
        let mut command = mounting()?;
        command.args(["sh", "-c", CONTAINER, "container"]).arg(self.root.path()).arg(options);
        command.arg(program).args(arguments).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(command)
    }

    fn files(&self) -> Result<Vec<String>> {
        let output = Command::new("find").arg(self.root.path()).output()?;
        let mut files: Vec<String> = String::from_utf8(output.stdout)?.lines().map(str::to_owned).collect();
        files.sort();
        Ok(files)
    }
}

fn text(value: &Value) -> Result<&str> {
    value.as_str().with_context(|| format!("{value} is not a text"))
}

fn is_root() -> Result<bool> {
    Ok(Command::new("id").arg("-u").output()?.stdout == b"0\n")
}

/// Runs a command that may mount. Without root, this takes a namespace of users as well.
fn mounting() -> Result<Command> {
    let mut command = Command::new("unshare");
    if !is_root()? {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--mount", "--"]);
    Ok(command)
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Whether the readiness probe succeeds.
fn is_ready(port: u16) -> Result<bool> {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return Ok(false) };
    write!(stream, "GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer.starts_with("HTTP/1.1 200"))
}

async fn until_ready(child: &mut Child, port: u16) -> Result<()> {
    let begin = Instant::now();
    while !is_ready(port)? {
        ensure!(child.try_wait()?.is_none(), "aileron ended");
        ensure!(begin.elapsed() < PATIENCE, "not ready");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), output.stderr.as_slice()].concat()).into_owned()
}

#[tokio::test]
#[ignore = "needs a static program: `make image-check` builds one and runs this"]
async fn the_image_runs_with_a_read_only_root_as_its_user() -> Result<()> {
    let program =
        std::env::var_os("AILERON_STATIC_PROGRAM").context("set AILERON_STATIC_PROGRAM, or run `make image-check`")?;
    if !mounting()?.arg("true").status().is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: this machine does not allow mounts in a namespace, so the image cannot be run");
        return Ok(());
    }
    let cluster = Cluster::start(Options { server: Server::Sandbox, ..Options::default() }).await?;
    install_crd(&cluster.client(User::Admin).await?, &aileron_action::crd::crd()?).await?;
    let kubeconfig = fs::read_to_string(cluster.kubeconfig(User::Executor))?;
    ensure!(kubeconfig.contains("127.0.0.1"), "the test replaces this address by a name");
    let mounts = [
        Entry::file("etc/hosts", 0o644, HOSTS.as_bytes().to_vec()),
        Entry::file("kubeconfig", 0o644, kubeconfig.replace("127.0.0.1", "api.cluster.test").into_bytes()),
    ];
    let container = Container::new(Path::new(&program), &mounts)?;
    let before = container.files()?;

    let version = container.command(&["version"])?.output()?;
    assert!(version.status.success() && said(&version).starts_with("aileron "), "{}", said(&version));

    let health = free_port()?;
    let bound = format!("127.0.0.1:{health}");
    let arguments =
        ["run", "--kubeconfig", "/kubeconfig", "--storage.type", "mem", "--executor.metricsBindAddress", "127.0.0.1:0"];
    let mut child = container
        .command(&[&arguments[..], &["--executor.healthProbeBindAddress", &bound]].concat())?
        .spawn()
        .context("running unshare")?;
    let ready = until_ready(&mut child, health).await;
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let _ = Command::new("kill").args(["-s", "TERM", &child.id().to_string()]).status();
    let output = child.wait_with_output()?;
    if let Err(error) = ready {
        bail!("{error:#}: {}", said(&output));
    }
    assert!(output.status.success(), "{}", said(&output));
    let user = status.lines().find(|line| line.starts_with("Uid:")).context("no user")?;
    assert!(!user.split_whitespace().skip(1).any(|id| id == "0"), "{user}");
    assert_eq!(container.files()?, before, "the executor writes no files");

    // The certificates in the image are those that it reads: without them it refuses to start.
    fs::remove_file(container.root.path().join("etc/ssl/certs/ca-certificates.crt"))?;
    let output =
        container.command(&[&arguments[..], &["--executor.healthProbeBindAddress", "0"]].concat())?.output()?;
    assert!(!output.status.success() && said(&output).contains("needs root certificates"), "{}", said(&output));
    Ok(())
}
