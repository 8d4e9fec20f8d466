//! Rules of upstream's loader that existing files depend on.

use std::collections::BTreeMap;

use super::{files, load, loaded};

fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn keys_have_no_letter_case() {
    let config =
        load("EXECUTOR: {eventsserviceurl: http://e, MAXSYSTEMFAILURES: 4}\nPlugins: {K8S: {Default-CPUs: 2}}");
    assert_eq!(config.executor.events_service_url, "http://e");
    assert_eq!(config.executor.max_system_failures, 4);
    assert_eq!(config.plugins.k8s.default_cpus.to_string(), "2");
}

#[test]
fn plain_map_keys_are_lower_cased_unless_dotted_or_listed() {
    let k8s = load(
        "plugins: {k8s: {default-annotations: {Dotted.Key/Name: a, UPPER: b}, default-labels: [{Upper: c}, {x: d}]}}",
    )
    .plugins
    .k8s;
    assert_eq!(k8s.default_annotations, map(&[("Dotted.Key/Name", "a"), ("upper", "b")]));
    assert_eq!(k8s.default_labels, map(&[("Upper", "c"), ("x", "d")]));
    let k8s =
        load("plugins: {k8s: {default-labels: {a: null, b: c}, default-env-vars: [{A: null}, {B: 1e3}]}}").plugins.k8s;
    assert_eq!(k8s.default_labels, map(&[("b", "c")]));
    assert_eq!(k8s.default_env_vars, map(&[("A", ""), ("B", "1000")]));
}

#[test]
fn maps_replace_their_default_and_groups_do_not() {
    let ray = load("plugins: {ray: {defaults: {headNode: {startParameters: {a: '1'}}}}}").plugins.ray;
    assert_eq!(ray.defaults.head_node.start_parameters, map(&[("a", "1")]));
    assert_eq!(ray.defaults.head_node.ip_address, "$MY_POD_IP");
    assert_eq!(ray.defaults.worker_node.start_parameters, map(&[("disable-usage-stats", "true")]));
}

#[test]
fn null_and_empty_maps_change_nothing_but_empty_lists_do() {
    let default = super::Config::default();
    let config =
        load("storage: {stow: {config: {}, kind: null}}\nplugins: {connector-service: {supportedTaskTypes: []}}");
    assert_eq!(config.storage, default.storage);
    assert_eq!(config.plugins.connector_service.supported_task_types, Vec::<String>::new());
    let k8s = load("plugins: {k8s: {default-annotations: []}}").plugins.k8s;
    assert_eq!(k8s.default_annotations, map(&[]));
}

#[test]
fn empty_groups_inside_lists_are_kept() {
    let text = "plugins: {ray: {logsSidecar: {name: n, env: [{name: A, valueFrom: {fieldRef: {}}}]}}}";
    let sidecar = load(text).plugins.ray.logs_sidecar.unwrap();
    assert!(sidecar.env.unwrap()[0].value_from.as_ref().unwrap().field_ref.is_some());
}

#[test]
fn device_classes_are_upper_case_and_replace_the_list() {
    let k8s = load("plugins: {k8s: {accelerator-device-classes: {amd_gpu: {resource-name: r}}}}").plugins.k8s;
    assert_eq!(k8s.accelerator_device_classes.keys().collect::<Vec<_>>(), ["AMD_GPU"]);
    assert_eq!(k8s.accelerator_device_classes["AMD_GPU"].resource_name, "r");
}

#[test]
fn the_deprecated_ray_address_fills_empty_ones() {
    let ray = load("plugins: {ray: {nodeIPAddress: $OLD, defaults: {headNode: {ipAddress: ''}}}}").plugins.ray;
    assert_eq!(ray.defaults.head_node.ip_address, "$OLD");
    assert_eq!(ray.defaults.worker_node.ip_address, "$MY_POD_IP");
}

#[test]
fn booleans_in_text_maps_become_digits_with_a_warning() {
    let loaded = loaded(&files(&["plugins:\n  k8s:\n    default-annotations:\n      safe-to-evict: false\n"]));
    assert_eq!(loaded.config.plugins.k8s.default_annotations, map(&[("safe-to-evict", "0")]));
    assert_eq!(
        loaded.warnings[0].to_string(),
        "a.yaml:4: plugins.k8s.default-annotations.safe-to-evict: false becomes the text \"0\"; write \"false\" to \
         keep it"
    );
}

#[test]
fn kubernetes_values_keep_their_types() {
    let text = "
plugins:
  k8s:
    default-tolerations: [{key: a, effect: NoExecute, tolerationSeconds: 5}]
    default-pod-security-context: {runasuser: 1000}
    accelerator-device-classes:
      nvidia_gpu:
        pod-template:
          template:
            spec:
              nodeSelector: {Pool: Gpu}
              containers:
                - name: default
                  image: none
                  resources: {limits: {cpu: 2, Memory: 1024Mi}}
                  livenessProbe: {httpGet: {port: 80, path: /}}
";
    let k8s = load(text).plugins.k8s;
    assert_eq!(k8s.default_tolerations[0].toleration_seconds, Some(5));
    assert_eq!(k8s.default_pod_security_context.unwrap().run_as_user, Some(1000));
    let template = k8s.accelerator_device_classes["NVIDIA_GPU"].pod_template.clone().unwrap();
    let spec = template.template.unwrap().spec.unwrap();
    assert_eq!(spec.node_selector.unwrap(), map(&[("pool", "Gpu")]));
    let limits = spec.containers[0].resources.as_ref().unwrap().limits.clone().unwrap();
    let limits: Vec<_> = limits.iter().map(|(name, amount)| format!("{name}={}", amount.0)).collect();
    assert_eq!(limits, ["Memory=1Gi", "cpu=2"]);
}
