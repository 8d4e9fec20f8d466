//! Turns a simulated run into what the rules of `aileron-history` are about.

use aileron_apiserver::ApiServer;
use aileron_history::check::FinalState;
use aileron_history::plan::PlannedTask;

pub use aileron_history::check::{Evidence, Violation, all, has_ended};

use crate::workload::Planned;

/// The objects of the cluster now.
#[must_use]
pub fn final_state(server: &ApiServer) -> FinalState {
    let store = server.store();
    let objects = |resource: &str| store.objects(resource).into_iter().map(Into::into).collect::<Vec<_>>();
    FinalState {
        actions: objects("taskactions.flyte.org"),
        work: ["pods", "simjobs.simulation.aileron.test"]
            .into_iter()
            .flat_map(|resource| objects(resource).into_iter().map(move |object| (resource.to_owned(), object)))
            .collect(),
        leases: objects("leases.coordination.k8s.io"),
    }
}

/// The task as the rules see it.
#[must_use]
pub fn planned(planned: &Planned) -> PlannedTask {
    PlannedTask {
        namespace: planned.namespace.to_owned(),
        name: planned.task.name.clone(),
        task_type: planned.task.task_type.clone(),
        is_cached: planned.task.template.metadata.as_ref().is_some_and(|metadata| metadata.discoverable),
        expected: planned.expected,
    }
}
