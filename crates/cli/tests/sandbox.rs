//! The command `sandbox`, and the commands that show and abort actions.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Time limit of a wait. It is long because the machine may be busy with other programs.
const PATIENCE: Duration = Duration::from_secs(120);

const HELLO: &str = "\
# Says hello.
name: hello
image: any
command: [sh, -c, 'echo hello from $0; echo to the error stream >&2', somebody]
expect: {phase: succeeded, attempts: 1}
";

const FAILS: &str = "\
name: fails
image: any
command: [sh, -c, 'echo going to fail; exit 3']
retries: 1
expect: {phase: failed, attempts: 2}
";

/// A user with a home of their own, so that sandboxes of others are not seen.
struct User {
    home: tempfile::TempDir,
}

struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

/// A sandbox that runs; killed if a test fails.
struct Running {
    child: Child,
    /// What it says at the start.
    welcome: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl User {
    fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn file(&self, name: &str, text: &str) -> String {
        std::fs::write(self.path(name), text).unwrap();
        self.path(name).display().to_string()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_aileron"));
        command.args(arguments).current_dir(self.home.path()).env_clear().stdin(Stdio::null());
        command.env("HOME", self.home.path()).env("PATH", std::env::var_os("PATH").unwrap());
        command
    }

    fn run(&self, arguments: &[&str]) -> Ended {
        let output = self.command(arguments).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ended { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// Runs a command that must succeed.
    fn good(&self, arguments: &[&str]) -> String {
        let ended = self.run(arguments);
        assert_eq!(ended.code, Some(0), "{arguments:?}: {}{}", ended.out, ended.err);
        ended.out
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.good(arguments)).unwrap()
    }

    fn start(&self, arguments: &[&str]) -> Running {
        let arguments = [&["sandbox"], arguments].concat();
        let mut child = self.command(&arguments).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut welcome = String::new();
        while !welcome.ends_with("Ctrl-C stops the sandbox.\n") {
            let line = lines.next().expect("the sandbox ended before it was ready").unwrap();
            welcome.push_str(&line);
            welcome.push('\n');
        }
        Running { child, welcome }
    }

    /// Waits until an action is as wanted.
    fn until(&self, name: &str, phase: &str) -> Value {
        let begin = Instant::now();
        loop {
            let found = self.json(&["get", name, "-o", "json"])["actions"][0].clone();
            if found["phase"] == phase {
                return found;
            }
            assert!(begin.elapsed() < PATIENCE, "never {phase}: {found}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Running {
    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
    }

    fn end(mut self, signal: &str) -> Option<i32> {
        self.signal(signal);
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(begin.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The directory that the welcome names.
    fn dir(&self) -> PathBuf {
        let line = self.welcome.lines().find(|line| line.trim_start().starts_with("files")).unwrap();
        line.split_whitespace().nth(1).unwrap().into()
    }
}

/// Processes whose command line has this text, apart from this one.
fn processes(text: &str) -> Vec<String> {
    let all = Command::new("ps").args(["-eo", "pid,args"]).output().unwrap();
    let all = String::from_utf8_lossy(&all.stdout).into_owned();
    all.lines().filter(|line| line.contains(text)).map(str::to_owned).collect()
}

fn sleeper(mark: &str) -> String {
    format!("name: sleeper\nimage: any\ncommand: [sh, -c, 'echo {mark}; sleep 600; true', {mark}]\n")
}

#[test]
fn without_a_sandbox_commands_say_how_to_start_one() {
    let user = User::new();
    for arguments in [&["get"][..], &["describe", "x"], &["logs", "x"], &["abort", "x"]] {
        let ended = user.run(arguments);
        assert_eq!(ended.code, Some(1), "{arguments:?}");
        assert!(ended.err.contains("no sandbox is running") && ended.err.contains("aileron sandbox"), "{}", ended.err);
    }
    assert_eq!(user.run(&["abort"]).code, Some(2));
    assert!(user.run(&["get", "--kubeconfig", "/nowhere"]).err.contains("--kubeconfig: cannot use /nowhere"));
}

#[test]
fn every_command_shows_a_task() {
    let user = User::new();
    let sandbox = user.start(&[]);
    let hello = user.file("hello.yaml", HELLO);
    user.good(&["submit", &hello, "--run", "hello", "--name", "hello"]);
    let seen = user.until("hello", "Succeeded");
    assert_eq!((&seen["attempt"], &seen["maxAttempts"], &seen["outcome"]), (&1.into(), &1.into(), &"Succeeded".into()));

    let table = user.good(&["get"]);
    let header: Vec<_> = table.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(header, ["NAME", "TYPE", "PHASE", "ATTEMPT", "DURATION", "AGE", "REASON"]);
    assert!(table.lines().nth(1).unwrap().starts_with("hello   container   Succeeded   1/1 "), "{table}");
    assert_eq!(user.good(&["get", "-o", "name"]), "hello\n");
    assert!(user.good(&["get", "-A", "-o", "wide"]).starts_with("NAMESPACE"));
    assert!(user.good(&["get", "-o", "yaml"]).contains("phase: Succeeded"));
    assert_eq!(user.json(&["get", "-l", "no=such", "-o", "json"])["actions"], Value::Array(vec![]));
    let missing = user.run(&["get", "hello", "nobody"]);
    assert_eq!((missing.code, missing.err.as_str()), (Some(1), "warning: namespace default has no action nobody\n"));

    let described = user.good(&["describe", "hello"]);
    for part in [
        "Name:       hello\n",
        "Phase:      Succeeded, attempt 1 of 1",
        "Outputs:    file://",
        "  Pod    hello-0",
        "Phases:",
        "Completed",
        "Events:",
        "Scheduled",
    ] {
        assert!(described.contains(part), "{part}:\n{described}");
    }
    assert!(!described.contains("Plugin:"), "its own plugin took it:\n{described}");
    let described = user.json(&["describe", "hello", "-o", "json"]);
    assert_eq!(described["summary"]["phase"], "Succeeded");
    assert_eq!(described["objects"][0]["state"], "Succeeded");

    let log = user.good(&["logs", "hello"]);
    assert!(log.contains("hello from somebody\n") && log.contains("to the error stream\n"), "{log}");
    assert_eq!(user.good(&["logs", "hello", "--tail", "1"]).lines().count(), 1);
    assert_eq!(user.good(&["logs", "hello", "-f"]), log);
    assert!(user.run(&["logs", "hello", "--attempt", "2"]).err.contains("has no attempt 2 yet"));
    assert!(user.run(&["logs", "hello", "--container", "x"]).err.contains("--container x: the containers are"));
    assert_eq!(user.good(&["abort", "hello"]), "hello had already ended: Succeeded\n");

    let kubeconfig = sandbox.dir().join("kubeconfig").display().to_string();
    let stranger = User::new();
    assert_eq!(stranger.good(&["get", "--kubeconfig", &kubeconfig, "-o", "name"]), "hello\n");
    let by_variable = stranger.command(&["get", "-o", "name"]).env("KUBECONFIG", &kubeconfig).output().unwrap();
    assert_eq!(String::from_utf8(by_variable.stdout).unwrap(), "hello\n");
    assert_eq!(sandbox.end("TERM"), Some(0));
    assert!(user.run(&["get"]).err.contains("no sandbox is running"));
}

#[test]
fn a_failure_shows_its_attempts_and_its_error() {
    let user = User::new();
    let sandbox = user.start(&[]);
    let fails = user.file("fails.yaml", FAILS);
    user.good(&["submit", &fails, "--run", "fails", "--name", "fails"]);
    let seen = user.until("fails", "Failed");
    assert_eq!((&seen["attempt"], &seen["maxAttempts"]), (&2.into(), &2.into()));
    let described = user.good(&["describe", "fails"]);
    assert!(described.contains("\nError: ") && described.contains("Failed, attempt 2 of 2"), "{described}");
    assert_eq!(user.good(&["logs", "fails"]), "going to fail\n");
    assert!(user.run(&["logs", "fails", "--attempt", "1"]).err.contains("the pod of attempt 1 of fails was deleted"));
    assert_eq!(sandbox.end("INT"), Some(0));
}

#[test]
fn an_exceeded_time_limit_is_reported() {
    let user = User::new();
    let slow = "name: slow\nimage: any\ncommand: [sh, -c, 'sleep 600']\ntimeout: 1s\nexpect: {phase: timed-out}\n";
    let good = user.run(&["demo", &user.file("slow.yaml", slow)]);
    assert_eq!(good.code, Some(0), "{}{}", good.out, good.err);
    assert!(good.out.contains("slow   timed-out   timed-out   1 "), "{}", good.out);
    assert!(good.out.contains("\n1 task in "), "{}", good.out);
    let bad = user.run(&["demo", &user.file("bad.yaml", &slow.replace("timed-out", "failed"))]);
    assert_eq!(bad.code, Some(1), "{}", bad.out);
    assert!(bad.out.contains("expected phase failed, found timed-out"), "{}", bad.out);
    let alone = user.run(&["submit", &user.path("slow.yaml").display().to_string(), "--name", "slow", "--follow"]);
    assert_eq!(alone.code, Some(1), "{}", alone.out);
    assert!(alone.out.starts_with("slow timed out: [MAX_RUNTIME_EXCEEDED] attempt 1 ran for 1s"), "{}", alone.out);
}

#[test]
fn describe_shows_the_plugin_of_an_unknown_task_type() {
    let user = User::new();
    let sandbox = user.start(&[]);
    let odd = user.file("odd.yaml", &format!("{HELLO}type: unheard-of\n"));
    user.good(&["submit", &odd, "--run", "odd", "--name", "odd"]);
    user.until("odd", "Succeeded");
    let described = user.good(&["describe", "odd"]);
    let chosen = "Plugin:     plugin \"pod\" takes task type \"unheard-of\": no plugin serves the task type";
    assert!(described.contains(chosen), "{described}");
    assert_eq!(sandbox.end("TERM"), Some(0));
}

#[test]
fn a_running_task_is_aborted_and_no_process_outlives_the_sandbox() {
    let user = User::new();
    let sandbox = user.start(&[]);
    let mark = format!("mark-{}", std::process::id());
    let task = user.file("sleeper.yaml", &sleeper(&mark));
    for name in ["one", "two"] {
        user.good(&["submit", &task, "--run", name, "--name", name]);
    }
    user.until("one", "Running");
    user.until("two", "Running");
    let ended = user.good(&["abort", "one", "--wait"]);
    assert!(ended.starts_with("one was aborted after ") && ended.ends_with("it was Running, attempt 1/1\n"), "{ended}");
    assert_eq!(user.run(&["get", "one"]).code, Some(1));
    assert!(!processes(&mark).is_empty(), "two still runs");

    let dir = sandbox.dir();
    let second = user.run(&["sandbox"]);
    assert_eq!(second.code, Some(1));
    let process = format!("a sandbox is already running: process {}", sandbox.child.id());
    assert!(second.err.contains(&process), "{}", second.err);
    assert_eq!(sandbox.end("TERM"), Some(0));
    assert_eq!(processes(&mark), Vec::<String>::new());
    assert!(!dir.exists(), "the directory goes with the sandbox");
}

#[test]
fn the_next_sandbox_cleans_up_after_a_killed_one() {
    let user = User::new();
    let mut sandbox = user.start(&[]);
    let mark = format!("killed-{}", std::process::id());
    let task = user.file("sleeper.yaml", &sleeper(&mark));
    user.good(&["submit", &task, "--run", "one", "--name", "one"]);
    user.until("one", "Running");
    let dir = sandbox.dir();
    sandbox.child.kill().unwrap();
    sandbox.child.wait().unwrap();
    assert!(user.run(&["get"]).err.contains("no sandbox is running"));
    let begin = Instant::now();
    while !processes(&mark).is_empty() {
        assert!(begin.elapsed() < PATIENCE, "{:?}", processes(&mark));
        std::thread::sleep(Duration::from_millis(50));
    }
    let next = user.start(&[]);
    assert!(!dir.exists(), "what was left is cleaned up");
    assert_eq!(next.end("TERM"), Some(0));
}

#[test]
fn a_persistent_sandbox_has_its_objects_after_the_next_start() {
    let user = User::new();
    let place = user.path("kept").display().to_string();
    let sandbox = user.start(&["--persist", &place]);
    let copy = user.file("copy", &std::fs::read_to_string(sandbox.dir().join("kubeconfig")).unwrap());
    let welcome = sandbox.welcome.clone();
    let hello = user.file("hello.yaml", HELLO);
    user.good(&["submit", &hello, "--run", "hello", "--name", "hello"]);
    user.until("hello", "Succeeded");
    assert_eq!(sandbox.end("TERM"), Some(0));
    let log = Path::new(&place).join("executor.log");
    assert!(welcome.contains(&format!("log          {}", log.display())) && log.exists(), "{welcome}");
    std::fs::remove_file(&log).unwrap();
    let again = user.start(&["--persist", &place, "-v", "--log-level", "error"]);
    assert!(!again.welcome.contains("executor.log") && !log.exists(), "{}", again.welcome);
    user.until("hello", "Succeeded");
    let stranger = User::new();
    assert_eq!(stranger.good(&["get", "--kubeconfig", &copy, "-o", "name"]), "hello\n", "an old copy still works");
    assert_eq!(again.end("TERM"), Some(0));
}

#[test]
fn a_demo_succeeds_only_if_all_tasks_end_as_expected() {
    let user = User::new();
    let hello = user.file("hello.yaml", HELLO);
    let fails = user.file("fails.yaml", FAILS);
    let good = user.run(&["demo", &hello, &fails]);
    assert_eq!(good.code, Some(0), "{}{}", good.out, good.err);
    assert!(good.out.contains("2 tasks in ") && good.out.contains("all ended as expected"), "{}", good.out);
    let wrong = user.file("wrong.yaml", &HELLO.replace("succeeded", "failed"));
    let bad = user.run(&["demo", &hello, &wrong]);
    assert_eq!(bad.code, Some(1), "{}", bad.out);
    let waits = "name: w\nimage: does-not-exist\ncommand: [sh]\nexpect: {pending: ImagePull, reason: does-not-exist}\n";
    let waits = user.file("waits.yaml", waits);
    let good = user.run(&["demo", &waits]);
    assert_eq!(good.code, Some(0), "{}{}", good.out, good.err);
    assert!(good.out.contains("waiting   1          ImagePull "), "{}", good.out);
    assert!(
        bad.out.contains("wrong did not end as expected:\n  expected phase failed, found succeeded"),
        "{}",
        bad.out
    );
}

#[test]
fn every_command_shows_what_a_task_waits_for() {
    let user = User::new();
    let sandbox = user.start(&["--gpu", "1"]);
    let task = "name: greedy\nimage: any\ncommand: [sh, -c, 'true']\nresources: {gpu: 2}\n";
    let task = user.file("greedy.yaml", task);
    user.good(&["submit", &task, "--run", "greedy", "--name", "greedy"]);
    let seen = user.until("greedy", "Waiting");
    assert_eq!((&seen["reason"], &seen["pending"]["reason"]), (&"Unschedulable".into(), &"Unschedulable".into()));
    assert!(seen["pending"]["message"].as_str().unwrap().contains("Insufficient nvidia.com/gpu"), "{seen}");
    let table = user.good(&["get"]);
    assert!(table.contains("Waiting   1/1 ") && table.contains("Unschedulable: no node takes pod greedy-0"), "{table}");
    let described = user.good(&["describe", "greedy"]);
    assert!(described.contains("Waits for:  Unschedulable for "), "{described}");
    let log = user.run(&["logs", "greedy"]);
    assert!(log.err.contains("greedy has written nothing yet; it waits: Unschedulable"), "{}", log.err);
    let ended = user.good(&["abort", "greedy", "--wait"]);
    assert!(ended.ends_with("it was Waiting, attempt 1/1\n"), "{ended}");

    // Commands about the installation find the sandbox as well.
    let plugins = user.good(&["plugins"]);
    let spark = plugins.lines().find(|line| line.starts_with("spark ")).unwrap();
    assert!(spark.ends_with("available") && !spark.ends_with("unavailable"), "{plugins}");
    assert!(user.good(&["plugins", "-o", "name"]).contains("\nspark\n"));
    assert!(user.good(&["plugins", "-o", "yaml"]).starts_with("plugins:"));
    assert!(user.run(&["pools"]).err.contains("no pools"));
    assert_eq!(user.json(&["pools", "-o", "json"])["pools"], Value::Array(vec![]));
    assert_eq!(sandbox.end("HUP"), Some(0));
}

/// After any stop signal, a command with a temporary sandbox leaves no process and no file.
#[test]
fn a_signal_stops_a_temporary_sandbox_without_leftovers() {
    let user = User::new();
    let temporary = user.path("tmp");
    std::fs::create_dir(&temporary).unwrap();
    for (command, signal, code) in
        [("demo", "TERM", 143), ("demo", "INT", 130), ("submit", "INT", 130), ("submit", "TERM", 143)]
    {
        let mark = format!("{command}-{signal}-{}", std::process::id());
        let task = user.file("sleeper.yaml", &sleeper(&mark));
        let arguments = if command == "demo" { vec!["demo", &task] } else { vec!["submit", &task, "--follow"] };
        let mut program = user.command(&arguments);
        program.env("TMPDIR", &temporary).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut running = Running { child: program.spawn().unwrap(), welcome: String::new() };
        let mut stderr = running.child.stderr.take().unwrap();
        let begin = Instant::now();
        while processes(&mark).is_empty() {
            assert!(begin.elapsed() < PATIENCE, "{command}: its pod never runs");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(running.end(signal), Some(code), "{command}");
        let mut text = String::new();
        stderr.read_to_string(&mut text).unwrap();
        assert!(text.contains(&format!("SIG{signal}: stopping")), "{command}: {text}");
        assert_eq!(processes(&mark), Vec::<String>::new(), "{command}");
        assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0, "{command}: something is left");
    }
}

#[test]
fn a_signal_to_submit_does_not_stop_a_task_of_a_running_sandbox() {
    let user = User::new();
    let sandbox = user.start(&[]);
    let mark = format!("left-{}", std::process::id());
    let task = user.file("sleeper.yaml", &sleeper(&mark));
    let arguments = ["submit", &task, "--run", "one", "--name", "one", "--follow"];
    let child = user.command(&arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let looking = Running { child, welcome: String::new() };
    let begin = Instant::now();
    while processes(&mark).is_empty() {
        assert!(begin.elapsed() < PATIENCE, "its pod never runs");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(looking.end("TERM"), Some(130));
    user.until("one", "Running");
    assert_eq!(sandbox.end("TERM"), Some(0));
}

#[test]
fn mistakes_on_the_command_line_are_reported_before_the_start() {
    let user = User::new();
    for (arguments, text) in [
        (&["sandbox", "--image", "x"][..], "write NAME=PATH"),
        (&["sandbox", "--cpu", "many"], "--cpu many: not a quantity"),
        (&["sandbox", "--python", "/nowhere"], "/nowhere does not exist"),
        (&["sandbox", "--executor.clutser", "x"], "executor.cluster"),
        (&["demo", "nowhere.yaml"], "nowhere.yaml: cannot read it"),
        (&["get", "--executor.cluster", "x"], "`aileron get` does not read the configuration"),
    ] {
        let ended = user.run(arguments);
        assert_eq!(ended.code, Some(2), "{arguments:?}: {}", ended.err);
        assert!(ended.err.contains(text), "{arguments:?}: {}", ended.err);
    }
}

#[test]
fn get_watch_shows_changes() {
    let user = User::new();
    let sandbox = user.start(&[]);
    let hello = user.file("hello.yaml", HELLO);
    user.good(&["submit", &hello, "--run", "earlier", "--name", "earlier"]);
    user.until("earlier", "Succeeded");
    let mut watch = user.command(&["get", "-w", "-o", "json"]).stdout(Stdio::piped()).spawn().unwrap();
    let (sender, lines) = std::sync::mpsc::channel();
    let output = BufReader::new(watch.stdout.take().unwrap());
    std::thread::spawn(move || output.lines().try_for_each(|line| sender.send(line.unwrap())));
    let next = || serde_json::from_str::<Value>(&lines.recv_timeout(PATIENCE).unwrap()).unwrap();
    assert_eq!(next()["name"], "earlier", "the watch has begun");

    user.good(&["submit", &hello, "--run", "hello", "--name", "hello"]);
    let mut phases = Vec::new();
    while phases.last().is_none_or(|phase| phase != "Succeeded") {
        let shown = next();
        if shown["name"] == "hello" {
            phases.push(shown["phase"].as_str().unwrap().to_owned());
        }
    }
    assert!(phases.len() > 1, "{phases:?}");
    assert!(Command::new("kill").args(["-s", "INT", &watch.id().to_string()]).status().unwrap().success());
    assert_eq!(watch.wait().unwrap().code(), Some(0));
    sandbox.end("TERM");
}
