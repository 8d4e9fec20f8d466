//! `aileron submit`.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use kube::Client;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::arguments::{NodeArguments, Submission, SubmitArguments};
use crate::connection::{self, Connection};
use crate::failure::{FAILED, Failure, INTERRUPTED};
use crate::follow::{FollowOptions, Stream, follow};
use crate::sandbox::{ConfigSources, Sandbox, SandboxOptions};
use crate::sdk::Serializer;
use crate::signals::Stop;
use crate::submit::inputs::Given;
use crate::submit::results::{Finished, finished};
use crate::submit::source::{Choices, Source, Work, from_file, from_python};
use crate::submit::{Storage, Submitted, abort_after, prepare, submit};
use crate::{configuration, output, runtime};

/// The namespace of a sandbox that is started for one task.
const NAMESPACE: &str = "default";

/// Where the task goes.
struct Target {
    client: Client,
    namespace: String,
    storage: Storage,
    /// Pods are processes of this machine.
    local: bool,
    python: Option<PathBuf>,
    /// The tasks go on when nobody looks.
    may_leave: bool,
}

pub fn run(arguments: &SubmitArguments, overrides: Vec<(String, String)>) -> Result<(), Failure> {
    // Before anything is started: most mistakes are here.
    let source = Source::parse(&arguments.task)?;
    let given = Given::read(&arguments.inputs, arguments.inputs_file.as_deref())?;
    runtime::start()?.block_on(async {
        match connection::find(&arguments.connection).await? {
            Some(connection) => {
                let target = Target::of(connection, arguments, overrides)?;
                work(arguments, &source, &given, &target).await
            }
            None => in_own_sandbox(arguments, &source, &given, overrides).await,
        }
    })
}

impl Target {
    fn of(
        connection: Connection,
        arguments: &SubmitArguments,
        overrides: Vec<(String, String)>,
    ) -> Result<Self, Failure> {
        let Connection { client, namespace, storage: local, python } = connection;
        let has_config = !arguments.config.files.is_empty() || !overrides.is_empty();
        let storage = match (&local, &arguments.storage) {
            (Some(directory), None) => Storage::local(directory)?,
            (_, at) if has_config => {
                let loaded = configuration::load(&arguments.config, overrides)?;
                Storage::configured(&loaded.config, at.as_deref())?
            }
            (_, Some(uri)) => Storage::at(uri).map_err(|error| Failure::Usage(format!("--storage: {error}")))?,
            (None, None) => {
                return Err(Failure::Usage(
                    "where are inputs and outputs of that cluster kept? Give --storage s3://bucket/prefix, or \
                     --config with the configuration of its executor"
                        .into(),
                ));
            }
        };
        if local.is_some() && !arguments.images.is_empty() {
            output::warn(
                "--image is for a sandbox that is started for this task; the one that runs has its own images",
            );
        }
        Ok(Self { client, namespace, storage, local: local.is_some(), python, may_leave: true })
    }
}

/// A sandbox for this one task.
async fn in_own_sandbox(
    arguments: &SubmitArguments,
    source: &Source,
    given: &Given,
    overrides: Vec<(String, String)>,
) -> Result<(), Failure> {
    if !arguments.follow {
        return Err(Failure::Failed(anyhow!(
            "no sandbox is running and no cluster was named: start one with `aileron sandbox` in another terminal, \
             give --kubeconfig, or add --follow to run the task in a sandbox of its own"
        )));
    }
    let node = NodeArguments { images: arguments.images.clone(), ..NodeArguments::default() };
    let options =
        SandboxOptions { config: ConfigSources::new(&arguments.config, overrides), ..SandboxOptions::default() };
    let options = options.with_node(&node)?;
    // Before anything is started, so that a signal that comes early does not leave anything behind.
    let mut stop = Stop::new()?;
    let mut sandbox = stop.or(Sandbox::start(options)).await?;
    let target = Target {
        client: sandbox.client(),
        namespace: arguments.connection.namespace.clone().unwrap_or_else(|| NAMESPACE.to_owned()),
        storage: Storage::local(sandbox.storage())?,
        local: true,
        python: None,
        may_leave: false,
    };
    let result = stop.or(sandbox.unless_broken(work(arguments, source, given, &target))).await;
    stop.at_once();
    let stopped = sandbox.stop().await;
    result.and_then(|()| Ok(stopped?))
}

