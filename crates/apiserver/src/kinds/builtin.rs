//! The built-in kinds.

use std::sync::Arc;

use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    ConfigMap, Endpoints, Event, LimitRange, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod,
    PodTemplate, ReplicationController, ResourceQuota, Secret, Service, ServiceAccount,
};
use k8s_openapi::api::networking::v1::{Ingress, NetworkPolicy};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

use super::typed::round_trip;
use super::{Behaviour, Kind, Schema};

// Flags of `Row::flags`.
const NAMESPACED: u8 = 1;
/// The kind has a `status` subresource.
const STATUS: u8 = 2;
/// Objects have `metadata.generation`.
const GENERATION: u8 = 4;
/// A PUT without `resourceVersion` is refused.
const CONDITIONAL: u8 = 8;
/// A PUT of an object that does not exist creates it.
const CREATE_ON_UPDATE: u8 = 16;
/// Objects are answered, but neither stored nor read.
const CREATE_ONLY: u8 = 32;

/// One built-in kind.
struct Row {
    group: &'static str,
    plural: &'static str,
    kind: &'static str,
    short: &'static [&'static str],
    flags: u8,
    decode: fn(Value) -> Result<Value, serde_json::Error>,
}

const fn row(
    group: &'static str,
    plural: &'static str,
    kind: &'static str,
    short: &'static [&'static str],
    flags: u8,
    decode: fn(Value) -> Result<Value, serde_json::Error>,
) -> Row {
    Row { group, plural, kind, short, flags, decode }
}

/// Reviews are answered as they were sent.
fn unchanged(value: Value) -> Result<Value, serde_json::Error> {
    Ok(value)
}

