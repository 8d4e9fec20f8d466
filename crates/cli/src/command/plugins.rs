//! `aileron plugins`: lists the plugins and whether the cluster serves their kinds.

use std::time::Duration;

use aileron_action::plugin_choice::{MissingKind, PluginDescription, PluginList, Served, ServedKinds, missing_kind};
use aileron_executor::registry::served::served_kinds;
use aileron_machinery::ResourceKind;
use anyhow::{Context, anyhow};
use serde_json::{Value, json};

use crate::arguments::{ClusterArguments, ListArguments, ListFormat};
use crate::display::{output, table};
use crate::failure::Failure;
use crate::program::Program;
use crate::{configuration, connection};

/// The cluster must answer within this time. Otherwise the list is printed without it, so that the user does not wait for a
/// cluster that is unreachable.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(5);

/// Whether the cluster can run the tasks of a plugin.
#[derive(Debug, PartialEq, Eq)]
enum Availability {
    Available,
    /// The cluster does not serve the kind of the plugin.
    Unavailable(MissingKind),
    /// The configuration disables the plugin.
    Disabled,
    /// No cluster was found, or it did not answer.
    Unknown,
}

/// What is known about the cluster.
#[derive(Debug, Default)]
struct Discovered {
    served: ServedKinds,
    /// Why the cluster could not be asked.
    failure: Option<String>,
}

impl Availability {
    fn as_str(&self) -> &'static str {
        match self {
            Self::Available => "available",
            Self::Unavailable(_) => "unavailable",
            Self::Disabled => "disabled",
            Self::Unknown => "unknown (no cluster)",
        }
    }
}

pub fn run(program: &Program, arguments: &ListArguments, overrides: Vec<(String, String)>) -> Result<(), Failure> {
    let loaded = configuration::load(program, &arguments.config, overrides)?;
    let list = configuration::plugin_list(program, &loaded.config)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let kinds: Vec<_> = list.plugins().iter().filter_map(|plugin| plugin.kind.clone()).collect();
    let found = runtime.context("cannot start threads")?.block_on(discover(&arguments.cluster, &kinds))?;
    print(&list, &found.served, arguments.output)?;
    match found.failure {
        // The list is printed all the same, but a script that names a cluster must not take it for that of the cluster.
        Some(failure) if connection::is_named(&arguments.cluster) => Err(Failure::Failed(anyhow!(failure))),
        Some(failure) => {
            output::warn(&failure);
            Ok(())
        }
        None => Ok(()),
    }
}

fn print(list: &PluginList, served: &ServedKinds, format: ListFormat) -> Result<(), Failure> {
    match format {
        ListFormat::Json => return output::print_json(&as_json(list, served)),
        ListFormat::Yaml => return output::print_yaml(&as_json(list, served)),
        ListFormat::Name => {
            return output::print(&list.plugins().iter().map(|one| format!("{}\n", one.entry.id)).collect::<String>());
        }
        ListFormat::Table => output::print_truncated(&as_table(list, served, false))?,
        ListFormat::Wide => output::print(&as_table(list, served, true))?,
    }
    for rule in list.suspicious_rules() {
        output::warn(&rule.to_string());
    }
    for plugin in list.plugins() {
        if let Availability::Unavailable(missing) = availability(plugin, served) {
            output::warn(&format!("plugin {}: {missing}", plugin.entry.id));
        }
    }
    Ok(())
}

/// The kinds that the cluster serves; empty if there is no cluster. It is an error if the user names an unusable file.
async fn discover(arguments: &ClusterArguments, kinds: &[ResourceKind]) -> Result<Discovered, Failure> {
    let client = match connection::inspection_client(arguments).await {
        Ok(client) => client,
        Err(error) if connection::is_named(arguments) => return Err(error.into()),
        Err(_) => return Ok(Discovered::default()),
    };
    let Ok(served) = tokio::time::timeout(DISCOVERY_TIMEOUT, served_kinds(&client, kinds)).await else {
        let failure = format!("the cluster did not answer within {} s", DISCOVERY_TIMEOUT.as_secs());
        return Ok(Discovered { failure: Some(failure), ..Discovered::default() });
    };
    let failure = served.values().find_map(|served| match served {
        Served::Unknown(reason) => Some(format!("cannot read which kinds the cluster serves: {reason}")),
        Served::Yes | Served::No => None,
    });
    Ok(Discovered { served, failure })
}

