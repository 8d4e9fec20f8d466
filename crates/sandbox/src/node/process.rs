//! Starts a program in a process group of its own, which is guarded before the program begins.

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

use super::guardian::{Group, Guardian};
use super::namespace::View;

/// Waits for a line before the program replaces the shell, so that there is no moment in which the program runs and
/// nobody would end it. If the line never comes, neither does the program.
const GATE: &str = r#"read -r _ || exit 137; exec "$@" </dev/null"#;

/// What to start.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    pub program: String,
    pub arguments: Vec<String>,
    pub variables: BTreeMap<String, String>,
    pub directory: PathBuf,
    /// The root that it sees, if it has one of its own.
    pub view: Option<View>,
}

/// A program that waits at its gate, and then runs.
#[derive(Debug)]
pub(crate) struct Process {
    pub child: Child,
    /// What it writes, to its output and to its error output in one order.
    pub output: pipe::Receiver,
    pub group: Group,
    gate: ChildStdin,
}

/// Why a program cannot be started, in the words of the real runtime.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LaunchError {
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

impl Launch {
    /// Whether the program is there, as far as that can be told without starting it.
    fn check(&self) -> Result<(), LaunchError> {
        let name = || self.program.clone();
        if self.program.is_empty() {
            return Err(LaunchError::NoCommand);
        }
        if self.program.contains('/') {
            let path = self.directory.join(&self.program);
            return match path.metadata() {
                Err(_) => Err(LaunchError::NoFile(name())),
                Ok(_) if is_program(&path) => Ok(()),
                Ok(_) => Err(LaunchError::NotExecutable(name())),
            };
        }
        let path = self.variables.get("PATH").map(String::as_str).unwrap_or_default();
        let found = path.split(':').any(|place| is_program(&self.directory.join(place).join(&self.program)));
        if found { Ok(()) } else { Err(LaunchError::NotOnPath(name())) }
    }

    /// Brings the program to its gate.
    pub(crate) fn start(&self, guardian: &Arc<Guardian>) -> Result<Process, LaunchError> {
        self.check()?;
        self.bring(guardian).map_err(|source| LaunchError::System { program: self.program.clone(), source })
    }

    fn bring(&self, guardian: &Arc<Guardian>) -> io::Result<Process> {
        let (reader, writer) = io::pipe()?;
        let mut command =
            match self.view.as_ref().map(|view| view.words(&self.directory)).unwrap_or_default().split_first() {
                Some((program, arguments)) => {
                    let mut command = Command::new(program);
                    command.args(arguments);
                    command
                }
                None => {
                    let mut command = Command::new("/bin/sh");
                    command.args(["-c", GATE, "sh"]);
                    command
                }
            };
        // Shells drop variables whose names they could not say; `env` keeps them.
        let (plain, odd): (Vec<_>, Vec<_>) = self.variables.iter().partition(|(name, _)| is_shell_name(name));
        if !odd.is_empty() {
            command.arg("env").args(odd.iter().map(|(name, value)| format!("{name}={value}")));
        }
        command.arg(&self.program).args(&self.arguments);
        command.env_clear().envs(plain).current_dir(&self.directory);
        command.stdin(Stdio::piped()).stdout(writer.try_clone()?).stderr(writer);
        command.process_group(0).kill_on_drop(true);
        let mut child = command.spawn()?;
        drop(command); // it holds the writing end, without which the reading one never ends
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
    /// Opens the gate: the program begins.
    pub(crate) async fn begin(self) -> io::Result<(Child, pipe::Receiver, Group)> {
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

    fn launch(program: &str) -> Launch {
        let variables = BTreeMap::from([("PATH".to_owned(), "/nowhere:/usr/bin:/bin".to_owned())]);
        Launch {
            program: program.to_owned(),
            arguments: Vec::new(),
            variables,
            directory: PathBuf::from("/"),
            view: None,
        }
    }

    #[test]
    fn programs_are_looked_for_as_a_runtime_does() {
        let said = |program| launch(program).check().unwrap_err().to_string();
        assert!(launch("sh").check().is_ok());
        assert!(launch("/bin/sh").check().is_ok());
        assert!(launch("./bin/sh").check().is_ok());
        assert_eq!(said(""), "no command specified");
        assert_eq!(said("no-such"), "exec: \"no-such\": executable file not found in $PATH");
        assert_eq!(said("/no/such"), "exec: \"/no/such\": stat /no/such: no such file or directory");
        assert_eq!(said("/usr"), "exec: \"/usr\": permission denied");
    }

    #[test]
    fn names_a_shell_cannot_say_are_known() {
        assert!(is_shell_name("_A1"));
        assert!(!is_shell_name("a.b"));
        assert!(!is_shell_name("1a"));
    }
}
