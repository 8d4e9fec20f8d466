//! Time and allocations for building a pod and for reading its phase: `make bench`.
//!
//! The tasks are recorded, as an SDK sends them. The targets: a typical pod in under 50 µs and 200 allocations, a
//! phase in under 5 µs.
#![allow(clippy::unwrap_used, missing_docs)]

use std::sync::Arc;

use aileron_machinery::{AnyResource, ObjectPlugin, ObservedPhase, PhaseContext, TaskContext};
use aileron_parity::vectors::case::Case;
use aileron_parity::vectors::context::of_case;
use aileron_parity::vectors::installation::Installation;
use divan::{AllocProfiler, Bencher, black_box};
use futures::executor::block_on;

#[global_allocator]
static ALLOCATIONS: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

/// The plugin and the task of a case.
fn task(case: &Case) -> (Arc<dyn ObjectPlugin>, TaskContext) {
    let installation = Installation::of(case).unwrap();
    (installation.k8s_plugin(case).unwrap(), of_case(case, &installation).unwrap().with_inputs())
}

/// A container task: with the platform's defaults alone, with every default an operator can set, and merged with a
/// pod template; then a task with a pod spec of its own.
#[divan::bench(args = [
    "python-resources-default",
    "python-resources-allknobs",
    "python-pod-template-name-allknobs",
    "python-pod-template-allknobs",
])]
fn build(bencher: Bencher<'_, '_>, name: &str) {
    let (plugin, task) = task(&Case::committed(&format!("build/real-sdk-pod/{name}")).unwrap());
    bencher.bench(|| block_on(plugin.build(black_box(&task))).unwrap());
}

/// Pods that wait, run, or have failed.
#[divan::bench(args = [
    "waiting-ContainerCreating-30s",
    "prior-PhaseRunning-0-n-running",
    "running-prim-sidecar-alive",
    "failed-prim-exit137-OOMKilled",
])]
fn phase(bencher: Bencher<'_, '_>, name: &str) {
    let case = Case::committed(&format!("phase/pod/{name}")).unwrap();
    let (plugin, task) = task(&case);
    let object: Arc<dyn AnyResource> = plugin.decode(case.input("resource").clone()).unwrap();
    let prior = ObservedPhase::default();
    let cx = PhaseContext::new(&task, &prior);
    bencher.bench(|| block_on(plugin.phase(black_box(&cx), black_box(object.as_ref()))).unwrap());
}
