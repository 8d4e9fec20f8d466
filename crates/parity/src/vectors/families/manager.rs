//! Runs the plugin manager step by step on a simulated cluster.

use std::sync::Arc;

use aileron_action::metadata::{MetadataSettings, task_metadata, task_paths};
use aileron_action::{Action, TaskAction, Template};
use aileron_executor::manager::PluginManager;
use aileron_executor::manager::gob;
use aileron_executor::storage::BlobStore;
use aileron_machinery::{CorePlugin, CoreRequest, CoreStep, PhaseInfo, PluginError, StoredState, TaskContext};
use anyhow::{Context as _, ensure};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::state::state_json;
use super::{Case, decoded, error_object};
use crate::vectors::installation::Installation;
use crate::vectors::messages::{base64, bytes};
use crate::vectors::phase_info::phase_info;
use crate::vectors::world::World;

struct Scenario {
    world: Arc<World>,
    manager: PluginManager,
    installation: Installation,
    action: Action,
    stored: StoredState,
}

pub(super) fn produce(case: &Case) -> anyhow::Result<Value> {
    let installation = Installation::of(case)?;
    let plugin = installation.k8s_plugin(case)?;
    let longest: Option<usize> = decoded(&case.input("properties")["generatedNameMaxLength"])?;
    ensure!(
        plugin.properties().generated_name_max_length == longest,
        "the name length limit of this plugin is {:?}, the recorded one is {longest:?}",
        plugin.properties().generated_name_max_length
    );
    let object: TaskAction = serde_json::from_value(case.input("taskAction").clone()).context("taskAction")?;
    let world = Arc::new(World::new(case.now, object.clone()));
    world.add_files(case.input("files"))?;
    let store: Arc<dyn BlobStore> = Arc::clone(&world.store) as _;
    let mut scenario = Scenario {
        manager: PluginManager::new(plugin, world.backends(store)),
        world,
        installation,
        action: Action::new(object, None),
        stored: StoredState::default(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let steps = case.input("steps").as_array().context("a scenario has steps")?;
    let results = steps.iter().enumerate().map(|(index, step)| {
        let now = case.step_time(index)?;
        runtime.block_on(scenario.step(step, now)).with_context(|| format!("step {index}"))
    });
    Ok(json!({"steps": results.collect::<anyhow::Result<Vec<_>>>()?}))
}

impl Scenario {
    async fn step(&mut self, step: &Value, now: Timestamp) -> anyhow::Result<Value> {
        self.world.prepare(step, now)?;
        if let Some(state) = step.get("state") {
            let version = decoded(step.get("stateVersion").unwrap_or(&Value::Null))?;
            self.stored = StoredState { bytes: bytes(state)?, version };
        }
        let mut result = json!({"now": now, "stateWritten": false});
        let outcome = self.call(step["op"].as_str().unwrap_or_default(), now).await?;
        if let Some(CoreStep { phase, state, .. }) = outcome.step {
            result["transition"] = json!({"type": "TransitionTypeEphemeral", "phaseInfo": phase_info(&phase)?});
            if let Some(write) = state {
                self.stored = StoredState { bytes: write.bytes, version: write.version };
                result["stateWritten"] = true.into();
            }
        }
        if let Some(error) = outcome.error {
            result["error"] = error_object(&error);
        }
        result["calls"] = self.world.calls().into();
        result["stateGob"] = base64(&self.stored.bytes).into();
        result["stateVersion"] = self.stored.version.into();
        result["state"] = stored_state_json(&self.stored.bytes);
        Ok(result)
    }

    async fn call(&self, operation: &str, now: Timestamp) -> anyhow::Result<Outcome> {
        let task = match self.task(now)? {
            Ok(task) => task,
            Err(error) => {
                return Ok(match operation {
                    "handle" => Outcome::of_handle(Err(error)),
                    _ => Outcome { step: None, error: Some(error) },
                });
            }
        };
        let request = CoreRequest::new(&task, &self.stored);
        Ok(match operation {
            "handle" => Outcome::of_handle(self.manager.handle(&request).await),
            "abort" => Outcome { step: None, error: self.manager.abort(&request).await.err() },
            "finalize" => Outcome { step: None, error: self.manager.finalize(&request).await.err() },
            other => anyhow::bail!("operation {other} is not known"),
        })
    }

    fn task(&self, now: Timestamp) -> anyhow::Result<Result<TaskContext, PluginError>> {
        let template = match &self.action.template {
            Template::Decoded(template) => Arc::clone(template),
            Template::Absent => Arc::default(),
            // The reconciler fails such an action before it calls the manager. Here the decoding error is the result.
            Template::Unreadable(error) => return Ok(Err(PluginError::uncoded(error.to_string()))),
        };
        let executor = &self.installation.config.executor;
        let settings = MetadataSettings {
            default_service_account: executor.default_k8s_service_account.clone(),
            ..MetadataSettings::default()
        };
        let metadata = task_metadata(&self.action, &settings)?;
        let platform = self.installation.platform(&Value::Null)?;
        Ok(Ok(TaskContext::new(template, metadata, task_paths(&self.action)?, platform, now)))
    }
}

/// The result of a call.
struct Outcome {
    step: Option<CoreStep>,
    error: Option<PluginError>,
}

impl Outcome {
    /// Upstream returns an undefined phase along with an error.
    fn of_handle(result: Result<CoreStep, PluginError>) -> Self {
        match result {
            Ok(step) => Self { step: Some(step), error: None },
            Err(error) => Self { step: Some(CoreStep::of(PhaseInfo::undefined())), error: Some(error) },
        }
    }
}

/// The stored state as JSON; null if nothing is stored.
pub(super) fn stored_state_json(bytes: &[u8]) -> Value {
    if bytes.is_empty() {
        return Value::Null;
    }
    gob::decode(bytes).map_or_else(|_| json!({"undecodable": true}), |state| state_json(&state))
}
