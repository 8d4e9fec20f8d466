//! `resources`: `{cpu: 1, memory: 500Mi}`, or `requests` and `limits` with the same inside.

use aileron_idl::flyteidl2::core::Resources;
use aileron_idl::flyteidl2::core::resources::{ResourceEntry, ResourceName};
use aileron_kubekit::quantity::Quantity;
use serde_json::{Map, Value};

use super::fields::{Field, Report};

/// Amounts in the order of the file, by the names people use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Amounts {
    pub requests: Vec<(String, String)>,
    pub limits: Vec<(String, String)>,
}

/// Resources that a template has a name for.
const NAMED: [(&str, ResourceName); 5] = [
    ("cpu", ResourceName::Cpu),
    ("gpu", ResourceName::Gpu),
    ("memory", ResourceName::Memory),
    ("storage", ResourceName::Storage),
    ("ephemeral-storage", ResourceName::EphemeralStorage),
];
/// What `gpu` is called in a pod.
const POD_GPU: &str = "nvidia.com/gpu";

impl Amounts {
    pub fn read(field: &Field<'_>, report: &Report) -> Self {
        let entries = field.entries(report);
        let is_long = entries.iter().any(|(name, _)| name == "requests" || name == "limits");
        if !is_long {
            return Self { requests: amounts(field, report), limits: Vec::new() };
        }
        let Some(group) = field.group(&["requests", "limits"], report) else { return Self::default() };
        let part = |name| group.get(name).map(|field| amounts(&field, report)).unwrap_or_default();
        Self { requests: part("requests"), limits: part("limits") }
    }

    pub fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.limits.is_empty()
    }

    /// True if a template's container cannot say it: only pods know resources of any name.
    pub fn needs_pod(&self) -> bool {
        self.requests.iter().chain(&self.limits).any(|(name, _)| named(name).is_none())
    }

    pub fn to_message(&self) -> Resources {
        let entries = |amounts: &[(String, String)]| {
            let entry = |(name, value): &(String, String)| {
                Some(ResourceEntry { name: named(name)?.into(), value: value.clone() })
            };
            amounts.iter().filter_map(entry).collect()
        };
        Resources { requests: entries(&self.requests), limits: entries(&self.limits) }
    }

    /// As a container of a pod has them. Extended resources must be limited to what is requested.
    pub fn to_pod(&self) -> Value {
        let mut limits = self.limits.clone();
        for (name, value) in &self.requests {
            let is_native = matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage" | "storage");
            if !is_native && !limits.iter().any(|(limited, _)| limited == name) {
                limits.push((name.clone(), value.clone()));
            }
        }
        let map = |amounts: &[(String, String)]| {
            let entry = |(name, value): &(String, String)| {
                let name = if name == "gpu" { POD_GPU } else { name };
                (name.to_owned(), Value::from(value.as_str()))
            };
            Value::Object(amounts.iter().map(entry).collect())
        };
        let mut resources = Map::new();
        resources.insert("requests".into(), map(&self.requests));
        resources.insert("limits".into(), map(&limits));
        Value::Object(resources)
    }
}

fn amounts(field: &Field<'_>, report: &Report) -> Vec<(String, String)> {
    let mut amounts = Vec::new();
    for (name, field) in field.entries(report) {
        if named(&name).is_none() && !name.contains('/') {
            let words = NAMED.map(|(word, _)| word);
            let remedy = match aileron_config::suggest::nearest(&name, words.into_iter()) {
                Some(word) => format!("did you mean `{word}`?"),
                None => format!("use {}, or the whole name of an extended one such as {POD_GPU}", words.join(", ")),
            };
            field.complain(format!("no such resource; {remedy}"), report);
            continue;
        }
        let Some(value) = field.text(report) else { continue };
        match value.parse::<Quantity>() {
            Ok(_) => amounts.push((name, value)),
            Err(_) => field.complain(format!("must be an amount such as 500m, 2 or 1Gi, found {value:?}"), report),
        }
    }
    amounts
}

fn named(name: &str) -> Option<ResourceName> {
    NAMED.iter().find(|(word, _)| *word == name).map(|(_, resource)| *resource)
}
