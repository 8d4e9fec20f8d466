//! `aileron plugins`.

use std::collections::BTreeMap;
use std::time::Duration;

use aileron_executor::plugin_list::{PluginDescription, PluginList, Served, served_kinds};
use aileron_executor::run::registry_rules;
use aileron_machinery::ResourceKind;
use anyhow::Context;
use serde_json::{Value, json};

use crate::arguments::{ClusterArguments, Listing, PluginsArguments};
use crate::failure::Failure;
use crate::{cluster, configuration, output, table};

/// A list must not make its reader wait for a cluster that is not there.
const ASK_FOR: Duration = Duration::from_secs(5);

type Kinds = BTreeMap<ResourceKind, Served>;

pub fn list(arguments: &PluginsArguments, overrides: Vec<(String, String)>) -> Result<(), Failure> {
    let loaded = configuration::load(&arguments.config, overrides)?;
    let plugins = aileron_plugins::builtin(&(&loaded.config.plugins).into());
    let list = PluginList::new(&plugins, &registry_rules(&loaded.config))
        .map_err(|error| Failure::Usage(error.to_string()))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let kinds: Vec<_> = list.plugins().iter().filter_map(|plugin| plugin.kind.clone()).collect();
    let served = runtime.context("cannot start")?.block_on(ask(&arguments.cluster, &kinds))?;
    if arguments.output == Listing::Json {
        return output::print_json(&as_json(&list, &served));
    }
    output::print(&as_table(&list, &served, arguments.output == Listing::Wide))?;
    if arguments.output == Listing::Wide {
        for warning in list.warnings() {
            output::warn(warning);
        }
    }
    Ok(())
}

/// What the cluster serves; nothing if there is no cluster. A kubeconfig that was named must be usable.
async fn ask(arguments: &ClusterArguments, kinds: &[ResourceKind]) -> Result<Kinds, Failure> {
    let client = match cluster::connect(arguments).await {
        Ok(client) => client,
        Err(error) if arguments.kubeconfig.is_some() => return Err(error.into()),
        Err(_) => return Ok(Kinds::new()),
    };
    let Ok(served) = tokio::time::timeout(ASK_FOR, served_kinds(&client, kinds)).await else {
        output::warn("the cluster does not answer");
        return Ok(Kinds::new());
    };
    if let Some(reason) = served.values().find_map(|served| match served {
        Served::Unknown(reason) => Some(reason),
        Served::Yes | Served::No => None,
    }) {
        output::warn(&format!("cannot ask the cluster: {reason}"));
    }
    Ok(served)
}

fn as_table(list: &PluginList, served: &Kinds, wide: bool) -> String {
    let mut header = vec!["ID", "TASK TYPES", "KIND", "DEFAULT", "ENABLED", "SERVED"];
    if wide {
        header.push("DECLARES");
    }
    let rows: Vec<_> = list.plugins().iter().map(|plugin| row(plugin, served, wide)).collect();
    table::render(&header, &rows)
}

fn row(plugin: &PluginDescription, served: &Kinds, wide: bool) -> Vec<String> {
    let mut row = vec![
        plugin.entry.id.to_owned(),
        words(&plugin.serves),
        plugin.kind.as_ref().map_or_else(|| "-".into(), full_name),
        yes(plugin.is_default).into(),
        yes(plugin.enabled).into(),
        match plugin.kind.as_ref().map(|kind| served.get(kind)) {
            None => "-",
            Some(Some(Served::Yes)) => "yes",
            Some(Some(Served::No)) => "no",
            Some(Some(Served::Unknown(_)) | None) => "unknown (no cluster)",
        }
        .into(),
    ];
    if wide {
        row.push(words(&plugin.entry.task_types));
    }
    row
}

fn as_json(list: &PluginList, served: &Kinds) -> Value {
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
        })
    };
    json!({ "plugins": list.plugins().iter().map(plugin).collect::<Vec<_>>(), "warnings": list.warnings() })
}

/// `group/version/kind`; the core group has no name.
fn full_name(kind: &ResourceKind) -> String {
    let group = if kind.group.is_empty() { String::new() } else { format!("{}/", kind.group) };
    format!("{group}{}/{}", kind.version, kind.kind)
}

fn words(words: &[String]) -> String {
    if words.is_empty() { "-".into() } else { words.join(",") }
}

fn yes(is: bool) -> &'static str {
    if is { "yes" } else { "no" }
}
