//! The template of a task file.

use std::time::Duration;

use aileron_idl::flyteidl2::core::secret::MountType;
use aileron_idl::flyteidl2::core::task_metadata::InterruptibleValue;
use aileron_idl::flyteidl2::core::task_template::Target;
use aileron_idl::flyteidl2::core::{
    Backoff, Container, ExtendedResources, GpuAccelerator, Identifier, Identity, KeyValuePair, ResourceType,
    RetryStrategy, Secret, SecurityContext, SharedMemory, TaskMetadata, TaskTemplate, TimeoutStrategy, TypedInterface,
};
use aileron_idl::json_to_struct;

use super::fields::{Field, Group, Report};
use super::pod::{PRIMARY_CONTAINER_KEY, pod};
use super::resources::Amounts;

/// The type of a task that is nothing but a container.
const CONTAINER: &str = "container";
/// More attempts than anybody waits for.
const MAX_RETRIES: i64 = 1_000;
/// Where shared memory is expected by all programs.
const SHARED_MEMORY_PATH: &str = "/dev/shm";
const SHARED_MEMORY_NAME: &str = "flyte-shared-memory";

pub(super) fn template(root: &Group<'_>, interface: TypedInterface, report: &Report) -> TaskTemplate {
    let name = root.require("name", "give the task a name", report).and_then(|field| field.text(report));
    let id = Identifier {
        resource_type: ResourceType::Task.into(),
        project: root.text("project", report),
        domain: root.text("domain", report),
        name: name.unwrap_or_default(),
        version: root.text("version", report),
        ..Identifier::default()
    };
    let mut config = root.get("config").map(|field| field.texts_by_name(report)).unwrap_or_default();
    let target = target(root, report).map(|(target, primary)| {
        if let Some(primary) = primary {
            config.insert(PRIMARY_CONTAINER_KEY.to_owned(), primary);
        }
        target
    });
    let kind = root.text("type", report);
    TaskTemplate {
        id: Some(id),
        r#type: if kind.is_empty() { CONTAINER.to_owned() } else { kind },
        task_type_version: root
            .get("type-version")
            .and_then(|field| field.whole(0..=i64::from(i32::MAX), report))
            .and_then(|version| i32::try_from(version).ok())
            .unwrap_or_default(),
        metadata: Some(metadata(root, report)),
        interface: Some(interface),
        custom: root.get("custom").and_then(|field| {
            let custom = json_to_struct(&field.json());
            custom.map_err(|_| field.complain("must be a map of the plugin's settings", report)).ok()
        }),
        security_context: security_context(root, report),
        extended_resources: extended_resources(root, report),
        config,
        target,
        ..TaskTemplate::default()
    }
}

/// What to run, and the name of the container that counts if there may be several.
fn target(root: &Group<'_>, report: &Report) -> Option<(Target, Option<String>)> {
    let amounts = root.get("resources").map(|field| Amounts::read(&field, report)).unwrap_or_default();
    let texts = |key| root.get(key).map(|field| field.texts(report)).unwrap_or_default();
    let env = root.get("env").map(|field| field.texts_by_name(report)).unwrap_or_default();
    let container = Container {
        image: root.text("image", report),
        command: texts("command"),
        args: texts("args"),
        env: env.into_iter().map(|(key, value)| KeyValuePair { key, value }).collect(),
        resources: (!amounts.is_empty()).then(|| amounts.to_message()),
        ..Container::default()
    };
    let given = (container != Container::default()).then_some((&container, &amounts));
    if given.is_some() && root.get("image").is_none() {
        root.require("image", "say in which image it runs; in the sandbox any name will do", report)?;
    }
    let by_name = |key| root.get(key).map(|field| field.texts_by_name(report)).unwrap_or_default();
    if root.get("pod").is_some() || amounts.needs_pod() {
        let pod = pod(root, given, (by_name("labels"), by_name("annotations")), report)?;
        return Some((Target::K8sPod(pod.target), Some(pod.primary)));
    }
    if let Some(field) = root.get("primary-container") {
        field.complain("there is no `pod` whose container it could name; remove it", report);
    }
    given.is_some().then(|| (Target::Container(container.clone()), None))
}

fn metadata(root: &Group<'_>, report: &Report) -> TaskMetadata {
    let mut metadata = TaskMetadata {
        retries: root.get("retries").and_then(|field| retries(&field, report)),
        interruptible_value: root.boolean("interruptible", report).map(InterruptibleValue::Interruptible),
        pod_template_name: root.text("pod-template", report),
        ..TaskMetadata::default()
    };
    if let Some(field) = root.get("timeout") {
        timeout(&field, &mut metadata, report);
    }
    if let Some(field) = root.get("cache") {
        cache(&field, &mut metadata, report);
    }
    metadata
}

