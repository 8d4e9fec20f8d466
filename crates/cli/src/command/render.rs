//! `aileron render`.

use std::io::Read;
use std::path::Path;

use aileron_executor::config::Loaded;
use aileron_executor::offline::{Offline, OfflineError, read};
use anyhow::Context;
use jiff::Timestamp;

use crate::arguments::{Document, RenderArguments, TaskArguments};
use crate::failure::Failure;
use crate::submit::source::unreadable;
use crate::{configuration, output};

pub fn render(arguments: &RenderArguments, overrides: Vec<(String, String)>) -> Result<(), Failure> {
    let (offline, _) = offline(&arguments.task, overrides)?;
    let object = offline.render().map_err(|error| refused(&arguments.task, error))?.object;
    match arguments.output {
        Document::Json => output::print_json(&object),
        Document::Yaml => output::print(&serde_saphyr::to_string(&object).context("cannot print the object as YAML")?),
    }
}

/// Everything the object depends on, from files and the environment.
pub fn offline(arguments: &TaskArguments, overrides: Vec<(String, String)>) -> Result<(Offline, Loaded), Failure> {
    let sources = configuration::sources(&arguments.config, overrides)?;
    let environment = sources.environment.clone();
    let loaded = aileron_executor::config::Loader::new().load(&sources)?;
    for warning in &loaded.warnings {
        output::warn(&warning.to_string());
    }
    let mut given = from_file(&arguments.file, read::task)?;
    if let Some(namespace) = &arguments.namespace {
        given.action.metadata.namespace = Some(namespace.clone());
    }
    for note in given.notes() {
        output::warn(&format!("{}: {note}", name(&arguments.file)));
    }
    if let Some(task_type) = &arguments.task_type {
        given.action.spec.task_type.clone_from(task_type);
        given.template.r#type.clone_from(task_type);
    }
    let pod_templates = arguments.pod_templates.iter().map(|path| from_file(path, read::pod_template));
    let offline = Offline {
        action: given.action,
        template: given.template,
        config: loaded.config.clone(),
        plugins: aileron_plugins::builtin(),
        pod_templates: pod_templates.collect::<Result<_, _>>()?,
        inputs: match &arguments.inputs {
            Some(path) => Some(from_file(path, read::inputs)?),
            None => given.file.and_then(|file| file.default_inputs()),
        },
        environment,
        executor_namespace: arguments.executor_namespace.clone(),
        now: Timestamp::now(),
    };
    Ok((offline, loaded))
}

/// Why there is no object, and for which file.
pub fn refused(arguments: &TaskArguments, error: OfflineError) -> Failure {
    match error {
        OfflineError::Rules(error) => Failure::Usage(error.to_string()),
        error => Failure::Failed(anyhow::Error::new(error).context(name(&arguments.file))),
    }
}

fn from_file<T>(path: &Path, read: fn(&[u8]) -> Result<T, read::ReadError>) -> Result<T, Failure> {
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        std::io::stdin().lock().read_to_end(&mut bytes).context("cannot read standard input")?;
    } else {
        bytes =
            std::fs::read(path).map_err(|error| Failure::Usage(format!("{}: cannot read it: {error}", name(path))))?;
    }
    read(&bytes).map_err(|error| unreadable(&name(path), error))
}

fn name(path: &Path) -> String {
    if path == Path::new("-") { "standard input".into() } else { path.display().to_string() }
}
