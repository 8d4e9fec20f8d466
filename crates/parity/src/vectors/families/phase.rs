//! The phase that a plugin reads from its object, and what garbage collection reads from it.

use std::sync::Arc;

use aileron_executor::manager::version::version_after;
use aileron_executor::storage::outputs;
use aileron_idl::flyteidl2::core::ErrorDocument;
use aileron_machinery::{AnyResource, ObjectPlugin, ObservedPhase, Phase, PhaseContext, PhaseInfo, TaskContext};
use anyhow::Context as _;
use futures::executor::block_on;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::{Case, decoded, error_object};
use crate::vectors::context::of_case;
use crate::vectors::installation::Installation;
use crate::vectors::messages::bytes;
use crate::vectors::phase_info::phase_info;

pub(super) fn produce(case: &Case) -> anyhow::Result<Value> {
    let installation = Installation::of(case)?;
    let plugin = installation.k8s_plugin(case)?;
    let task = of_case(case, &installation)?.with_inputs();
    let object = plugin.decode(case.input("resource").clone())?;
    let needs = block_on(plugin.needs(&task))?;
    let pods = if needs.pods { pods(case, &task)? } else { Vec::new() };
    let failed = block_on(plugin.ended(object.as_ref()))?.is_some_and(|ended| ended.failed);
    let document = if needs.error_document && failed { error_document(case, &task)? } else { None };
    let prior = prior(case)?;
    let cx = PhaseContext::new(&task, &prior).with_pods(&pods).with_error_document(document.as_ref());
    // Upstream's plugins increase the phase version themselves; in our code the plugin manager does.
    let (phase, handler_error) = match block_on(plugin.phase(&cx, object.as_ref())) {
        Ok(phase) => {
            let version = version_after(&phase, &prior);
            (phase.with_version(version), None)
        }
        Err(error) => (PhaseInfo::undefined(), Some(error_object(&error))),
    };
    let mut result = phase_info(&phase)?;
    result["gc"] = garbage_collection(plugin.as_ref(), object.as_ref())?;
    if let Some(error) = handler_error {
        result["handlerError"] = error;
    }
    Ok(result)
}

fn garbage_collection(plugin: &dyn ObjectPlugin, object: &dyn AnyResource) -> anyhow::Result<Value> {
    let ended = block_on(plugin.ended(object))?;
    Ok(json!({"terminal": ended.is_some(), "completionTime": ended.and_then(|ended| ended.at)}))
}

/// The pods that a plugin gets: those of the task's namespace, sorted by name. Recorded pods have no owner reference, so the
/// namespace selects them.
fn pods(case: &Case, task: &TaskContext) -> anyhow::Result<Vec<Arc<Pod>>> {
    let mut pods: Vec<Pod> = decoded(case.input("pods")).context("pods")?;
    pods.retain(|pod| pod.metadata.namespace.as_deref() == Some(&task.metadata.namespace));
    pods.sort_by_key(|pod| pod.metadata.name.clone());
    Ok(pods.into_iter().map(Arc::new).collect())
}

fn error_document(case: &Case, task: &TaskContext) -> anyhow::Result<Option<ErrorDocument>> {
    let Some(encoded) = case.input("context").get("files").and_then(|files| files.get(task.paths.error_path())) else {
        return Ok(None);
    };
    Ok(Some(outputs::error_document(&bytes(encoded)?)))
}

fn prior(case: &Case) -> anyhow::Result<ObservedPhase> {
    let state = case.input("priorState");
    let name = state.get("phase").and_then(Value::as_str).unwrap_or(Phase::Undefined.as_str());
    Ok(ObservedPhase {
        phase: Phase::from_name(name).with_context(|| format!("no phase is called {name}"))?,
        version: decoded(state.get("phaseVersion").unwrap_or(&Value::Null))?,
        reason: decoded(state.get("reason").unwrap_or(&Value::Null))?,
    })
}