async fn work(arguments: &SubmitArguments, source: &Source, given: &Given, target: &Target) -> Result<(), Failure> {
    let Work { requests, objects, abort_after: abort } = load(arguments, source, given, target).await?;
    let namespace = requests.first().map(|request| request.namespace.clone()).unwrap_or_default();
    prepare(&target.client, &namespace, &objects).await?;
    let mut submitted = Vec::new();
    for request in requests {
        submitted.push(submit(&target.client, &target.storage, request).await?);
    }
    let mut aborts = JoinSet::new();
    for one in &submitted {
        let Some(after) = abort else { break };
        aborts.spawn(abort_after(target.client.clone(), one.namespace.clone(), one.name.clone(), after));
    }
    if !arguments.follow {
        tell(arguments.output, &submitted)?;
        // Nobody else will do it.
        return Ok(aborts.join_all().await.into_iter().collect::<anyhow::Result<()>>()?);
    }
    let names: Vec<_> = submitted.iter().map(|one| (one.namespace.clone(), one.name.clone())).collect();
    // Outputs alone are the result; progress is not.
    let options = FollowOptions { stream: Stream::Err, may_leave: target.may_leave, ..FollowOptions::default() };
    let followed = follow(&target.client, &names, options).await?;
    let mut all = Vec::new();
    // In the order that was asked for.
    for (submitted, followed) in submitted.into_iter().zip(followed) {
        all.push(finished(&target.storage, submitted, followed).await?.with_traceback(&target.client).await);
    }
    tell_end(arguments.output, &all)?;
    if all.iter().any(|one| one.followed.outcome.is_none()) {
        return Err(Failure::Told(INTERRUPTED));
    }
    if all.iter().all(Finished::is_success) { Ok(()) } else { Err(Failure::Told(FAILED)) }
}

async fn load(arguments: &SubmitArguments, source: &Source, given: &Given, target: &Target) -> Result<Work, Failure> {
    let choices = Choices {
        namespace: target.namespace.clone(),
        forced_namespace: arguments.connection.namespace.clone(),
        project: arguments.project.clone(),
        domain: arguments.domain.clone(),
        run: arguments.run.clone(),
        name: arguments.name.clone(),
        retries: arguments.retries,
    };
    match source {
        Source::File(path) => from_file(path, given, &choices),
        Source::Python { module, task } => {
            let named: Option<&Path> = arguments.python.as_deref().or(target.python.as_deref());
            let serializer = Serializer::choose(named, |name| std::env::var_os(name).map(PathBuf::from));
            from_python(&serializer, module, task, given, &choices, target.local).await
        }
    }
}

fn tell(format: Submission, submitted: &[Submitted]) -> Result<(), Failure> {
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
        Submission::Json => output::print_json(&one_or_list(submitted.iter().map(described).collect())),
        Submission::Yaml => output::print_yaml(&one_or_list(submitted.iter().map(described).collect())),
        Submission::Name => output::print(&names(submitted)),
        Submission::Text => {
            output::print(&submitted.iter().map(|one| format!("{} was submitted\n", one.name)).collect::<String>())?;
            if let [only] = submitted {
                output::note(&format!("`aileron get -w` shows it, `aileron logs {} -f` what it writes", only.name));
            }
            Ok(())
        }
    }
}

fn tell_end(format: Submission, all: &[Finished]) -> Result<(), Failure> {
    match format {
        Submission::Json => output::print_json(&one_or_list(all.iter().map(Finished::as_json).collect())),
        Submission::Yaml => output::print_yaml(&one_or_list(all.iter().map(Finished::as_json).collect())),
        Submission::Name => output::print(&names(&all.iter().map(|one| one.submitted.clone()).collect::<Vec<_>>())),
        Submission::Text => output::print(&all.iter().map(Finished::text).collect::<String>()),
    }
}

fn names(submitted: &[Submitted]) -> String {
    submitted.iter().map(|one| format!("{}\n", one.name)).collect()
}

fn one_or_list(mut values: Vec<Value>) -> Value {
    if values.len() == 1 { values.remove(0) } else { Value::Array(values) }
}
