//! Runs the whole reconciler, round by round.

use std::sync::Arc;

use aileron_action::metadata::MetadataSettings;
use aileron_action::{Action, TaskAction};
use aileron_admission::waker::NoWaker;
use aileron_executor::reconcile::{Reconciler, Settings, Wake};
use aileron_executor::registry::{Backends, Registry, RegistryRules};
use aileron_executor::status_writer::StatusWriter;
use aileron_executor::storage::BlobStore;
use aileron_idl::flyteidl2::core::Literal;
use aileron_machinery::NoServices;
use aileron_machinery::time::clock::Clock as _;
use anyhow::Context as _;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use prost::Message as _;
use serde_json::{Value, json};

use super::manager::stored_state_json;
use super::{Case, decoded};
use crate::vectors::installation::Installation;
use crate::vectors::messages::message;
use crate::vectors::world::World;

struct Scenario {
    world: Arc<World>,
    reconciler: Reconciler,
    has_catalog: bool,
}

pub(super) fn produce(case: &Case) -> anyhow::Result<Value> {
    let object: TaskAction = serde_json::from_value(case.input("taskAction").clone()).context("taskAction")?;
    let world = Arc::new(World::new(case.now, object));
    world.add_files(case.input("files"))?;
    let has_catalog: bool = decoded(case.input("useCatalog"))?;
    let scenario = Scenario { reconciler: reconciler(case, &world, has_catalog)?, world, has_catalog };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let steps = case.input("steps").as_array().context("a scenario has steps")?;
    let results = steps.iter().enumerate().map(|(index, step)| {
        let now = case.step_time(index)?;
        runtime.block_on(scenario.step(step, now)).with_context(|| format!("step {index}"))
    });
    Ok(json!({"steps": results.collect::<anyhow::Result<Vec<_>>>()?}))
}

fn reconciler(case: &Case, world: &Arc<World>, has_catalog: bool) -> anyhow::Result<Reconciler> {
    let installation = Installation::of(case)?;
    let store: Arc<dyn BlobStore> = Arc::clone(&world.store) as _;
    let backends = Backends {
        manager: world.backends(Arc::clone(&store)),
        secrets: Arc::new(NoServices),
        waker: Arc::new(NoWaker),
    };
    let mut registry = Registry::new(&installation.plugins()?, &RegistryRules::default(), &backends)?;
    if decoded(case.input("noDefaultPlugin"))? {
        registry = registry.without_default();
    }
    let platform = installation.platform(&Value::Null)?;
    let requeue: i64 = decoded(case.input("requeueSeconds"))?;
    let cluster: String = decoded(case.input("cluster"))?;
    let statuses = StatusWriter::new(Arc::clone(world) as _, Arc::clone(world) as _, Arc::clone(world) as _, cluster);
    Ok(Reconciler {
        registry: Arc::new(registry),
        actions: Arc::clone(world) as _,
        statuses: Arc::new(statuses),
        store,
        catalog: has_catalog.then(|| Arc::clone(world) as _),
        clock: Arc::clone(world) as _,
        settings: Settings {
            max_system_failures: decoded(case.input("maxSystemFailures"))?,
            requeue: SignedDuration::from_secs(requeue),
            metadata: MetadataSettings {
                default_service_account: installation.config.executor.default_k8s_service_account.clone(),
                ..MetadataSettings::default()
            },
            ..Settings::default()
        },
        platform: Arc::new(move || platform.clone()),
    })
}

impl Scenario {
    async fn step(&self, step: &Value, now: Timestamp) -> anyhow::Result<Value> {
        // A signal arrives before time passes.
        if let Some(signal) = step.get("signal").filter(|signal| !signal.is_null()) {
            self.signal(signal)?;
        }
        self.world.prepare(step, now)?;
        if step["op"] == "delete" {
            self.world.delete_action();
        }
        let outcome = match self.world.action() {
            Some(object) => self.reconciler.reconcile(&Action::new(object, None)).await,
            None => Ok(Wake::Never),
        };
        let mut result = json!({
            "now": now,
            "taskAction": self.world.action().map(|action| action_json(&action)).transpose()?,
            "actionEvents": self.world.action_events(),
            "kubernetesEvents": self.world.warnings(),
            "calls": self.world.calls(),
        });
        if self.has_catalog {
            result["catalogCalls"] = self.world.catalog_calls().into();
        }
        match outcome {
            Ok(wake) => {
                result["requeueAfterSeconds"] = self.pause(wake).as_secs().into();
                result["wake"] = wake_name(wake).into();
            }
            Err(error) => {
                result["requeueAfterSeconds"] = 0.into();
                result["error"] = json!({"code": "", "message": error.to_string()});
            }
        }
        Ok(result)
    }

    /// Writes a signal into the status, as the control plane does.
    fn signal(&self, signal: &Value) -> anyhow::Result<()> {
        let value: Literal = message(&signal["value"]).context("signal.value")?;
        let by = signal["by"].as_str().unwrap_or_default().to_owned();
        let now = self.world.now();
        self.world.change_action(|action| {
            let status = action.status.get_or_insert_default();
            status.signal_value = ByteString(value.encode_to_vec());
            status.signalled_by = by;
            status.signalled_at = Some(Time(now));
        });
        Ok(())
    }

    /// The requeue time that upstream would return. Where we wait for a change, upstream requeues after its fixed time.
    fn pause(&self, wake: Wake) -> SignedDuration {
        let requeue = self.reconciler.settings.requeue;
        match wake {
            Wake::Never | Wake::Now => SignedDuration::ZERO,
            Wake::OnChange if requeue.is_zero() => Settings::default().requeue,
            Wake::OnChange => requeue,
            Wake::Retry(pause) => pause,
            Wake::At(at) => at.duration_since(self.world.now()),
        }
    }
}

fn wake_name(wake: Wake) -> &'static str {
    match wake {
        Wake::Never => "never",
        Wake::Now => "now",
        Wake::OnChange => "onChange",
        Wake::Retry(_) => "retry",
        Wake::At(_) => "at",
    }
}

/// The stored action in the format of the vectors.
fn action_json(action: &TaskAction) -> anyhow::Result<Value> {
    let mut status = serde_json::to_value(action.status.clone().unwrap_or_default())?;
    if let Some(text) = status.get("stateJson").and_then(Value::as_str) {
        status["stateJson"] = serde_json::from_str(text).context("stateJson is JSON")?;
    }
    let stored = action.status.as_ref().map(|status| status.plugin_state.0.as_slice()).unwrap_or_default();
    let readable = stored_state_json(stored);
    if !readable.is_null() {
        status["pluginStateDecoded"] = readable;
    }
    Ok(json!({
        "labels": action.metadata.labels,
        "annotations": action.metadata.annotations,
        "finalizers": action.metadata.finalizers,
        "deleting": action.metadata.deletion_timestamp.is_some(),
        "status": status,
    }))
}
