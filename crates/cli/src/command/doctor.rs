//! `aileron doctor`: checks the installation.
//!
//! Each file below has one subject: `look` asks and returns plain values, `judge` turns them into findings without I/O.

mod answer;
mod api_server;
mod definition;
mod finding;
mod kinds;
mod lease;
mod permissions;
mod services;
mod storage;
mod webhooks;

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use aileron_action::plugin_choice::PluginList;
use aileron_config::Config;
use aileron_executor::cluster::permissions::{Feature, features_in_use};
use aileron_machinery::error_text::chain;
use jiff::Timestamp;
use kube::Client;
use serde_json::Value;

use self::answer::Answer;
use self::api_server::ServerFacts;
use self::finding::{Finding, Report};
use self::services::ServiceName;
use crate::arguments::{DoctorArguments, ReportFormat};
use crate::configuration;
use crate::connection::{kubeconfig, named_server};
use crate::display::output;
use crate::failure::{EXIT_FAILED, Failure};
use crate::process::namespace::executor_namespace;
use crate::process::threads::start_runtime;
use crate::program::Program;

/// What is checked.
struct Subject {
    config: Config,
    features: Vec<Feature>,
    kinds: Vec<kinds::Wanted>,
    /// The configuration names the plugins.
    plugins_chosen: bool,
    /// The definition that the executor is made for.
    definition: Value,
    namespace: String,
    task_namespaces: Vec<String>,
    program: String,
    timeout: Duration,
}

pub fn run(program: &Program, arguments: &DoctorArguments, overrides: Vec<(String, String)>) -> Result<(), Failure> {
    let (draft, _) = configuration::checked(program, &arguments.config, overrides, false);
    if draft.errors().is_empty() {
        configuration::report(&draft);
    }
    let config = configuration::finish(draft)?.config;
    let plugins = program.plugins(&config)?;
    let list = configuration::plugin_list(program, &config)?;
    let definition = aileron_action::crd::crd().map_err(anyhow::Error::from)?;
    let subject = Subject {
        features: features_in_use(&config, &plugins, |id| is_enabled(&list, id)),
        kinds: kinds::wanted(&list),
        plugins_chosen: !config.tasks.task_plugins.enabled_plugins.is_empty(),
        definition: serde_json::to_value(definition).map_err(anyhow::Error::from)?,
        namespace: arguments.namespace.clone().unwrap_or_else(executor_namespace),
        task_namespaces: arguments.task_namespaces.clone(),
        program: program.name().to_owned(),
        timeout: Duration::from_secs(arguments.timeout),
        config,
    };
    let report = start_runtime()?.block_on(check(&subject, arguments));
    match arguments.output {
        ReportFormat::Table => output::print(&report.as_text())?,
        ReportFormat::Json => output::print_json(&report.as_json())?,
    }
    if report.has_failed() { Err(Failure::AlreadyReported(EXIT_FAILED)) } else { Ok(()) }
}

fn is_enabled(list: &PluginList, id: &str) -> bool {
    list.plugins().iter().any(|plugin| plugin.enabled && plugin.entry.id.as_ref() == id)
}

/// Makes all checks. Those of the cluster and the others do not wait for each other.
async fn check(subject: &Subject, arguments: &DoctorArguments) -> Report {
    let Subject { config, timeout, .. } = subject;
    // Two runs at the same time must not delete each other's object.
    let name = format!("doctor-{:016x}", RandomState::new().hash_one(std::process::id()));
    let (events, cache) = (&config.executor.events_service_url, &config.executor.cache_service_url);
    let (mut report, stored, events_answer, cache_answer) = tokio::join!(
        check_cluster(subject, arguments),
        storage::look(config, &name, *timeout),
        services::look(ServiceName::Events, events, *timeout),
        services::look(ServiceName::Cache, cache, *timeout),
    );
    report.findings.push(storage::judge(&stored));
    report.findings.push(services::judge(ServiceName::Events, events, &events_answer));
    report.findings.push(services::judge(ServiceName::Cache, cache, &cache_answer));
    report
}

async fn check_cluster(subject: &Subject, arguments: &DoctorArguments) -> Report {
    let (client, server) = match connect(arguments).await {
        Ok(connected) => connected,
        Err(error) => {
            let remedy = "name the cluster with --kubeconfig and --context, or run in a pod with a service account";
            let failed = Finding::failed(api_server::API_SERVER, chain(error.as_ref()), remedy);
            let mut findings = vec![failed];
            findings
                .extend([api_server::IDENTITY, api_server::CLOCK].map(|check| Finding::skipped(check, "no cluster")));
            findings.extend(skipped(subject, "no cluster"));
            return Report { findings, permissions: Vec::new() };
        }
    };
    let facts = api_server::look(&client, server, subject.timeout).await;
    let mut findings = api_server::judge(&facts);
    if let Some(why) = api_server::unusable(&facts) {
        findings.extend(skipped(subject, &why));
        return Report { findings, permissions: Vec::new() };
    }
    let (more, permissions) = check_content(subject, &client, &facts).await;
    findings.extend(more);
    Report { findings, permissions }
}

/// The checks that need an API server that answers this user.
async fn check_content(subject: &Subject, client: &Client, server: &ServerFacts) -> (Vec<Finding>, Vec<Value>) {
    let Subject { features, kinds, namespace, timeout, .. } = subject;
    let questions = permissions::questions(features, namespace, &subject.task_namespaces);
    let (defined, asked, leased, hooks, served) = tokio::join!(
        definition::look(client, *timeout),
        permissions::look(client, features, questions, *timeout),
        lease::look(client, namespace, *timeout),
        webhooks::look(client, *timeout),
        kinds::look(client, kinds, *timeout),
    );
    let user = match &server.user {
        Answer::Found(user) => user.as_str(),
        _ => "the user of the executor",
    };
    let leader_elect = subject.config.executor.leader_elect;
    let mut findings = definition::judge(&defined, &subject.definition, &subject.program);
    findings.extend(permissions::judge(features, &asked, user));
    findings.push(lease::judge(&leased, namespace, leader_elect, api_server::now(server, Timestamp::now())));
    findings.extend(webhooks::judge(&hooks));
    findings.extend(kinds::judge(kinds, &served, subject.plugins_chosen));
    (findings, permissions::as_json(features, &asked))
}

/// The checks that need the API server, if it cannot be used.
fn skipped(subject: &Subject, why: &str) -> Vec<Finding> {
    let fixed = [definition::DEFINITION, definition::SCHEMA].map(str::to_owned);
    let features = subject.features.iter().map(permissions::check_name);
    let later = [lease::LEASE, webhooks::WEBHOOKS].map(str::to_owned);
    let kinds = subject.kinds.iter().map(kinds::check_name);
    fixed.into_iter().chain(features).chain(later).chain(kinds).map(|check| Finding::skipped(check, why)).collect()
}

/// A client of the cluster that `run` would use, and the address of its API server. No request is sent yet.
async fn connect(arguments: &DoctorArguments) -> anyhow::Result<(Client, String)> {
    let mut config = kubeconfig::client_config(&arguments.cluster).await?;
    if let Some(user) = &arguments.impersonate {
        config.auth_info.impersonate = Some(user.clone());
    }
    // A repeated request would hide what is wrong, and take longer than the timeout.
    config.default_retry = false;
    let server = named_server::address(&config.cluster_url);
    Ok((named_server::client(config)?, server))
}
