//! One task of the plugin in a simulated cluster, from its submission to the last clean-up, with at most one fault and
//! at most one thing that somebody else does.

mod others;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aileron_action::crd::crd;
use aileron_action::{TaskAction, TaskActionSpec};
use aileron_apiserver::{ApiServer, Clock, Options};
use aileron_config::{Config, Sources};
use aileron_history::check::{self, Evidence, Violation, WORK};
use aileron_history::plan::{Expected, PlannedTask};
use aileron_history::traces::Traces;
use aileron_idl::flyteidl2::core::{Identifier, LiteralMap, RetryStrategy, TaskTemplate};
use aileron_idl::flyteidl2::workflow::ActionEvent;
use aileron_machinery::time::clock::Clock as _;
use aileron_machinery::{CorePlugin, ObjectPlugin, PluginSet, ResourceKind, TaskContext};
use anyhow::{Context, Result};
use k8s_openapi::ByteString;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, ObjectMeta, PostParams};
use kube::core::GroupVersionKind;
use prost::Message;
use serde_json::json;

use crate::life::Life;
use crate::simulation::clock::SimulatedClock;
use crate::simulation::conclusion::{Conclusion, Extent, conclude};
use crate::simulation::executors::Executors;
use crate::simulation::faults::Faults;
use crate::simulation::history::{self, History, Renumbering, RequestLine, What};
use crate::simulation::network::{Network, Shared};
use crate::simulation::observation::{kinds_of_executor, observe};
use crate::simulation::patterns::Pattern;
use crate::simulation::random::Random;
use crate::simulation::services::Services;
pub(crate) use others::Interference;

/// The namespace of the task, and the name of its run.
const NAMESPACE: &str = "team";
/// The name of the action.
const ACTION: &str = "task";
/// Where inputs and outputs are.
const DATA: &str = "mem://data";
/// One attempt after the first. A life that fails is followed by one that succeeds.
const RETRIES: u32 = 1;

/// What is tested.
#[derive(Clone)]
pub(crate) enum Subject {
    Object(Arc<dyn ObjectPlugin>),
    Core(Arc<dyn CorePlugin>),
}

/// A task, and what happens to its objects if nothing fails.
#[derive(Clone)]
pub(crate) struct Scenario {
    pub subject: Subject,
    pub definition: Option<CustomResourceDefinition>,
    pub task: TaskContext,
    /// The life of the first object, the second, and so on. The last one stands for all that follow.
    pub lives: Vec<Life>,
    pub expected: Expected,
}

/// What happened in a run.
pub(crate) struct Outcome {
    pub violations: Vec<Violation>,
    /// Writes of the executor, in the order of their numbers.
    pub writes: Vec<RequestLine>,
    /// How many changes watches have delivered.
    pub changes: u64,
    /// Every event of the action.
    pub events: Vec<ActionEvent>,
}

impl Scenario {
    /// The kind of the plugin's objects; a core plugin has none.
    pub fn kind(&self) -> Option<ResourceKind> {
        match &self.subject {
            Subject::Object(plugin) => Some(plugin.kind()),
            Subject::Core(_) => None,
        }
    }

