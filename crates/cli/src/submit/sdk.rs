//! Tasks of the flyte SDK. The SDK itself serialises them, in a Python process.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use aileron_idl::flyteidl2::core::TaskTemplate;
use aileron_idl::flyteidl2::core::task_template::Target;
use aileron_idl::{JsonError, json_to_struct, struct_to_json};
use anyhow::{Context, anyhow};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use prost::Message;
use prost_types::Struct;
use serde::Deserialize;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::inputs::{GivenInputs, InputsFile};
use super::{DOMAIN, PROJECT, Request, SubmitOptions};
use crate::failure::Failure;

/// The Python program that calls the SDK. It documents its request and its answer.
const SERIALIZE: &str = include_str!("sdk/serialize.py");
/// The program that runs a task of the SDK. It is on the PATH of the task's image.
const ENTRY_POINT: &str = "a0";

/// A Python interpreter that should have the flyte package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Serializer {
    python: PathBuf,
}

/// A serialised task.
#[derive(Clone, Debug)]
pub struct Serialized {
    /// The task template.
    pub template: TaskTemplate,
    /// The encoded inputs.
    pub inputs: Bytes,
    /// The short name of the task, for people.
    pub short_name: String,
    /// The directory that must be on `PYTHONPATH`, so that the module can be imported.
    root: String,
    /// The path of the entry point in the Python environment.
    program: PathBuf,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Answer {
    Refused { kind: String, error: String },
    Done { template: String, inputs: String, short_name: String, root: String, program: PathBuf },
}

impl Serializer {
    /// The interpreter or virtualenv that the user names, else the active virtualenv, else `python3` on PATH.
    pub fn choose(named: Option<&Path>, variable: impl Fn(&str) -> Option<PathBuf>) -> Self {
        let within = |environment: &Path| environment.join("bin/python");
        let python = match named {
            Some(path) if path.is_dir() => within(path),
            Some(path) => path.to_owned(),
            None => match variable("VIRTUAL_ENV").filter(|path| !path.as_os_str().is_empty()) {
                Some(environment) => within(&environment),
                None => "python3".into(),
            },
        };
        Self { python }
    }

    /// Serialises the task and its inputs.
    pub async fn serialize(
        &self,
        module: &Path,
        task: &str,
        given: &GivenInputs,
        options: &SubmitOptions,
    ) -> Result<Serialized, Failure> {
        let file = std::fs::canonicalize(module)
            .map_err(|error| Failure::Usage(format!("{}: cannot read it: {error}", module.display())))?;
        let values = match &given.file {
            None => json!({}),
            Some(InputsFile::Values(values)) => values.clone().into(),
            Some(InputsFile::Literals(_)) => {
                return Err(Failure::Usage(
                    "--inputs: give plain values, {\"name\": value}; the SDK converts them to literals".into(),
                ));
            }
        };
        let request = json!({
            "file": file,
            "task": task,
            "inputs": given.texts,
            "values": values,
            "project": options.project.as_deref().unwrap_or(PROJECT),
            "domain": options.domain.as_deref().unwrap_or(DOMAIN),
        });
        let subject = format!("{}:{task}", module.display());
        match self.call(&request.to_string()).await.with_context(|| subject.clone())? {
            Answer::Refused { kind, error } if kind == "task" => Err(Failure::Failed(anyhow!("{subject}: {error}"))),
            Answer::Refused { error, .. } => Err(Failure::Usage(format!("{subject}: {error}"))),
            Answer::Done { template, inputs, short_name, root, program } => {
                let bytes = |text: &str| STANDARD.decode(text).context("the SDK's answer is not base64");
                let template = TaskTemplate::decode(bytes(&template)?.as_slice());
                Ok(Serialized {
                    template: template.context("the SDK's answer is no task template")?,
                    inputs: bytes(&inputs)?.into(),
                    short_name,
                    root,
                    program,
                })
            }
        }
    }

