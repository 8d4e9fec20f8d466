//! `aileron pools`: lists the token pools and the tasks that hold or wait for their tokens.

use std::collections::{BTreeMap, BTreeSet};

use aileron_action::TaskAction;
use aileron_action::labels::{TERMINATED, TERMINATION_STATUS};
use aileron_action::pending::PendingReason;
use aileron_admission::pools::limits::Token;
use aileron_config::sections::pools::PoolConfig;
use aileron_executor::tokens::all_tokens;
use anyhow::Context;
use kube::Client;
use kube::api::{Api, ListParams, ObjectMeta};
use serde_json::{Value, json};

use crate::arguments::{ListArguments, ListFormat};
use crate::display::{output, table};
use crate::failure::Failure;
use crate::program::Program;
use crate::{configuration, connection};

/// A pool with the tasks that hold or wait for its tokens.
struct PoolUsage {
    /// `None` for a pool that was removed from the configuration while tasks still hold its tokens.
    config: Option<PoolConfig>,
    holders: Vec<Token>,
    /// The actions that wait, as `namespace/name`.
    waiting: Vec<String>,
}

pub fn run(program: &Program, arguments: &ListArguments, overrides: Vec<(String, String)>) -> Result<(), Failure> {
    let loaded = configuration::load(program, &arguments.config, overrides)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start threads")?;
    let (tokens, waiting) = runtime.block_on(async {
        let client = connection::inspection_client(&arguments.cluster).await?;
        let tokens = all_tokens(&client).await.context("cannot list tokens (Leases)")?;
        let waiting = waiting(&client).await;
        let waiting =
            waiting.map_err(|error| connection::request_failed(program.name(), &error, "cannot list TaskActions"))?;
        Ok::<_, Failure>((tokens, waiting))
    })?;
    let pools = gather(&loaded.config.tasks.pools, &tokens, &waiting);
    match arguments.output {
        ListFormat::Json => output::print_json(&as_json(&pools)),
        ListFormat::Yaml => output::print_yaml(&as_json(&pools)),
        ListFormat::Name => output::print(&pools.keys().map(|name| format!("{name}\n")).collect::<String>()),
        ListFormat::Table | ListFormat::Wide if pools.is_empty() => {
            output::note("no pools: the configuration has none (tasks.pools), and no task holds a token");
            Ok(())
        }
        ListFormat::Table => output::print_truncated(&as_table(&pools, false)),
        ListFormat::Wide => output::print(&as_table(&pools, true)),
    }
}

/// The waiting actions, each with the name of its pool.
async fn waiting(client: &Client) -> Result<Vec<(String, String)>, kube::Error> {
    let actions: Api<TaskAction> = Api::all(client.clone());
    let selector = format!("{TERMINATION_STATUS}!={TERMINATED}");
    let list = actions.list(&ListParams::default().labels(&selector)).await?;
    Ok(list.items.iter().filter_map(|action| Some((waits_for(action)?, qualified_name(&action.metadata)))).collect())
}

/// The pool that an action waits for. The message of its condition begins with the name of the pool.
fn waits_for(action: &TaskAction) -> Option<String> {
    let pending = action.status.as_ref()?.pending().filter(|pending| pending.reason == PendingReason::Pool.as_str())?;
    Some(pending.message.strip_prefix("pool ")?.split_once(':')?.0.to_owned())
}

fn qualified_name(metadata: &ObjectMeta) -> String {
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    format!("{}/{}", part(&metadata.namespace), part(&metadata.name))
}

/// Combines the configured pools with the tokens and the waiting actions of the cluster.
fn gather(
    configured: &BTreeMap<String, PoolConfig>,
    tokens: &[(String, Token)],
    waiting: &[(String, String)],
) -> BTreeMap<String, PoolUsage> {
    let names: BTreeSet<_> = configured.keys().chain(tokens.iter().map(|(pool, _)| pool)).cloned().collect();
    let shown = |name: String| {
        let holders = tokens.iter().filter(|(pool, _)| *pool == name).map(|(_, token)| token.clone()).collect();
        let waiting = waiting.iter().filter(|(pool, _)| *pool == name).map(|(_, action)| action.clone()).collect();
        (name.clone(), PoolUsage { config: configured.get(&name).cloned(), holders, waiting })
    };
    names.into_iter().map(shown).collect()
}

fn as_table(pools: &BTreeMap<String, PoolUsage>, wide: bool) -> String {
    let mut header = vec!["POOL", "QUOTA", "USED", "WAITING", "PROJECT CAP", "DOMAIN CAP", "TASK TYPES"];
    if wide {
        header.push("HOLDERS");
    }
    let number = |number: Option<u32>| number.filter(|it| *it > 0).map_or_else(|| "-".into(), |it| it.to_string());
    let row = |(name, pool): (&String, &PoolUsage)| {
        let config = pool.config.as_ref();
        let mut row = vec![
            name.clone(),
            number(config.map(|it| it.quota)),
            pool.holders.len().to_string(),
            pool.waiting.len().to_string(),
            number(config.map(|it| it.project_cap)),
            number(config.map(|it| it.domain_cap)),
            joined(config.map(|it| it.task_types.as_slice()).unwrap_or_default()),
        ];
        if wide {
            let names = pool.holders.iter().map(|it| format!("{}/{}", it.holder.namespace, it.holder.name));
            row.push(joined(&names.collect::<Vec<_>>()));
        }
        row
    };
    table::render(&header, &pools.iter().map(row).collect::<Vec<_>>())
}

fn as_json(pools: &BTreeMap<String, PoolUsage>) -> Value {
    let pool = |(name, pool): (&String, &PoolUsage)| {
        let holders: Vec<_> = pool
            .holders
            .iter()
            .map(|token| {
                json!({
                    "namespace": &*token.holder.namespace, "name": &*token.holder.name,
                    "project": token.account.project, "domain": token.account.domain,
                })
            })
            .collect();
        json!({
            "name": name, "config": pool.config, "used": pool.holders.len(), "holders": holders,
            "waiting": pool.waiting,
        })
    };
    json!({ "pools": pools.iter().map(pool).collect::<Vec<_>>() })
}

fn joined(words: &[String]) -> String {
    if words.is_empty() { "-".into() } else { words.join(",") }
}

#[cfg(test)]
mod tests {
    use aileron_admission::pools::limits::Account;
    use aileron_machinery::ActionKey;

    use super::*;

    #[test]
    fn pools_show_holders_and_waiting_actions_even_if_they_are_no_longer_configured() {
        let config = PoolConfig { quota: 2, task_types: vec!["spark".into()], ..PoolConfig::default() };
        let token = |pool: &str, name: &str| {
            let account = Account { project: "p".into(), domain: "d".into() };
            (pool.to_owned(), Token { holder: ActionKey::new("ns", name), account, version: 1 })
        };
        let tokens = vec![token("licences", "a"), token("old", "b")];
        let pools = gather(&[("licences".into(), config)].into(), &tokens, &[("licences".into(), "ns/c".into())]);
        let table = as_table(&pools, true);
        let rows: Vec<Vec<&str>> = table.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(
            rows,
            [["licences", "2", "1", "1", "-", "-", "spark", "ns/a"], ["old", "-", "1", "0", "-", "-", "-", "ns/b"],]
        );
        let json = as_json(&pools);
        assert_eq!(json["pools"][0]["waiting"], json!(["ns/c"]));
        assert_eq!(json["pools"][0]["holders"][0]["project"], "p");
        assert_eq!(json["pools"][0]["config"]["quota"], 2);
    }
}