    /// Runs the task on a paused clock.
    pub async fn run(&self, pattern: Pattern, interference: Option<(usize, Interference)>) -> Result<Outcome> {
        let clock = SimulatedClock::start();
        let server = server(&clock);
        let renumbering = Arc::<Mutex<Renumbering>>::default();
        let history = history::empty(clock.clone(), server.clone(), Arc::clone(&renumbering));
        let shared = Arc::new(Shared::new(server.clone(), history.clone(), Faults::none(0), pattern, renumbering));
        let services = Services::new(Arc::clone(&shared));
        let admin = Network::of_other(&shared, "admin");
        Api::all(admin.clone())
            .create(&PostParams::default(), &crd()?)
            .await
            .context("the definition of TaskAction")?;
        let work = self.kind();
        if let Some(kind) = &work {
            self.install(&admin, kind).await?;
            observe(&shared, [(WORK, resource(kind))]);
        }
        observe(&shared, kinds_of_executor());

        let plugins = match &self.subject {
            Subject::Object(plugin) => PluginSet::new().with_object_plugin(Arc::clone(plugin)),
            Subject::Core(plugin) => PluginSet::new().with_core_plugin(Arc::clone(plugin)),
        };
        let config = self.config().await?;
        let executors = Executors::new(
            Arc::clone(&shared),
            services.clone(),
            clock.clone(),
            Random::new(0, "executors"),
            1,
            Box::new(move || Ok((config.clone(), plugins.clone()))),
        );
        let executors = Arc::new(executors);
        let others = others::Others {
            shared: Arc::clone(&shared),
            executors: Arc::clone(&executors),
            traces: Traces::default(),
            interference,
        };
        if let Some(kind) = &work {
            tokio::spawn(others.clone().operate(resource(kind), self.lives.clone()));
        } else {
            tokio::spawn(others.clone().interfere_by_time());
        }
        executors.start();
        services.store.insert(input_uri(), self.inputs().encode_to_vec());
        let actions: Api<TaskAction> = Api::namespaced(Network::of_other(&shared, "control-plane"), NAMESPACE);
        actions.create(&PostParams::default(), &self.action()).await.context("the action")?;

        let store_name = work.as_ref().map(store_name);
        let work: Vec<&str> = store_name.iter().map(String::as_str).collect();
        let extent = Extent { namespaces: &[NAMESPACE], work: &work, last_submission: Duration::from_secs(1) };
        let Conclusion { settled, writes_after, end, memory } = conclude(&shared, &executors, &clock, extent).await;
        let evidence = Evidence {
            tasks: vec![self.planned()],
            traces: others.traces,
            api_faults: charges(pattern, &history),
            pool_limit: usize::MAX,
            end_statuses: self.end_statuses(),
            settled,
            writes_after,
            end,
            memory,
        };
        Ok(Outcome {
            writes: writes(&history),
            changes: shared.changes.load(std::sync::atomic::Ordering::Relaxed),
            events: services.events(),
            violations: check::all(history.entries(), &evidence),
        })
    }

    /// Makes the API server serve the kind of the plugin.
    async fn install(&self, admin: &kube::Client, kind: &ResourceKind) -> Result<()> {
        let definition = match &self.definition {
            Some(definition) => definition.clone(),
            None if is_served(admin, kind).await => return Ok(()),
            None => definition_of_anything(kind)?,
        };
        let created = Api::all(admin.clone()).create(&PostParams::default(), &definition).await;
        created.with_context(|| format!("the definition of {}", kind.kind))?;
        Ok(())
    }

    async fn config(&self) -> Result<Config> {
        let mut text = json!({
            "executor": {
                "leaderElect": true,
                "cluster": "simulation",
                "requeueDuration": "1s",
                "healthProbeBindAddress": "0",
                "metricsBindAddress": "0",
                "EventsServiceURL": "http://events.invalid",
                "cacheServiceURL": "http://cache.invalid",
            },
            "storage": {"type": "mem", "container": "data"},
            "plugins": {"k8s": {"inject-finalizer": true}},
        });
        if let Subject::Object(plugin) = &self.subject
            && let Some(token) = plugin.token(&self.task).await?
        {
            text["tasks"]["pools"][token.pool] = json!({"quota": 1});
        }
        Config::load(&Sources::file("trial.yaml", &text.to_string())).context("the configuration of the trial")
    }

    fn template(&self) -> TaskTemplate {
        let mut template = (*self.task.template).clone();
        template.id.get_or_insert_with(|| Identifier {
            project: "project".to_owned(),
            domain: "domain".to_owned(),
            name: ACTION.to_owned(),
            version: "v1".to_owned(),
            ..Identifier::default()
        });
        template.metadata.get_or_insert_default().retries =
            Some(RetryStrategy { retries: RETRIES, ..RetryStrategy::default() });
        // No code runs that would write outputs.
        if let Some(interface) = &mut template.interface {
            interface.outputs = None;
        }
        template
    }

