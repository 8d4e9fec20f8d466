//! Operators that are installed late, or removed, while tasks need them.

use std::time::{Duration, Instant};

use aileron_action::TaskAction;
use aileron_parity::cluster::Proxy;
use aileron_parity::suite::{Executor, POLL_INTERVAL, Server, Space, StatusView, WAIT_TIMEOUT};
use aileron_sandbox::install_definitions;
use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::json;

use crate::operators::kinds::Kind;

aileron_parity::on_both!(a_task_waits_for_its_kind_whenever_it_is_missing);

/// How long a watch that must not be open again is waited for.
const REOPEN_TIMEOUT: Duration = Duration::from_secs(2);

const DEFINITION: &str = "pytorchjobs.kubeflow.org";

fn waits_for_kind(action: &TaskAction) -> bool {
    action.pending().is_some_and(|(code, _)| code == "MissingKind")
}

/// One bench for all steps, because definitions apply to all namespaces.
async fn a_task_waits_for_its_kind_whenever_it_is_missing(on: Server) -> Result<()> {
    let bench = on.bench().await?;
    let space = bench.space("kindless").await?;
    let kind = Kind::of("pytorch");
    let proxy = Proxy::start(&bench.cluster).await?;
    let executor = Executor::start_with(proxy.client()?, &bench.settings(), std::convert::identity).await?;
    ensure_watched(&proxy, false).await?;
    task_continues_when_the_kind_appears(&space, kind).await?;
    events_of_the_object_are_reported(&space).await?;
    ensure_watched(&proxy, true).await?;
    task_waits_again_when_the_kind_is_removed(&space, kind, &proxy).await?;
    executor.stop().await?;
    task_fails_when_the_kind_is_missing_too_long(&space, kind).await
}

/// Checks whether the executor watches the kind, and events about it. Ends all open watches, and the executor opens them
/// again.
async fn ensure_watched(proxy: &Proxy, expected: bool) -> Result<()> {
    let since = proxy.requests().len();
    let is_open = |resource: &str, part: &str| {
        let requests = proxy.requests().into_iter().skip(since).map(|request| request.record);
        requests.into_iter().any(|it| it.verb == "watch" && it.resource == resource && it.uri.contains(part))
    };
    proxy.drop_watches();
    let of_kind = || [is_open("pytorchjobs", ""), is_open("events", "PyTorchJob")];
    let begin = Instant::now();
    // All watches end at the same moment, so when these two are open again, the others are open soon after.
    while !is_open("pods", "") || !is_open("taskactions", "") || (expected && of_kind() != [true, true]) {
        ensure!(begin.elapsed() < WAIT_TIMEOUT, "watches are not opened again: {:?}", of_kind());
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    if !expected {
        tokio::time::sleep(REOPEN_TIMEOUT).await;
        ensure!(of_kind() == [false, false], "watches of a kind that is not served: {:?}", of_kind());
    }
    Ok(())
}

async fn task_continues_when_the_kind_appears(space: &Space<'_>, kind: Kind) -> Result<()> {
    space.submit(&kind.task("early")).await?;
    let action = space.until("early", "waiting for its kind", waits_for_kind).await?;
    let (_, message) = action.pending().unwrap();
    ensure!(message.starts_with("the cluster does not serve PyTorchJob (kubeflow.org/v1); install"), "{message}");
    let status = action.status_or_default();
    assert_eq!((status.plugin_phase.as_str(), status.system_failures), ("PhaseWaitingForResources", 0));
    let progress = &status.conditions[0];
    assert_eq!(
        (progress.type_.as_str(), progress.reason.as_str(), &progress.message),
        ("Progressing", "Queued", &message)
    );

    // A waiting action can be deleted.
    space.submit(&kind.task("given-up")).await?;
    space.until("given-up", "waiting for its kind", waits_for_kind).await?;
    space.delete("given-up").await?;
    space.until_gone("given-up").await?;

    install_definitions(&space.admin, &[kind.rules()]).await?;
    kind.objects(space).until("early-0").await?;
    Ok(())
}

/// The operator records an event that it cannot create its pods.
async fn events_of_the_object_are_reported(space: &Space<'_>) -> Result<()> {
    let refused = "Error creating: Internal error occurred: failed calling webhook \"pods.example.com\"";
    let event: Event = serde_json::from_value(json!({
        "metadata": {"name": "early-0.1", "namespace": space.namespace}, "reason": "FailedCreatePod",
        "type": "Warning", "message": refused, "source": {"component": "training-operator"},
        "involvedObject": {
            "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "namespace": space.namespace, "name": "early-0",
        },
    }))?;
    Api::<Event>::namespaced(space.admin.clone(), &space.namespace).create(&PostParams::default(), &event).await?;
    let refused_by_webhook = |action: &TaskAction| action.pending() == Some(("Webhook".into(), refused.into()));
    space.until("early", "refused by a webhook", refused_by_webhook).await?;
    let begin = Instant::now();
    loop {
        let events = space.recorded("early").into_iter().flat_map(|recorded| recorded.event.cluster_events);
        if events.into_iter().any(|event| event.message == refused) {
            return Ok(());
        }
        ensure!(begin.elapsed() < WAIT_TIMEOUT, "the event was not recorded\n{}", space.dump("early").await);
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// The job is removed with its kind. This uses no attempt and is not a system failure.
async fn task_waits_again_when_the_kind_is_removed(space: &Space<'_>, kind: Kind, proxy: &Proxy) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(space.admin.clone());
    let first = kind.objects(space).until("early-0").await?;
    definitions.delete(DEFINITION, &DeleteParams::default()).await?;
    let action = space.until("early", "waiting again", waits_for_kind).await?;
    let status = action.status_or_default();
    assert_eq!((status.observed_attempt(), status.system_failures), (1, 0), "{}", space.dump("early").await);
    let begin = Instant::now();
    while definitions.get_opt(DEFINITION).await?.is_some() {
        ensure!(begin.elapsed() < WAIT_TIMEOUT, "the definition was not deleted");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    let since = proxy.requests().len();
    ensure_watched(proxy, false).await?;
    // If the executor still watched the kind, it would have sent a request by now and got 404.
    let requests: Vec<_> = proxy.requests().into_iter().skip(since).map(|request| request.record).collect();
    ensure!(requests.iter().all(|request| request.resource != "pytorchjobs"), "{requests:?}");
    install_definitions(&space.admin, &[kind.rules()]).await?;
    let second = kind.objects(space).until("early-0").await?;
    assert_ne!(first.metadata.uid, second.metadata.uid);
    kind.objects(space).report("early-0", &kind.done()).await?;
    let action = space.until_ended("early").await?;
    assert_eq!((action.outcome().unwrap().0.as_str(), action.status_or_default().attempts), ("Succeeded", 1));
    Ok(())
}

async fn task_fails_when_the_kind_is_missing_too_long(space: &Space<'_>, kind: Kind) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(space.admin.clone());
    definitions.delete(DEFINITION, &DeleteParams::default()).await?;
    let settings = space.bench.settings().with(&["executor", "missingKindTimeout"], "2s");
    let executor = Executor::start(&space.bench.cluster, &settings).await?;
    space.submit(&kind.task("late")).await?;
    let action = space.until_ended("late").await?;
    assert_eq!((action.outcome().unwrap().0.as_str(), action.error_code().as_str()), ("Failed", "KindNotServed"));
    assert_eq!(action.pending(), None);
    let message = action.status_or_default().error_state.map(|error| error.message).unwrap_or_default();
    ensure!(message.starts_with("the cluster does not serve PyTorchJob"), "{message}");
    executor.stop().await
}