fn as_table(list: &PluginList, served: &ServedKinds, wide: bool) -> String {
    let mut header = vec!["ID", "TASK TYPES", "KIND", "DEFAULT", "ENABLED", "STATUS"];
    if wide {
        header.push("DECLARES");
    }
    let rows: Vec<_> = list.plugins().iter().map(|plugin| row(plugin, served, wide)).collect();
    table::render(&header, &rows)
}

fn row(plugin: &PluginDescription, served: &ServedKinds, wide: bool) -> Vec<String> {
    let mut row = vec![
        plugin.entry.id.to_string(),
        joined(&plugin.serves),
        plugin.kind.as_ref().map_or_else(|| "-".into(), full_name),
        yes_or_no(plugin.is_default).into(),
        yes_or_no(plugin.enabled).into(),
        availability(plugin, served).as_str().into(),
    ];
    if wide {
        row.push(joined(&plugin.entry.task_types));
    }
    row
}

fn as_json(list: &PluginList, served: &ServedKinds) -> Value {
    let plugin = |plugin: &PluginDescription| {
        let kind = plugin.kind.as_ref().map(|kind| {
            json!({
                "group": kind.group, "version": kind.version, "kind": kind.kind, "plural": kind.plural,
                "served": match served.get(kind) {
                    Some(Served::Yes) => Value::Bool(true),
                    Some(Served::No) => Value::Bool(false),
                    Some(Served::Unknown(_)) | None => Value::Null,
                },
            })
        });
        json!({
            "id": plugin.entry.id, "declares": plugin.entry.task_types, "taskTypes": plugin.serves, "kind": kind,
            "default": plugin.is_default, "enabled": plugin.enabled,
            "available": match availability(plugin, served) {
                Availability::Available => Value::Bool(true),
                Availability::Unavailable(_) | Availability::Disabled => Value::Bool(false),
                Availability::Unknown => Value::Null,
            },
            "reason": match availability(plugin, served) {
                Availability::Unavailable(missing) => Some(missing.to_string()),
                _ => None,
            },
        })
    };
    let warnings: Vec<_> = list.suspicious_rules().iter().map(ToString::to_string).collect();
    // The built-in plugins share task types on purpose, so this is no warning.
    json!({
        "plugins": list.plugins().iter().map(plugin).collect::<Vec<_>>(),
        "warnings": warnings,
        "sharedTaskTypes": list.warnings(),
    })
}

fn availability(plugin: &PluginDescription, served: &ServedKinds) -> Availability {
    match &plugin.kind {
        _ if !plugin.enabled => Availability::Disabled,
        None => Availability::Available,
        Some(kind) => match (missing_kind(served, kind), served.get(kind)) {
            (Some(missing), _) => Availability::Unavailable(missing),
            (None, Some(Served::Yes)) => Availability::Available,
            (None, _) => Availability::Unknown,
        },
    }
}

/// The kind as `group/version/kind`, or `version/kind` for the core group.
fn full_name(kind: &ResourceKind) -> String {
    let group = if kind.group.is_empty() { String::new() } else { format!("{}/", kind.group) };
    format!("{group}{}/{}", kind.version, kind.kind)
}

fn joined(words: &[String]) -> String {
    if words.is_empty() { "-".into() } else { words.join(",") }
}

fn yes_or_no(is: bool) -> &'static str {
    if is { "yes" } else { "no" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_is_unavailable_only_where_its_kind_is_known_to_be_missing() {
        let kind = |kind: &'static str, plural: &'static str| ResourceKind {
            group: "ray.io".into(),
            version: "v1".into(),
            kind: kind.into(),
            plural: plural.into(),
        };
        let ray = kind("RayJob", "rayjobs");
        let plugin = |enabled, kind: Option<&ResourceKind>| PluginDescription {
            entry: aileron_machinery::PluginEntry::new("x", &["x"]),
            kind: kind.cloned(),
            enabled,
            serves: Vec::new(),
            is_default: false,
        };
        let with = |served| ServedKinds::from([(ray.clone(), served)]);
        let of = |served: &ServedKinds| availability(&plugin(true, Some(&ray)), served);
        assert_eq!(of(&with(Served::Yes)), Availability::Available);
        assert_eq!(of(&with(Served::No)), Availability::Unavailable(MissingKind(ray.clone())));
        assert_eq!(of(&with(Served::Unknown("down".into()))), Availability::Unknown);
        assert_eq!(of(&ServedKinds::new()), Availability::Unknown);
        assert_eq!(availability(&plugin(false, Some(&ray)), &with(Served::No)), Availability::Disabled);
        assert_eq!(availability(&plugin(true, None), &ServedKinds::new()), Availability::Available);
    }
}