    fn inputs(&self) -> LiteralMap {
        self.task.inputs.as_deref().cloned().unwrap_or_default()
    }

    fn action(&self) -> TaskAction {
        let template = self.template();
        let id = template.id.clone().unwrap_or_default();
        let spec = TaskActionSpec {
            run_name: NAMESPACE.to_owned(),
            project: id.project,
            domain: id.domain,
            action_name: ACTION.to_owned(),
            input_uri: input_uri(),
            run_output_base: format!("{DATA}/{NAMESPACE}/out"),
            task_type: template.r#type.clone(),
            short_name: ACTION.to_owned(),
            task_template: ByteString(template.encode_to_vec()),
            ..TaskActionSpec::default()
        };
        let metadata = ObjectMeta {
            name: Some(ACTION.to_owned()),
            namespace: Some(NAMESPACE.to_owned()),
            ..ObjectMeta::default()
        };
        TaskAction { metadata, spec, status: None }
    }

    fn planned(&self) -> PlannedTask {
        PlannedTask {
            namespace: NAMESPACE.to_owned(),
            name: ACTION.to_owned(),
            task_type: self.task.template.r#type.clone(),
            is_cached: false,
            expected: self.expected,
        }
    }

    fn end_statuses(&self) -> Vec<serde_json::Value> {
        let ends = self.lives.iter().filter_map(|life| life.steps().last()).filter(|step| step.phase().is_terminal());
        ends.map(|step| step.status(&json!({})))
            .filter(|status| status.as_object().is_some_and(|all| !all.is_empty()))
            .collect()
    }
}

/// Whether the fault may use the budget of system failures, as single failed requests do. A create that a quota or a busy
/// API server refuses must not.
fn charges(pattern: Pattern, history: &History) -> bool {
    match pattern {
        Pattern::None => false,
        Pattern::Refused(number, 403 | 429) => {
            let refused = usize::try_from(number).ok().and_then(|number| writes(history).into_iter().nth(number));
            refused.is_none_or(|request| request.verb != "create")
        }
        _ => true,
    }
}

/// The writes of the executor, in the order of their numbers.
fn writes(history: &History) -> Vec<RequestLine> {
    let sent = history.entries().into_iter().filter_map(|entry| match entry.what {
        What::Sent { request, .. } => Some(request),
        _ => None,
    });
    sent.collect()
}

fn server(clock: &SimulatedClock) -> ApiServer {
    let clock = clock.clone();
    let namespaces = ["flyte", "default", "kube-system", NAMESPACE].map(str::to_owned).to_vec();
    ApiServer::new(Options { namespaces, clock: Clock::from_fn(move || clock.now()), ..Options::default() })
}

fn resource(kind: &ResourceKind) -> ApiResource {
    let names = GroupVersionKind::gvk(&kind.group, &kind.version, &kind.kind);
    ApiResource::from_gvk_with_plural(&names, &kind.plural)
}

fn store_name(kind: &ResourceKind) -> String {
    if kind.group.is_empty() { kind.plural.to_string() } else { kind.definition_name() }
}

async fn is_served(client: &kube::Client, kind: &ResourceKind) -> bool {
    kube::discovery::pinned_kind(client, &GroupVersionKind::gvk(&kind.group, &kind.version, &kind.kind)).await.is_ok()
}

/// A definition that accepts any object of the kind.
fn definition_of_anything(kind: &ResourceKind) -> Result<CustomResourceDefinition> {
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "metadata": {"name": kind.definition_name()},
        "spec": {
            "group": kind.group, "scope": "Namespaced",
            "names": {
                "kind": kind.kind, "listKind": format!("{}List", kind.kind), "plural": kind.plural,
                "singular": kind.kind.to_lowercase(),
            },
            "versions": [{
                "name": kind.version, "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything, "status": anything}}},
            }],
        },
    });
    Ok(serde_json::from_value(definition)?)
}

fn input_uri() -> String {
    format!("{DATA}/{NAMESPACE}/{ACTION}/inputs.pb")
}
