//! Checks a simulated run by the rules of `aileron-history`.

use aileron_apiserver::ApiServer;
use aileron_history::check::{self, FinalState};
use aileron_history::plan::PlannedTask;

pub use aileron_history::check::{Violation, has_ended};

use crate::history::{Entry, History};
use crate::people::Traces;
use crate::workload::Planned;

/// What the rules need beside the history.
#[derive(Debug)]
pub struct Evidence {
    /// The tasks.
    pub tasks: Vec<Planned>,
    /// What people did.
    pub traces: Traces,
    /// Requests to the API server failed, and the executor may have used its budget of system failures.
    pub api_faults: bool,
    /// Every action ended in time.
    pub settled: bool,
    /// What happened after everything had ended.
    pub writes_after: Vec<Entry>,
}

/// Checks all rules.
#[must_use]
pub fn all(history: &History, server: &ApiServer, evidence: &Evidence) -> Vec<Violation> {
    let store = server.store();
    let objects = |resource: &str| store.objects(resource).into_iter().map(|object| object.into()).collect::<Vec<_>>();
    let end = FinalState {
        actions: objects("taskactions.flyte.org"),
        work: ["pods", "simjobs.simulation.aileron.test"]
            .into_iter()
            .flat_map(|resource| objects(resource).into_iter().map(move |object| (resource.to_owned(), object)))
            .collect(),
        leases: objects("leases.coordination.k8s.io"),
    };
    let evidence = check::Evidence {
        tasks: evidence.tasks.iter().map(planned).collect(),
        traces: evidence.traces.clone(),
        api_faults: evidence.api_faults,
        settled: evidence.settled,
        writes_after: evidence.writes_after.clone(),
        end,
    };
    check::all(history.entries(), &evidence)
}

fn planned(planned: &Planned) -> PlannedTask {
    PlannedTask {
        namespace: planned.namespace.to_owned(),
        name: planned.task.name.clone(),
        task_type: planned.task.task_type.clone(),
        is_cached: planned.task.template.metadata.as_ref().is_some_and(|metadata| metadata.discoverable),
        expected: planned.expected,
    }
}
