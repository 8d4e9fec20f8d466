//! The commands `submit` and `io`, with temporary sandboxes.
#![allow(clippy::unwrap_used, missing_docs)]

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

/// Runs the program in an empty home, where no sandbox is found.
fn aileron(home: &Path, arguments: &[&str]) -> Ended {
    let output = Command::new(env!("CARGO_BIN_EXE_aileron"))
        .args(arguments)
        .current_dir(home)
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

fn example(name: &str) -> String {
    format!("{}/../../examples/tasks/{name}.yaml", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn outputs_are_printed_by_name_and_type() {
    let home = tempfile::tempdir().unwrap();
    let arguments = ["submit", &example("inputs-and-outputs"), "--input", "name=bob", "--input", "y=-2", "--follow"];
    let ended = aileron(home.path(), &arguments);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert_eq!(ended.out, "both = [40,-2]\ngreeting = \"hello bob\"\nsum = 38\n");
}

#[test]
fn a_failed_task_is_reported_and_the_exit_code_is_1() {
    let home = tempfile::tempdir().unwrap();
    let arguments = ["submit", &example("retries"), "--retries", "1", "--run", "luck", "--follow", "-o", "json"];
    let ended = aileron(home.path(), &arguments);
    assert_eq!(ended.code, Some(1), "{}", ended.err);
    let result: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(
        (&result["outcome"], &result["attempts"], &result["name"]),
        (&json!("Failed"), &json!(2), &json!("luck-a0"))
    );
    assert!(result["error"].as_str().unwrap().contains("attempt 1 has no luck"), "{result}");
}

#[test]
fn mistakes_are_reported_before_a_task_runs() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("bad.yaml"), "name: t\nimage: i\nretires: 2\ntimeout: soon\n").unwrap();
    std::fs::write(home.path().join("broken.yaml"), "name: [\n").unwrap();
    std::fs::write(home.path().join("m.py"), "").unwrap();
    let hello = example("hello");
    let expected = [
        (&["submit", "nowhere.yaml", "--follow"][..], 2, "nowhere.yaml: cannot read it"),
        (&["submit", "bad.yaml", "--follow"], 2, "bad.yaml:3: retires: no such field; did you mean `retries`?"),
        (&["submit", "bad.yaml", "--follow"], 2, "bad.yaml:4: timeout: must be a duration"),
        (&["submit", "broken.yaml", "--follow"], 2, "broken.yaml: not valid YAML or JSON"),
        (&["render", "bad.yaml"], 2, "bad.yaml:3: retires: no such field"),
        (&["submit", &hello, "--input", "nme=x", "--follow"], 2, "it has name: string"),
        (&["submit", &hello, "--input", "name", "--follow"], 2, "write NAME=VALUE"),
        (&["submit", "m.py", "--follow"], 2, "m.py:TASK"),
        (&["submit", &hello], 1, "add --follow to run the task in a temporary sandbox"),
    ];
    for (arguments, code, text) in expected {
        let ended = aileron(home.path(), arguments);
        assert_eq!((ended.code, ended.out.as_str()), (Some(code), ""), "{arguments:?}: {}", ended.err);
        assert!(ended.err.contains(text), "{arguments:?}: {}", ended.err);
    }
}

#[test]
fn files_of_outputs_and_errors_are_written_and_read() {
    let home = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let ended = aileron(home.path(), arguments);
        assert_eq!(ended.code, Some(0), "{arguments:?}: {}", ended.err);
        ended.out
    };
    let prefix = format!("file://{}/out", home.path().display());
    run(&["io", "write", &prefix, "text=hello", "total:int=42", "when:datetime=2026-03-01"]);
    let read: Value = serde_json::from_str(&run(&["io", "read", "out/outputs.pb"])).unwrap();
    assert_eq!(read, json!({"text": "hello", "total": 42, "when": "2026-03-01T00:00:00Z"}));
    assert_eq!(run(&["io", "read", "out", "-o", "yaml"]).lines().next(), Some("text: hello"));
    run(&["io", "fail", "out", "no luck", "--code", "Luck", "--for-good"]);
    let read: Value = serde_json::from_str(&run(&["io", "read", &prefix])).unwrap();
    assert_eq!(read["error"]["code"], "Luck", "an error takes precedence over outputs");
    let wrong = aileron(home.path(), &["io", "write", "out", "n:int=x"]);
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.err.contains("must be int, such as 41"), "{}", wrong.err);
    assert_eq!(aileron(home.path(), &["io", "read", "elsewhere"]).code, Some(1));
}