/// `2`, or `{count: 2, backoff: 1s, factor: 2, cap: 1m}`.
fn retries(field: &Field<'_>, report: &Report) -> Option<RetryStrategy> {
    let count = |field: &Field<'_>| field.whole(0..=MAX_RETRIES, report).and_then(|count| u32::try_from(count).ok());
    if !field.is_map() {
        return Some(RetryStrategy { retries: count(field)?, backoff: None });
    }
    let group = field.group(&["count", "backoff", "factor", "cap"], report)?;
    let retries = count(&group.require("count", "say how often to try again", report)?)?;
    let backoff = group.duration("backoff", report).map(|base| Backoff {
        base: Some(span(base)),
        factor: group.get("factor").and_then(|field| field.number(report)),
        cap: group.duration("cap", report).map(span),
    });
    if let (None, Some(field)) = (&backoff, group.get("factor").or_else(|| group.get("cap"))) {
        field.complain("means nothing without `backoff`, the first pause", report);
    }
    Some(RetryStrategy { retries, backoff })
}

/// `5m` for one attempt, or `{run: 5m, queued: 10m, total: 1h}`.
fn timeout(field: &Field<'_>, metadata: &mut TaskMetadata, report: &Report) {
    if !field.is_map() {
        metadata.timeout = field.duration(report).map(span);
        return;
    }
    let Some(group) = field.group(&["run", "queued", "total"], report) else { return };
    metadata.timeout = group.duration("run", report).map(span);
    let (queued, total) = (group.duration("queued", report).map(span), group.duration("total", report).map(span));
    metadata.timeouts =
        (queued.is_some() || total.is_some()).then_some(TimeoutStrategy { queued_timeout: queued, deadline: total });
}

/// The version alone, or `{version, serialize, ignore-inputs, max-age}`.
fn cache(field: &Field<'_>, metadata: &mut TaskMetadata, report: &Report) {
    metadata.discoverable = true;
    if !field.is_map() {
        metadata.discovery_version = field.text(report).unwrap_or_default();
        return;
    }
    let Some(group) = field.group(&["version", "serialize", "ignore-inputs", "max-age"], report) else { return };
    let version = group.require("version", "change it when the task computes something else", report);
    metadata.discovery_version = version.and_then(|field| field.text(report)).unwrap_or_default();
    metadata.cache_serializable = group.boolean("serialize", report).unwrap_or(false);
    metadata.cache_ignore_input_vars = group.get("ignore-inputs").map(|f| f.texts(report)).unwrap_or_default();
    metadata.cache_max_age = group.duration("max-age", report).map(span);
}

fn security_context(root: &Group<'_>, report: &Report) -> Option<SecurityContext> {
    let account = root.text("service-account", report);
    let secrets: Vec<_> = root
        .get("secrets")
        .map(|field| field.items(report).iter().filter_map(|item| secret(item, report)).collect())
        .unwrap_or_default();
    let run_as = (!account.is_empty()).then(|| Identity { k8s_service_account: account, ..Identity::default() });
    (run_as.is_some() || !secrets.is_empty()).then(|| SecurityContext { run_as, secrets, ..SecurityContext::default() })
}

/// `{key: token, group: web, env: TOKEN}`; without `env` the secret is mounted as a file.
fn secret(field: &Field<'_>, report: &Report) -> Option<Secret> {
    let group = field.group(&["key", "group", "group-version", "env"], report)?;
    let env_var = group.text("env", report);
    let mount = if env_var.is_empty() { MountType::File } else { MountType::EnvVar };
    Some(Secret {
        key: group.require("key", "name the key of the secret", report)?.text(report)?,
        group: group.text("group", report),
        group_version: group.text("group-version", report),
        mount_requirement: mount.into(),
        env_var,
    })
}

fn extended_resources(root: &Group<'_>, report: &Report) -> Option<ExtendedResources> {
    let device = root.text("accelerator", report);
    let size = root.text("shared-memory", report);
    let accelerator = (!device.is_empty()).then(|| GpuAccelerator { device, ..GpuAccelerator::default() });
    let memory = (!size.is_empty()).then(|| SharedMemory {
        mount_path: SHARED_MEMORY_PATH.to_owned(),
        mount_name: SHARED_MEMORY_NAME.to_owned(),
        size_limit: size,
    });
    (accelerator.is_some() || memory.is_some())
        .then_some(ExtendedResources { gpu_accelerator: accelerator, shared_memory: memory })
}

fn span(duration: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(duration.subsec_nanos()).unwrap_or_default(),
    }
}
