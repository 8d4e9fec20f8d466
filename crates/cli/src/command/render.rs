//! `aileron render`: prints the object that the executor would create for a task.

use std::io::Read;
use std::path::Path;

use aileron_config::Loaded;
use aileron_preview::read;
use aileron_preview::render::{Offline, OfflineError};
use anyhow::Context;
use jiff::Timestamp;

use crate::arguments::{DocumentFormat, RenderArguments, TaskArguments};
use crate::configuration;
use crate::display::output;
use crate::failure::Failure;
use crate::program::Program;
use crate::submit::source::explain_read_error;

pub fn run(program: &Program, arguments: &RenderArguments, overrides: Vec<(String, String)>) -> Result<(), Failure> {
    let (offline, _) = offline(program, &arguments.task, overrides)?;
    let object = offline.render().map_err(|error| explain_failure(&arguments.task, error))?.object;
    match arguments.output {
        DocumentFormat::Json => output::print_json(&object),
        DocumentFormat::Yaml => {
            output::print(&serde_saphyr::to_string(&object).context("cannot print the object as YAML")?)
        }
    }
}

/// Reads everything that the object depends on: the task, the configuration, pod templates and inputs.
pub fn offline(
    program: &Program,
    arguments: &TaskArguments,
    overrides: Vec<(String, String)>,
) -> Result<(Offline, Loaded), Failure> {
    let sources = configuration::sources(&arguments.config, overrides);
    let environment = sources.environment.clone();
    let loaded = program.loader().load(&sources)?;
    for warning in &loaded.warnings {
        output::warn(&warning.to_string());
    }
    let mut task = read_file(&arguments.file, read::task)?;
    if let Some(namespace) = &arguments.namespace {
        task.action.metadata.namespace = Some(namespace.clone());
    }
    for note in task.notes() {
        output::warn(&format!("{}: {note}", name(&arguments.file)));
    }
    if let Some(task_type) = &arguments.task_type {
        task.action.spec.task_type.clone_from(task_type);
        task.template.r#type.clone_from(task_type);
    }
    let pod_templates = arguments.pod_templates.iter().map(|path| read_file(path, read::pod_template));
    let offline = Offline {
        action: task.action,
        template: task.template,
        config: loaded.config.clone(),
        plugins: program.plugin_sources().clone(),
        pod_templates: pod_templates.collect::<Result<_, _>>()?,
        inputs: match &arguments.inputs {
            Some(path) => Some(read_file(path, read::inputs)?),
            None => task.file.and_then(|file| file.default_inputs()),
        },
        environment,
        executor_namespace: arguments.executor_namespace.clone(),
        now: Timestamp::now(),
    };
    Ok((offline, loaded))
}

/// Why no object can be made, with the name of the task's file.
pub fn explain_failure(arguments: &TaskArguments, error: OfflineError) -> Failure {
    match error {
        OfflineError::Rules(error) => Failure::Usage(error.to_string()),
        error => Failure::Failed(anyhow::Error::new(error).context(name(&arguments.file))),
    }
}

fn read_file<T>(path: &Path, read: fn(&[u8]) -> Result<T, read::ReadError>) -> Result<T, Failure> {
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        std::io::stdin().lock().read_to_end(&mut bytes).context("cannot read standard input")?;
    } else {
        bytes =
            std::fs::read(path).map_err(|error| Failure::Usage(format!("{}: cannot read it: {error}", name(path))))?;
    }
    read(&bytes).map_err(|error| explain_read_error(&name(path), error))
}

fn name(path: &Path) -> String {
    if path == Path::new("-") { "standard input".into() } else { path.display().to_string() }
}