const ROWS: &[Row] = &[
    row("", "namespaces", "Namespace", &["ns"], STATUS, round_trip::<Namespace>),
    row("", "nodes", "Node", &["no"], STATUS, round_trip::<Node>),
    row("", "persistentvolumes", "PersistentVolume", &["pv"], STATUS, round_trip::<PersistentVolume>),
    row("", "pods", "Pod", &["po"], NAMESPACED | STATUS | GENERATION, round_trip::<Pod>),
    row("", "podtemplates", "PodTemplate", &[], NAMESPACED | GENERATION, round_trip::<PodTemplate>),
    row("", "configmaps", "ConfigMap", &["cm"], NAMESPACED, round_trip::<ConfigMap>),
    row("", "secrets", "Secret", &[], NAMESPACED, round_trip::<Secret>),
    row("", "serviceaccounts", "ServiceAccount", &["sa"], NAMESPACED, round_trip::<ServiceAccount>),
    row("", "services", "Service", &["svc"], NAMESPACED | STATUS, round_trip::<Service>),
    row("", "endpoints", "Endpoints", &["ep"], NAMESPACED, round_trip::<Endpoints>),
    row("", "events", "Event", &["ev"], NAMESPACED | CREATE_ON_UPDATE, round_trip::<Event>),
    row("", "limitranges", "LimitRange", &["limits"], NAMESPACED, round_trip::<LimitRange>),
    row("", "resourcequotas", "ResourceQuota", &["quota"], NAMESPACED | STATUS, round_trip::<ResourceQuota>),
    row(
        "",
        "persistentvolumeclaims",
        "PersistentVolumeClaim",
        &["pvc"],
        NAMESPACED | STATUS,
        round_trip::<PersistentVolumeClaim>,
    ),
    row(
        "",
        "replicationcontrollers",
        "ReplicationController",
        &["rc"],
        NAMESPACED | STATUS | GENERATION,
        round_trip::<ReplicationController>,
    ),
    row("apps", "deployments", "Deployment", &["deploy"], NAMESPACED | STATUS | GENERATION, round_trip::<Deployment>),
    row("apps", "replicasets", "ReplicaSet", &["rs"], NAMESPACED | STATUS | GENERATION, round_trip::<ReplicaSet>),
    row("apps", "statefulsets", "StatefulSet", &["sts"], NAMESPACED | STATUS | GENERATION, round_trip::<StatefulSet>),
    row("apps", "daemonsets", "DaemonSet", &["ds"], NAMESPACED | STATUS | GENERATION, round_trip::<DaemonSet>),
    row("batch", "jobs", "Job", &[], NAMESPACED | STATUS | GENERATION, round_trip::<Job>),
    row("batch", "cronjobs", "CronJob", &["cj"], NAMESPACED | STATUS | GENERATION, round_trip::<CronJob>),
    row("events.k8s.io", "events", "Event", &["ev"], NAMESPACED | CREATE_ON_UPDATE, round_trip::<Event>),
    row(
        "coordination.k8s.io",
        "leases",
        "Lease",
        &[],
        NAMESPACED | CONDITIONAL | CREATE_ON_UPDATE,
        round_trip::<Lease>,
    ),
    row("networking.k8s.io", "ingresses", "Ingress", &["ing"], NAMESPACED | STATUS | GENERATION, round_trip::<Ingress>),
    row(
        "networking.k8s.io",
        "networkpolicies",
        "NetworkPolicy",
        &["netpol"],
        NAMESPACED | GENERATION,
        round_trip::<NetworkPolicy>,
    ),
    row(
        "policy",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        &["pdb"],
        NAMESPACED | STATUS | GENERATION,
        round_trip::<PodDisruptionBudget>,
    ),
    row("rbac.authorization.k8s.io", "roles", "Role", &[], NAMESPACED, round_trip::<Role>),
    row("rbac.authorization.k8s.io", "rolebindings", "RoleBinding", &[], NAMESPACED, round_trip::<RoleBinding>),
    row("rbac.authorization.k8s.io", "clusterroles", "ClusterRole", &[], 0, round_trip::<ClusterRole>),
    row(
        "rbac.authorization.k8s.io",
        "clusterrolebindings",
        "ClusterRoleBinding",
        &[],
        0,
        round_trip::<ClusterRoleBinding>,
    ),
    row("scheduling.k8s.io", "priorityclasses", "PriorityClass", &["pc"], GENERATION, round_trip::<PriorityClass>),
    row("storage.k8s.io", "storageclasses", "StorageClass", &["sc"], 0, round_trip::<StorageClass>),
    row(
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        &["crd", "crds"],
        STATUS | GENERATION | CONDITIONAL,
        round_trip::<CustomResourceDefinition>,
    ),
    row(
        "admissionregistration.k8s.io",
        "mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
        &[],
        GENERATION,
        round_trip::<MutatingWebhookConfiguration>,
    ),
    row(
        "admissionregistration.k8s.io",
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        &[],
        GENERATION,
        round_trip::<ValidatingWebhookConfiguration>,
    ),
    row("authentication.k8s.io", "tokenreviews", "TokenReview", &[], CREATE_ONLY, unchanged),
    row("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview", &[], CREATE_ONLY, unchanged),
    row("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview", &[], CREATE_ONLY, unchanged),
    row("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview", &[], CREATE_ONLY, unchanged),
    row("authorization.k8s.io", "selfsubjectrulesreviews", "SelfSubjectRulesReview", &[], CREATE_ONLY, unchanged),
    row(
        "authorization.k8s.io",
        "localsubjectaccessreviews",
        "LocalSubjectAccessReview",
        &[],
        CREATE_ONLY | NAMESPACED,
        unchanged,
    ),
];

/// All built-in kinds. Each one has version `v1` of its group.
pub(crate) fn builtin_kinds() -> Vec<Kind> {
    ROWS.iter().map(kind_of).collect()
}

fn kind_of(row: &Row) -> Kind {
    let has = |bit| row.flags & bit != 0;
    let group = row.group;
    // The core group and `events.k8s.io` serve the same events.
    let resource = if group.is_empty() || group == "events.k8s.io" {
        Arc::from(row.plural)
    } else {
        Arc::from(format!("{}.{group}", row.plural))
    };
    Kind {
        group: group.to_owned(),
        version: "v1".to_owned(),
        plural: row.plural.to_owned(),
        singular: row.kind.to_lowercase(),
        kind: row.kind.to_owned(),
        namespaced: has(NAMESPACED),
        short_names: row.short.iter().map(|&name| name.to_owned()).collect(),
        categories: if ["pods", "services", "deployments", "jobs"].contains(&row.plural) {
            vec!["all".to_owned()]
        } else {
            Vec::new()
        },
        schema: Schema::BuiltIn(row.decode),
        resource,
        behaviour: Behaviour {
            has_status: has(STATUS),
            has_generation: has(GENERATION),
            unconditional_update: !has(CONDITIONAL),
            create_on_update: has(CREATE_ON_UPDATE),
            create_only: has(CREATE_ONLY),
        },
    }
}
