//! Starts a program in its own process group, after the guardian knows the group.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use rustix::process::Pid;
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe;
use tokio::process::{Child, ChildStdin, Command};

use super::guardian::{Guardian, ProcessGroup};
use super::mount_view::MountView;

/// A shell script that waits for a line on standard input and then replaces itself with the program. The line is sent
/// after the guardian knows the process group. So the program never runs without the guardian. If this process ends
/// before it sends the line, the program does not start.
const GATE_SCRIPT: &str = r#"read -r _ || exit 137; exec "$@" </dev/null"#;

/// A program to start.
#[derive(Clone, Debug)]
pub(crate) struct ProcessSpec {
    pub program: String,
    pub arguments: Vec<String>,
    pub variables: BTreeMap<String, String>,
    pub directory: PathBuf,
    /// The root directory in a mount namespace; `None` for the root of the host.
    pub view: Option<MountView>,
}

/// A process that waits for the start signal.
#[derive(Debug)]
pub(crate) struct Process {
    pub child: Child,
    /// Standard output and standard error in one stream.
    pub output: pipe::Receiver,
    pub group: ProcessGroup,
    /// Standard input of the process. A line on it starts the program.
    gate: ChildStdin,
}

/// Why a program cannot be started. The texts are those of a container runtime.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error("no command specified")]
    NoCommand,
    #[error("exec: {0:?}: executable file not found in $PATH")]
    NotOnPath(String),
    #[error("exec: {0:?}: stat {0}: no such file or directory")]
    NoFile(String),
    #[error("exec: {0:?}: permission denied")]
    NotExecutable(String),
    #[error("exec: {program:?}: {source}")]
    System { program: String, source: io::Error },
}

impl ProcessSpec {
    /// Checks that the program exists and is executable.
    fn check(&self) -> Result<(), StartError> {
        let name = || self.program.clone();
        if self.program.is_empty() {
            return Err(StartError::NoCommand);
        }
        if self.program.contains('/') {
            let path = self.directory.join(&self.program);
            return match path.metadata() {
                Err(_) => Err(StartError::NoFile(name())),
                Ok(_) if is_program(&path) => Ok(()),
                Ok(_) => Err(StartError::NotExecutable(name())),
            };
        }
        let path = self.variables.get("PATH").map(String::as_str).unwrap_or_default();
        let found = path.split(':').any(|dir| is_program(&self.directory.join(dir).join(&self.program)));
        if found { Ok(()) } else { Err(StartError::NotOnPath(name())) }
    }

    /// Starts the process, which waits for [`Process::begin`].
    pub(crate) fn start(&self, guardian: &Arc<Guardian>) -> Result<Process, StartError> {
        self.check()?;
        self.spawn(guardian).map_err(|source| StartError::System { program: self.program.clone(), source })
    }

    fn spawn(&self, guardian: &Arc<Guardian>) -> io::Result<Process> {
        let (reader, writer) = io::pipe()?;
        let mut command =
            match self.view.as_ref().map(|view| view.command(&self.directory)).unwrap_or_default().split_first() {
                Some((program, arguments)) => {
                    let mut command = Command::new(program);
                    command.args(arguments);
                    command
                }
                None => {
                    let mut command = Command::new("/bin/sh");
                    command.args(["-c", GATE_SCRIPT, "sh"]);
                    command
                }
            };
        // Shells drop environment variables whose names are not shell names. The program `env` sets them again.
        let (plain, odd): (Vec<_>, Vec<_>) = self.variables.iter().partition(|(name, _)| is_shell_name(name));
        if !odd.is_empty() {
            command.arg("env").args(odd.iter().map(|(name, value)| format!("{name}={value}")));
        }
        command.arg(&self.program).args(&self.arguments);
        command.env_clear().envs(plain).current_dir(&self.directory);
        command.stdin(Stdio::piped()).stdout(writer.try_clone()?).stderr(writer);
        command.process_group(0).kill_on_drop(true);
        let mut child = command.spawn()?;
        // The command holds the writing end of the pipe. While it is open, the reading end never reports the end.
        drop(command);
        let leader = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let (Some(leader), Some(gate)) = (leader, child.stdin.take()) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let group = guardian.guard(leader)?;
        let output = pipe::Receiver::from_owned_fd(OwnedFd::from(reader))?;
        Ok(Process { child, output, group, gate })
    }
}

impl Process {
    /// Sends the start signal.
    pub(crate) async fn begin(self) -> io::Result<(Child, pipe::Receiver, ProcessGroup)> {
        let Self { child, output, group, mut gate } = self;
        gate.write_all(b"\n").await?;
        Ok((child, output, group))
    }
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

fn is_shell_name(name: &str) -> bool {
    !name.starts_with(|first: char| first.is_ascii_digit())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn spec(program: &str) -> ProcessSpec {
        let variables = BTreeMap::from([("PATH".to_owned(), "/nowhere:/usr/bin:/bin".to_owned())]);
        ProcessSpec {
            program: program.to_owned(),
            arguments: Vec::new(),
            variables,
            directory: PathBuf::from("/"),
            view: None,
        }
    }

    #[test]
    fn programs_are_searched_as_by_a_container_runtime() {
        let error = |program| spec(program).check().unwrap_err().to_string();
        assert!(spec("sh").check().is_ok());
        assert!(spec("/bin/sh").check().is_ok());
        assert!(spec("./bin/sh").check().is_ok());
        assert_eq!(error(""), "no command specified");
        assert_eq!(error("no-such"), "exec: \"no-such\": executable file not found in $PATH");
        assert_eq!(error("/no/such"), "exec: \"/no/such\": stat /no/such: no such file or directory");
        assert_eq!(error("/usr"), "exec: \"/usr\": permission denied");
    }

    #[test]
    fn names_that_are_not_shell_names_are_recognized() {
        assert!(is_shell_name("_A1"));
        assert!(!is_shell_name("a.b"));
        assert!(!is_shell_name("1a"));
    }
}
