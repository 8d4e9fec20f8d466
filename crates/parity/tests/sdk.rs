//! Tasks of the real SDK: the SDK serialises them, its entry point runs them in the sandbox, and the outputs are read.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use aileron_parity::suite::binary;
use serde_json::{Value, json};

struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

/// The virtualenv that `sdk/build` creates. If that fails, the test fails.
fn virtualenv() -> &'static Path {
    static CREATED: OnceLock<PathBuf> = OnceLock::new();
    CREATED.get_or_init(|| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("sdk/build");
        let output = Command::new(&script).stdin(Stdio::null()).stderr(Stdio::inherit()).output();
        let output = output.unwrap_or_else(|error| panic!("{}: {error}; it needs python3", script.display()));
        assert!(output.status.success(), "{} failed; its output above has the reason", script.display());
        PathBuf::from(String::from_utf8(output.stdout).unwrap().lines().last().unwrap())
    })
}

/// Runs `aileron submit` with an empty home directory, so that it finds no sandbox of the user.
fn submit(home: &Path, arguments: &[&str]) -> Ended {
    let output = Command::new(binary().unwrap())
        .arg("submit")
        .args(arguments)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", home)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    Ended {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Runs a task of the example module to its end. Returns the output of the program, also as JSON.
fn run(task: &str, arguments: &[&str]) -> (Ended, Value) {
    let home = tempfile::tempdir().unwrap();
    let module = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/python/greet.py");
    let task = format!("{module}:{task}");
    let python = virtualenv().display().to_string();
    let fixed = [task.as_str(), "--python", &python, "--follow", "-o", "json"];
    let ended = submit(home.path(), &[&fixed[..], arguments].concat());
    let report = serde_json::from_str(&ended.out).unwrap_or(Value::Null);
    (ended, report)
}

#[test]
fn a_task_runs_and_its_outputs_are_typed() {
    let (ended, report) = run("greet", &["--input", "name=ada", "--input", "x=41"]);
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.out, ended.err);
    assert_eq!(report["outcome"], "Succeeded");
    assert_eq!(report["attempts"], 1);
    assert_eq!(report["outputs"], json!({"o0": "hello ada, 42"}));
}

#[test]
fn structured_values_go_in_and_come_out() {
    let greeting = r#"greeting={"text": "hi", "number": 2}"#;
    let (ended, report) = run("compose", &["--input", greeting, "--input", "times=[1, 2]"]);
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.out, ended.err);
    assert_eq!(report["outputs"]["o0"], json!({"text": "hi hi", "number": 6}));
}

#[test]
fn an_exception_is_retried_and_reported_with_its_traceback() {
    let (ended, report) = run("fragile", &["--input", "name=ada"]);
    assert_eq!(ended.code, Some(1), "{}\n{}", ended.out, ended.err);
    assert_eq!((&report["outcome"], &report["attempts"]), (&json!("Failed"), &json!(3)), "{report}");
    assert_eq!(report["error"], "[ValueError] no greeting for ada");
    let traceback = report["traceback"].as_str().unwrap();
    for part in ["examples/python/greet.py\", line ", "in fragile", "ValueError: no greeting for ada"] {
        assert!(traceback.contains(part), "{part} is not in:\n{traceback}");
    }
    assert!(!traceback.contains("site-packages"), "the traceback has frames of the SDK:\n{traceback}");
}

#[test]
fn a_large_input_arrives() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("inputs.json");
    let length = 5 << 20;
    std::fs::write(&file, json!({"text": "x".repeat(length)}).to_string()).unwrap();
    let (ended, report) = run("measure", &["--inputs", file.to_str().unwrap()]);
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.out, ended.err);
    assert_eq!(report["outputs"], json!({"o0": length}));
}

#[test]
fn invalid_arguments_are_reported_before_anything_runs() {
    let refused = |task: &str, arguments: &[&str]| {
        let (ended, _) = run(task, arguments);
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{}", ended.err);
        ended.err
    };
    assert!(refused("gret", &[]).contains("it has greet, compose, fragile, measure"));
    assert!(refused("greet", &["--input", "nme=ada"]).contains("it has name: str, x: int"));
    assert!(refused("greet", &[]).contains("missing inputs: name (str); give them as --input name=VALUE"));
    assert!(refused("greet", &["--input", "name=a", "--input", "x=b"]).contains("input x: "));
    assert!(refused("compose", &["--input", "greeting={}", "--input", "times=[]"]).contains("greeting.text"));
}

#[test]
fn a_python_without_the_sdk_is_an_error_with_the_install_command() {
    let home = tempfile::tempdir().unwrap();
    let bare = home.path().join("bare");
    // The interpreter of the virtualenv, without its packages.
    let made = Command::new(virtualenv().join("bin/python")).args(["-m", "venv", "--without-pip"]).arg(&bare).status();
    assert!(made.unwrap().success());
    let module = home.path().join("m.py");
    std::fs::write(&module, "").unwrap();
    let task = format!("{}:t", module.display());
    let ended = submit(home.path(), &[&task, "--python", bare.to_str().unwrap(), "--follow"]);
    assert_eq!(ended.code, Some(2), "{}", ended.err);
    assert!(ended.err.contains("has no flyte package: install it with"), "{}", ended.err);
    assert!(ended.err.contains("pip install 'flyte==2.12.*'"), "{}", ended.err);
}
