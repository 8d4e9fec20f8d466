//! `aileron submit`: submits a task to a cluster or a sandbox, and follows it.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use kube::Client;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::arguments::{NodeArguments, SubmitArguments, SubmitFormat};
use crate::configuration;
use crate::connection::{self, Connection};
use crate::display::output;
use crate::failure::{EXIT_FAILED, EXIT_INTERRUPTED, Failure};
use crate::follow::{FollowOptions, ProgressTarget, follow};
use crate::process::signals::SignalReceiver;
use crate::process::threads::start_runtime;
use crate::program::Program;
use crate::sandbox::{ExecutorConfig, Sandbox, SandboxOptions};
use crate::submit::inputs::GivenInputs;
use crate::submit::results::{FinishedTask, read_result};
use crate::submit::sdk::Serializer;
use crate::submit::source::{SubmitPlan, TaskSource, from_file, from_python};
use crate::submit::{Storage, SubmitOptions, Submitted, abort_after, create_objects, submit};

/// The namespace of the task in a temporary sandbox.
const NAMESPACE: &str = "default";

/// The cluster to which the task is submitted.
struct Destination {
    client: Client,
    namespace: String,
    storage: Storage,
    /// True for a sandbox: pods are processes on this machine.
    local: bool,
    python: Option<PathBuf>,
    /// True if the tasks continue after this command has ended.
    outlives_command: bool,
}

pub fn run(program: &Program, arguments: &SubmitArguments, overrides: Vec<(String, String)>) -> Result<(), Failure> {
    // Check the arguments before anything is started.
    let source = TaskSource::parse(&arguments.task)?;
    let given = GivenInputs::read(&arguments.inputs, arguments.inputs_file.as_deref())?;
    start_runtime()?.block_on(async {
        match connection::find(program, &arguments.connection).await? {
            Some(connection) => {
                let destination = Destination::new(program, connection, arguments, overrides)?;
                submit_all(program, arguments, &source, &given, &destination).await
            }
            None => in_temporary_sandbox(program, arguments, &source, &given, overrides).await,
        }
    })
}

impl Destination {
    fn new(
        program: &Program,
        connection: Connection,
        arguments: &SubmitArguments,
        overrides: Vec<(String, String)>,
    ) -> Result<Self, Failure> {
        let Connection { client, namespace, storage: local, python, .. } = connection;
        let has_config = !arguments.config.files.is_empty() || !overrides.is_empty();
        let storage = match (&local, &arguments.storage) {
            (Some(directory), None) => Storage::local(directory)?,
            (_, at) if has_config => {
                let loaded = configuration::load(program, &arguments.config, overrides)?;
                Storage::configured(&loaded.config, at.as_deref())?
            }
            (_, Some(uri)) => Storage::at(uri).map_err(|error| Failure::Usage(format!("--storage: {error}")))?,
            (None, None) => {
                return Err(Failure::Usage(
                    "the storage of inputs and outputs is unknown: give --storage s3://bucket/prefix, or --config with \
                     the configuration of the cluster's executor"
                        .into(),
                ));
            }
        };
        if local.is_some() && !arguments.images.is_empty() {
            output::warn(
                "--image has no effect: it is only for a temporary sandbox, and the running sandbox has its own images",
            );
        }
        Ok(Self { client, namespace, storage, local: local.is_some(), python, outlives_command: true })
    }
}

/// Runs the task in a temporary sandbox.
async fn in_temporary_sandbox(
    program: &Program,
    arguments: &SubmitArguments,
    source: &TaskSource,
    given: &GivenInputs,
    overrides: Vec<(String, String)>,
) -> Result<(), Failure> {
    if !arguments.follow {
        return Err(Failure::Failed(anyhow!(
            "no sandbox is running and no cluster was named: start a sandbox with `{} sandbox` in another terminal, \
             give --kubeconfig, or add --follow to run the task in a temporary sandbox",
            program.name()
        )));
    }
    let node = NodeArguments { images: arguments.images.clone(), ..NodeArguments::default() };
    let options =
        SandboxOptions { config: ExecutorConfig::new(&arguments.config, overrides), ..SandboxOptions::default() };
    let options = options.with_node(&node)?;
    // Receive signals before anything is started, so that an early signal leaves no process or file behind.
    let mut signals = SignalReceiver::new()?;
    let mut sandbox = signals.run_until_stopped(Sandbox::start(program, options)).await?;
    let destination = Destination {
        client: sandbox.client(),
        namespace: arguments.connection.namespace.clone().unwrap_or_else(|| NAMESPACE.to_owned()),
        storage: Storage::local(sandbox.storage())?,
        local: true,
        python: None,
        outlives_command: false,
    };
    let work = submit_all(program, arguments, source, given, &destination);
    let result = signals.run_until_stopped(sandbox.run_unless_failed(work)).await;
    signals.exit_on_next();
    let stopped = sandbox.stop().await;
    result.and_then(|()| Ok(stopped?))
}

