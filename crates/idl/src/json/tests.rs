#![allow(clippy::unwrap_used, clippy::panic, clippy::needless_pass_by_value)]

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::flyteidl2::connector::CreateTaskResponse;
use crate::flyteidl2::core::{self, TaskTemplate, resources};
use crate::flyteidl2::plugins::kubeflow::{CleanPodPolicy, DistributedPyTorchTrainingTask};
use crate::flyteidl2::plugins::{
    AutoscalerOptions, ClusteredTaskSpec, DaskJob, HeadGroupSpec, RayCluster, RayJob, SparkJob, WorkerGroupSpec,
};

fn read<M: Message + Name + Default>(value: Value) -> M {
    message_from_json(&value).unwrap_or_else(|error| panic!("{error}: {value}"))
}

fn refused<M: Message + Name + Default>(value: &Value) -> String {
    match message_from_json::<M>(value) {
        Ok(_) => panic!("{value} was accepted"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn whole_numbers_arrive_in_four_notations() {
    for replicas in [json!(3), json!(3.0), json!("3"), json!("3.0")] {
        let group: WorkerGroupSpec = read(json!({"replicas": replicas}));
        assert_eq!(group.replicas, 3);
    }
    let fields = json_to_struct(&json!({"replicas": 3})).unwrap();
    assert_eq!(message_from_struct::<WorkerGroupSpec>(&fields).unwrap().replicas, 3);
}

#[test]
fn enums_arrive_by_name_and_number() {
    for policy in [json!("CLEANPOD_POLICY_ALL"), json!(2), json!(2.0), json!("2")] {
        let task: DistributedPyTorchTrainingTask = read(json!({"runPolicy": {"cleanPodPolicy": policy}}));
        assert_eq!(task.run_policy.unwrap().clean_pod_policy(), CleanPodPolicy::CleanpodPolicyAll);
    }
    let newer: AutoscalerOptions = read(json!({"upscaling_mode": 17}));
    assert_eq!(newer.upscaling_mode, 17);
}

#[test]
fn an_unknown_enum_name_is_an_error_that_lists_the_names() {
    let error = refused::<AutoscalerOptions>(&json!({"upscaling_mode": "FAST"}));
    assert!(error.starts_with("AutoscalerOptions.upscaling_mode: \"FAST\" is not a value of"), "{error}");
    assert!(error.contains("UPSCALING_MODE_AGGRESSIVE"), "{error}");
}

#[test]
fn field_names_come_in_both_styles() {
    let snake = json!({"ray_cluster": {"worker_group_spec": [{"min_replicas": 1}]}});
    let camel = json!({"rayCluster": {"workerGroupSpec": [{"minReplicas": 1}]}});
    assert_eq!(read::<RayJob>(snake), read::<RayJob>(camel));
    // The proto name itself is camel case here, and keys of maps are never touched.
    let spark: SparkJob = read(json!({"sparkConf": {"spark.snake_key": "1"}}));
    assert_eq!(spark.spark_conf["spark.snake_key"], "1");
}

#[test]
fn unknown_fields_and_nulls_are_ignored() {
    let job: RayJob =
        read(json!({"later": {"x": [1]}, "runtimeEnv": null, "ray_cluster": {"worker_group_spec": null}}));
    assert_eq!(job, RayJob { ray_cluster: Some(RayCluster::default()), ..Default::default() });
    let spark: SparkJob = read(json!({"sparkConf": {"a": null}}));
    assert_eq!(spark.spark_conf["a"], "");
    assert_eq!(read::<RayJob>(json!(null)), RayJob::default());
}

#[test]
fn wrappers_keep_the_difference_between_absent_and_zero() {
    assert_eq!(read::<ClusteredTaskSpec>(json!({})).ttl_seconds_after_finished, None);
    assert_eq!(read::<ClusteredTaskSpec>(json!({"ttl_seconds_after_finished": 0})).ttl_seconds_after_finished, Some(0));
    let spec: ClusteredTaskSpec = read(json!({"ttlSecondsAfterFinished": 60.0}));
    assert_eq!(message_to_json(&spec).unwrap(), json!({"ttl_seconds_after_finished": 60}));
}

#[test]
fn errors_name_the_field() {
    let cases = [
        (
            json!({"worker_group_spec": [{"replicas": 1.5}]}),
            "RayCluster.worker_group_spec[0].replicas: expected a whole",
        ),
        (
            json!({"worker_group_spec": [{"replicas": 4e9}]}),
            "RayCluster.worker_group_spec[0].replicas: expected a whole",
        ),
        (json!({"worker_group_spec": {}}), "RayCluster.worker_group_spec: expected a list, found {}"),
        (json!({"headGroupSpec": []}), "RayCluster.headGroupSpec: expected an object, found []"),
        (json!({"enable_autoscaling": "yes"}), "RayCluster.enable_autoscaling: expected true or false, found \"yes\""),
        (
            json!({"head_group_spec": {"ray_start_params": {"port": 1}}}),
            "RayCluster.head_group_spec.ray_start_params.port",
        ),
        (json!(7), "RayCluster: expected an object, found 7"),
    ];
    for (value, expected) in cases {
        let error = refused::<RayCluster>(&value);
        assert!(error.starts_with(expected), "{error}\nshould start with {expected}");
    }
    let negative = refused::<DaskJob>(&json!({"workers": {"number_of_workers": -1}}));
    assert_eq!(
        negative,
        "DaskJob.workers.number_of_workers: expected a whole number of 32 bits, not negative, found -1"
    );
}

#[test]
fn long_values_are_shortened_in_errors() {
    let error = refused::<RayCluster>(&json!({"enable_autoscaling": "é".repeat(500)}));
    assert!(error.chars().count() < 200, "{error}");
}

#[test]
fn a_struct_with_an_infinity_is_refused_by_name() {
    let value = prost_types::Value { kind: Some(prost_types::value::Kind::NumberValue(f64::INFINITY)) };
    let fields = Struct { fields: [("replicas".to_owned(), value)].into() };
    let error = message_from_struct::<WorkerGroupSpec>(&fields).unwrap_err();
    assert!(matches!(&error, JsonError::NotFinite { path, .. } if path == "WorkerGroupSpec.replicas"), "{error}");
    let template = TaskTemplate { custom: Some(fields), ..Default::default() };
    assert!(matches!(message_to_json(&template), Err(JsonError::Unwritable { .. })));
}

#[test]
fn two_fields_of_a_oneof_are_refused() {
    let error = refused::<TaskTemplate>(&json!({"container": {}, "k8s_pod": {}}));
    assert_eq!(error, "TaskTemplate.k8s_pod: set together with another field of `target`; keep only one of them");
}

#[test]
fn templates_are_written_as_flyte_writes_them() {
    let written = json!({
        "type": "ray",
        "metadata": {
            "timeout": "90s",
            "retries": {"retries": 2, "backoff": {"base": "1.500s", "factor": 2, "cap": "60s"}},
            "interruptible": false,
            "generates_deck": true,
        },
        "custom": {"replicas": 3, "share": 0.25},
        "k8s_pod": {"pod_spec": {"terminationGracePeriodSeconds": 30, "hostname": null}},
        "extended_resources": {"gpu_accelerator": {"device": "a100", "device_class": "GOOGLE_TPU", "unpartitioned": false}},
        "task_type_version": 1,
    });
    let template: TaskTemplate = read(written.clone());
    assert_eq!(template.metadata.as_ref().unwrap().generates_deck, Some(true));
    assert_eq!(message_to_json(&template).unwrap(), written);
    let camel = message_to_json_named(&template, FieldNames::Camel).unwrap();
    assert_eq!(camel["extendedResources"]["gpuAccelerator"]["deviceClass"], "GOOGLE_TPU");
    assert_eq!(camel["taskTypeVersion"], 1);
    assert_eq!(camel["custom"], written["custom"]);
}

#[test]
fn large_integers_and_bytes_follow_protobuf() {
    let literal: core::LiteralOffloadedMetadata = read(json!({"size_bytes": "18446744073709551615"}));
    assert_eq!(literal.size_bytes, u64::MAX);
    assert_eq!(message_to_json(&literal).unwrap(), json!({"size_bytes": "18446744073709551615"}));
    for text in ["+/8=", "+/8", "-_8=", "-_8"] {
        assert_eq!(read::<CreateTaskResponse>(json!({"resource_meta": text})).resource_meta, [0xfb, 0xff]);
    }
    assert!(refused::<CreateTaskResponse>(&json!({"resource_meta": "%"})).contains("expected base64"));
}

#[test]
fn equal_maps_have_equal_bytes() {
    let params = |order: [&str; 3]| {
        let ray_start_params: BTreeMap<_, _> = order.iter().map(|key| ((*key).to_owned(), String::new())).collect();
        HeadGroupSpec { ray_start_params, ..Default::default() }.encode_to_vec()
    };
    assert_eq!(params(["a", "b", "c"]), params(["c", "a", "b"]));
}

fn any_name() -> impl Strategy<Value = String> {
    "[a-z][a-z0-9_.-]{0,9}"
}

fn any_params() -> impl Strategy<Value = BTreeMap<String, String>> {
    prop::collection::btree_map(any_name(), "[ -~]{0,8}", 0..3)
}

prop_compose! {
    fn any_resources()(requests in prop::collection::vec((0..6_i32, "[0-9]{1,4}(Mi|m)?"), 0..3)) -> core::Resources {
        let entry = |(name, value)| resources::ResourceEntry { name, value };
        core::Resources { requests: requests.into_iter().map(entry).collect(), limits: vec![] }
    }
}

prop_compose! {
    fn any_pod()(
        labels in any_params(), grace in any::<i32>(), share in -1e6..1e6_f64, name in any_name(), spec in any::<bool>(),
    ) -> core::K8sPod {
        let pod_spec = json!({"terminationGracePeriodSeconds": grace, "share": share, "containers": [{"name": name}]});
        core::K8sPod {
            metadata: Some(core::K8sObjectMetadata { labels, ..Default::default() }),
            pod_spec: spec.then(|| json_to_struct(&pod_spec).unwrap()),
            primary_container_name: name,
            ..Default::default()
        }
    }
}

prop_compose! {
    fn any_group()(
        group_name in any_name(), replicas in any::<i32>(), min_replicas in any::<i32>(), max_replicas in 0..5_i32,
        ray_start_params in any_params(), k8s_pod in prop::option::of(any_pod()),
    ) -> WorkerGroupSpec {
        WorkerGroupSpec { group_name, replicas, min_replicas, max_replicas, ray_start_params, k8s_pod, ..Default::default() }
    }
}

prop_compose! {
    fn any_ray_job()(
        worker_group_spec in prop::collection::vec(any_group(), 0..3), ray_start_params in any_params(),
        autoscaler in prop::option::of((0..6_i32, any::<i32>(), any_resources())),
        enable_autoscaling in any::<bool>(), ttl_seconds_after_finished in any::<i32>(), runtime_env_yaml in "[ -~\n]{0,20}",
    ) -> RayJob {
        let autoscaler_options = autoscaler.map(|(upscaling_mode, idle_timeout_seconds, resources)| AutoscalerOptions {
            upscaling_mode, idle_timeout_seconds, resources: Some(resources), ..Default::default()
        });
        let head_group_spec = Some(HeadGroupSpec { ray_start_params, ..Default::default() });
        let cluster = RayCluster { head_group_spec, worker_group_spec, enable_autoscaling, autoscaler_options };
        RayJob { ray_cluster: Some(cluster), ttl_seconds_after_finished, runtime_env_yaml, ..Default::default() }
    }
}

prop_compose! {
    fn any_template()(
        kind in any_name(), retries in any::<u32>(), seconds in -1000..100_000_i64, millis in 0..1000_i32,
        factor in prop::option::of(1.0..10.0_f64), interruptible in prop::option::of(any::<bool>()),
        deck in prop::option::of(any::<bool>()), device_class in 0..8_i32, config in any_params(),
        target in prop_oneof![any_pod().prop_map(core::task_template::Target::K8sPod), any_resources().prop_map(|resources|
            core::task_template::Target::Container(core::Container { resources: Some(resources), ..Default::default() }))],
    ) -> TaskTemplate {
        let nanos = if seconds < 0 { -millis } else { millis } * 1_000_000;
        let metadata = core::TaskMetadata {
            timeout: Some(prost_types::Duration { seconds, nanos }),
            retries: Some(core::RetryStrategy { retries, backoff: Some(core::Backoff { factor, ..Default::default() }) }),
            interruptible_value: interruptible.map(core::task_metadata::InterruptibleValue::Interruptible),
            generates_deck: deck,
            ..Default::default()
        };
        let accelerator = core::GpuAccelerator { device_class, ..Default::default() };
        TaskTemplate {
            r#type: kind, metadata: Some(metadata), target: Some(target), config,
            extended_resources: Some(core::ExtendedResources { gpu_accelerator: Some(accelerator), shared_memory: None }),
            ..Default::default()
        }
    }
}

/// Adds members nobody declared to every object that is a message.
fn with_unknown_fields(value: &mut Value) {
    if let Value::Object(members) = value {
        // Objects with declared, always present names are messages; maps and structs must stay as they are.
        for name in ["ray_cluster", "head_group_spec", "autoscaler_options"] {
            members.entry(name).and_modify(with_unknown_fields);
        }
        members.insert("not_declared_yet".to_owned(), json!({"a": [1, null]}));
    }
}

proptest! {
    #[test]
    fn ray_jobs_survive_json_in_both_styles(job in any_ray_job()) {
        for names in [FieldNames::Proto, FieldNames::Camel] {
            let value = message_to_json_named(&job, names).unwrap();
            prop_assert_eq!(&message_from_json::<RayJob>(&value).unwrap(), &job);
            let fields = message_to_struct(&job, names).unwrap();
            prop_assert_eq!(&message_from_struct::<RayJob>(&fields).unwrap(), &job);
        }
    }

    #[test]
    fn unknown_fields_change_nothing(job in any_ray_job()) {
        let mut value = message_to_json(&job).unwrap();
        with_unknown_fields(&mut value);
        prop_assert_eq!(message_from_json::<RayJob>(&value).unwrap(), job);
    }

    #[test]
    fn templates_survive_json(template in any_template()) {
        let value = message_to_json(&template).unwrap();
        let again: TaskTemplate = message_from_json(&value).unwrap();
        prop_assert_eq!(&again, &template);
        prop_assert_eq!(again.encode_to_vec(), template.encode_to_vec());
    }
}
