#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]
use std::sync::Arc;

use aileron_machinery::testing::task;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::testing::any_settings;

fn build_with(version: i32, custom: Value, worker_command: Option<&str>) -> Result<MPIJob, PluginError> {
    let mut task = task("mpi", &custom);
    let template = Arc::make_mut(&mut task.template);
    template.task_type_version = version;
    template.config.extend(worker_command.map(|command| ("worker_spec_command".to_owned(), command.to_owned())));
    MpiPlugin::new(KubeflowConfig::default()).build(&task)
}

fn build(version: i32, custom: Value) -> Result<MPIJob, PluginError> {
    build_with(version, custom, None)
}

fn args(job: &MPIJob, role: &str) -> Vec<String> {
    job.spec.replica_specs[role].template.spec.as_ref().unwrap().containers[0].args.clone().unwrap_or_default()
}

#[test]
fn slots_are_given_or_one() {
    let slots = |version: i32, custom: Value| build(version, custom).unwrap().spec.slots_per_worker.unwrap();
    assert_eq!(slots(0, json!({"numWorkers": 1})), 1);
    assert_eq!(slots(0, json!({"numWorkers": 1, "slots": 4})), 4);
    assert_eq!(slots(1, json!({"workerReplicas": {"replicas": 1}})), 1);
    assert_eq!(slots(1, json!({"workerReplicas": {"replicas": 1}, "slots": 4})), 4);
}

#[test]
fn workers_of_the_first_generation_run_what_the_configuration_says() {
    let custom = || json!({"numWorkers": 2, "numLauncherReplicas": 0});
    let job = build_with(0, custom(), Some("sshd -D")).unwrap();
    assert_eq!((args(&job, "Worker"), args(&job, "Launcher")), (vec!["sshd".into(), "-D".into()], vec!["run".into()]));
    assert_eq!(args(&build(0, custom()).unwrap(), "Worker"), Vec::<String>::new());
    assert_eq!(job.spec.replica_specs["Launcher"].replicas, Some(1));
}

#[test]
fn roles_of_the_second_generation_have_commands_of_their_own() {
    let job = build(1, json!({"workerReplicas": {"common": {"replicas": 1}, "command": ["sshd"]}})).unwrap();
    assert_eq!((args(&job, "Worker"), args(&job, "Launcher")), (vec!["sshd".to_owned()], vec!["run".to_owned()]));
    assert!(build(1, json!({"launcherReplicas": {"replicas": 1}})).is_err());
}

const KEYS: &[&str] = &[
    "num_workers",
    "numLauncherReplicas",
    "slots",
    "workerReplicas",
    "launcher_replicas",
    "runPolicy",
    "replicas",
    "image",
    "resources",
    "requests",
    "name",
    "value",
    "restart_policy",
    "common",
    "command",
];

proptest! {
    #[test]
    fn no_settings_make_it_panic(version in -1..3, custom in any_settings(KEYS)) {
        if let Ok(job) = build(version, custom) {
            prop_assert_ne!(job.spec.slots_per_worker, Some(0));
        }
    }
}