/// Submits the task, with all its copies, and follows it if the user wants that.
async fn submit_all(
    program: &Program,
    arguments: &SubmitArguments,
    source: &TaskSource,
    given: &GivenInputs,
    destination: &Destination,
) -> Result<(), Failure> {
    let SubmitPlan { requests, objects, abort_after: abort } = load(arguments, source, given, destination).await?;
    let namespace = requests.first().map(|request| request.namespace.clone()).unwrap_or_default();
    create_objects(&destination.client, &namespace, &objects).await?;
    let mut submitted = Vec::new();
    for request in requests {
        submitted.push(submit(program.name(), &destination.client, &destination.storage, request).await?);
    }
    let mut aborts = JoinSet::new();
    for one in &submitted {
        let Some(after) = abort else { break };
        aborts.spawn(abort_after(destination.client.clone(), one.namespace.clone(), one.name.clone(), after));
    }
    if !arguments.follow {
        print_submitted(program, arguments.output, &submitted)?;
        // Only this process can abort the actions after the delay.
        return Ok(aborts.join_all().await.into_iter().collect::<anyhow::Result<()>>()?);
    }
    let names: Vec<_> = submitted.iter().map(|one| (one.namespace.clone(), one.name.clone())).collect();
    // Standard output is for the outputs of the task.
    let options = FollowOptions {
        target: ProgressTarget::Stderr,
        stop_on_signal: destination.outlives_command,
        ..FollowOptions::default()
    };
    let followed = follow(&destination.client, &names, options).await?;
    let mut all = Vec::new();
    // The results are in the order of the actions.
    for (submitted, followed) in submitted.into_iter().zip(followed) {
        let result = read_result(&destination.storage, submitted, followed).await?;
        all.push(result.with_traceback(&destination.client).await);
    }
    let is_interrupted = all.iter().any(|one| one.followed.outcome.is_none());
    if is_interrupted {
        let name = program.name();
        output::note(&format!("the tasks continue; `{name} get -w` shows them, `{name} abort NAME` aborts one"));
    }
    print_results(arguments.output, &all)?;
    if is_interrupted {
        return Err(Failure::AlreadyReported(EXIT_INTERRUPTED));
    }
    if all.iter().all(FinishedTask::is_success) { Ok(()) } else { Err(Failure::AlreadyReported(EXIT_FAILED)) }
}

/// Reads the task, or serialises it with the SDK.
async fn load(
    arguments: &SubmitArguments,
    source: &TaskSource,
    given: &GivenInputs,
    destination: &Destination,
) -> Result<SubmitPlan, Failure> {
    let options = SubmitOptions {
        namespace: destination.namespace.clone(),
        forced_namespace: arguments.connection.namespace.clone(),
        project: arguments.project.clone(),
        domain: arguments.domain.clone(),
        run: arguments.run.clone(),
        name: arguments.name.clone(),
        retries: arguments.retries,
    };
    match source {
        TaskSource::File(path) => from_file(path, given, &options),
        TaskSource::Python { module, task } => {
            let named: Option<&Path> = arguments.python.as_deref().or(destination.python.as_deref());
            let serializer = Serializer::choose(named, |name| std::env::var_os(name).map(PathBuf::from));
            from_python(&serializer, module, task, given, &options, destination.local).await
        }
    }
}

/// Prints the submitted actions.
fn print_submitted(program: &Program, format: SubmitFormat, submitted: &[Submitted]) -> Result<(), Failure> {
    let described = |one: &Submitted| {
        json!({
            "namespace": one.namespace,
            "name": one.name,
            "run": one.run,
            "inputs": one.input_uri,
            "outputs": one.output_prefix(1).ok(),
        })
    };
    match format {
        SubmitFormat::Json => output::print_json(&one_or_list(submitted.iter().map(described).collect())),
        SubmitFormat::Yaml => output::print_yaml(&one_or_list(submitted.iter().map(described).collect())),
        SubmitFormat::Name => output::print(&names(submitted)),
        SubmitFormat::Text => {
            output::print(&submitted.iter().map(|one| format!("{} was submitted\n", one.name)).collect::<String>())?;
            if let [only] = submitted {
                let program = program.name();
                output::note(&format!("`{program} get -w` shows it, `{program} logs {} -f` prints its log", only.name));
            }
            Ok(())
        }
    }
}

/// Prints the results of tasks that were followed.
fn print_results(format: SubmitFormat, all: &[FinishedTask]) -> Result<(), Failure> {
    match format {
        SubmitFormat::Json => output::print_json(&one_or_list(all.iter().map(FinishedTask::as_json).collect())),
        SubmitFormat::Yaml => output::print_yaml(&one_or_list(all.iter().map(FinishedTask::as_json).collect())),
        SubmitFormat::Name => output::print(&names(&all.iter().map(|one| one.submitted.clone()).collect::<Vec<_>>())),
        SubmitFormat::Text => output::print(&all.iter().map(FinishedTask::text).collect::<String>()),
    }
}

fn names(submitted: &[Submitted]) -> String {
    submitted.iter().map(|one| format!("{}\n", one.name)).collect()
}

fn one_or_list(mut values: Vec<Value>) -> Value {
    if values.len() == 1 { values.remove(0) } else { Value::Array(values) }
}