    /// Runs the Python program with a request, and returns its answer.
    async fn call(&self, request: &str) -> anyhow::Result<Answer> {
        let python = self.python.display();
        // The program is an argument, so that no file has to be written. Its error stream is that of this process.
        let child = Command::new(&self.python)
            .args(["-c", SERIALIZE])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .spawn();
        let mut child = child.with_context(|| {
            format!("cannot run {python}: install Python 3.10 or later, or name one with --python PATH")
        })?;
        if let Some(mut stdin) = child.stdin.take() {
            // A program that ends without reading writes the reason to the error stream.
            let _ = stdin.write_all(request.as_bytes()).await;
        }
        let ended = child.wait_with_output().await.with_context(|| format!("cannot wait for {python}"))?;
        serde_json::from_slice(&ended.stdout)
            .map_err(|_| anyhow!("{python} ended with {} and without an answer", ended.status))
    }
}

impl Serialized {
    /// Changes the task so that it runs in the Python environment that has serialised it. In a sandbox, pods are processes on
    /// this machine.
    ///
    /// A sandbox does not use the image of the task, so the entry point is called by its path. There is no code bundle, so
    /// the module is found by `PYTHONPATH`.
    pub fn run_on_this_machine(&self, request: &mut Request) -> Result<(), Failure> {
        if !self.program.exists() {
            return Err(Failure::Failed(anyhow!("{} is missing: reinstall the flyte package", self.program.display())));
        }
        let program = self.program.display().to_string();
        match &mut request.template.target {
            Some(Target::Container(container)) => {
                if let Some(first) = container.args.first_mut().filter(|first| *first == ENTRY_POINT) {
                    *first = program;
                }
            }
            Some(Target::K8sPod(pod)) => {
                if let Some(spec) = &mut pod.pod_spec {
                    *spec = with_program(spec, &program).context("the task's pod template cannot be used")?;
                }
            }
            Some(Target::Sql(_)) | None => {}
        }
        let variables = [("PYTHONPATH", self.root.as_str()), ("PYTHONDONTWRITEBYTECODE", "1")];
        request.env_vars.extend(variables.map(|(name, value)| (name.to_owned(), value.to_owned())));
        Ok(())
    }
}

/// A pod spec whose containers call the entry point by its path.
fn with_program(spec: &Struct, program: &str) -> Result<Struct, JsonError> {
    let mut spec = struct_to_json(spec)?;
    for container in spec["containers"].as_array_mut().into_iter().flatten() {
        if let Some(first) = container.pointer_mut("/args/0").filter(|first| *first == ENTRY_POINT) {
            *first = program.into();
        }
    }
    json_to_struct(&spec)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use aileron_idl::flyteidl2::core::{Container, K8sPod};

    use super::*;

    #[test]
    fn the_named_python_overrides_the_active_virtualenv() {
        let active = |name: &str| (name == "VIRTUAL_ENV").then(|| PathBuf::from("/venv"));
        let chosen = |named: Option<&Path>| Serializer::choose(named, active).python;
        assert_eq!(chosen(None), Path::new("/venv/bin/python"));
        assert_eq!(chosen(Some(Path::new("/usr/bin/python3"))), Path::new("/usr/bin/python3"));
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(chosen(Some(directory.path())), directory.path().join("bin/python"));
        assert_eq!(Serializer::choose(None, |_| None).python, Path::new("python3"));
    }

    #[test]
    fn the_entry_point_is_called_by_its_path_wherever_it_stands() {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("a0");
        std::fs::write(&program, "").unwrap();
        let serialized = |target: Target| Serialized {
            template: TaskTemplate { target: Some(target), ..TaskTemplate::default() },
            inputs: Bytes::new(),
            short_name: "t".into(),
            root: "/src".into(),
            program: program.clone(),
        };
        let here = |serialized: &Serialized| {
            let mut request = Request { template: serialized.template.clone(), ..Request::default() };
            serialized.run_on_this_machine(&mut request).unwrap();
            assert_eq!(request.env_vars["PYTHONPATH"], "/src");
            aileron_idl::message_to_json(&request.template).unwrap().to_string()
        };
        let path = program.display().to_string();
        let container = Container { args: vec!["a0".into(), "a0".into()], ..Container::default() };
        let text = here(&serialized(Target::Container(container)));
        assert!(text.contains(&format!("[\"{path}\",\"a0\"]")), "{text}");
        let spec = json!({"containers": [{"name": "primary", "args": ["a0", "--x"]}, {"name": "other"}]});
        let pod = K8sPod { pod_spec: Some(json_to_struct(&spec).unwrap()), ..K8sPod::default() };
        let text = here(&serialized(Target::K8sPod(pod)));
        assert!(text.contains(&format!("[\"{path}\",\"--x\"]")), "{text}");
        std::fs::remove_file(&program).unwrap();
        let gone = serialized(Target::Container(Container::default()));
        assert!(gone.run_on_this_machine(&mut Request::default()).unwrap_err().to_string().contains("is missing"));
    }

    #[tokio::test]
    async fn a_program_that_is_not_python_is_reported_with_a_remedy() {
        let directory = tempfile::tempdir().unwrap();
        let module = directory.path().join("m.py");
        std::fs::write(&module, "").unwrap();
        let serialize = async |python: &str| {
            let serializer = Serializer::choose(Some(Path::new(python)), |_| None);
            serializer
                .serialize(&module, "t", &GivenInputs::default(), &SubmitOptions::default())
                .await
                .unwrap_err()
                .to_string()
        };
        assert!(serialize("/not/there").await.contains("--python PATH"), "{}", serialize("/not/there").await);
        assert!(serialize("true").await.contains("without an answer"), "{}", serialize("true").await);
    }
}
