//! Operators that are installed late, or removed, while tasks need them.

use std::time::{Duration, Instant};

use aileron_action::TaskAction;
use aileron_parity::cluster::Front;
use aileron_parity::suite::{Executor, LOOK_EVERY, PATIENCE, Server, Shown, Space};
use aileron_sandbox::install_definitions;
use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::json;

use crate::operators::kinds::Kind;

aileron_parity::on_both!(a_task_waits_for_its_kind_whenever_it_is_missing);

/// Longer than any watch needs, far shorter than any look that is not caused by a change.
const AT_ONCE: Duration = Duration::from_secs(5);

/// A watch that was cut is opened again at once, also on a busy machine.
const REOPENED_WITHIN: Duration = Duration::from_secs(2);

const DEFINITION: &str = "pytorchjobs.kubeflow.org";

fn lacks_its_kind(action: &TaskAction) -> bool {
    action.pending().is_some_and(|(code, _)| code == "MissingKind")
}

/// One bench for all of it: definitions are for all namespaces.
async fn a_task_waits_for_its_kind_whenever_it_is_missing(on: Server) -> Result<()> {
    let bench = on.bench().await?;
    let space = bench.space("kindless").await?;
    let kind = Kind::of("pytorch");
    let front = Front::start(&bench.cluster).await?;
    let executor = Executor::start_with(front.client()?, &bench.settings(), std::convert::identity).await?;
    assert_eq!(watched(&front).await?, [false, false]);
    it_goes_on_as_the_kind_appears(&space, kind).await?;
    events_of_its_object_are_told(&space).await?;
    assert_eq!(watched(&front).await?, [true, true]);
    it_waits_again_when_the_kind_goes(&space, kind, &front).await?;
    executor.stop().await?;
    it_fails_when_the_kind_does_not_come_in_time(&space, kind).await
}

/// Whether the kind is watched, and whether events about it are: every watch that is open is cut, and whoever follows it
/// opens it again.
async fn watched(front: &Front) -> Result<[bool; 2]> {
    let opened = |since: usize| {
        let watches = front.passed().into_iter().skip(since).filter(|passed| passed.record.verb == "watch");
        watches.map(|passed| passed.record).collect::<Vec<_>>()
    };
    let since = front.passed().len();
    front.drop_watches();
    let begin = Instant::now();
    // All are cut at the same moment, so when these are back the others had their time; and some more.
    while !["pods", "taskactions"].iter().all(|name| opened(since).iter().any(|watch| watch.resource == *name)) {
        ensure!(begin.elapsed() < PATIENCE, "no watch is opened again");
        tokio::time::sleep(LOOK_EVERY).await;
    }
    tokio::time::sleep(REOPENED_WITHIN).await;
    let opened = opened(since);
    let of_kind = opened.iter().any(|watch| watch.resource == "pytorchjobs");
    let of_events = opened.iter().any(|watch| watch.resource == "events" && watch.uri.contains("PyTorchJob"));
    Ok([of_kind, of_events])
}

async fn it_goes_on_as_the_kind_appears(space: &Space<'_>, kind: Kind) -> Result<()> {
    space.submit(&kind.task("early")).await?;
    let action = space.until("early", "waiting for its kind", lacks_its_kind).await?;
    let (_, words) = action.pending().unwrap();
    ensure!(words.starts_with("the cluster does not serve PyTorchJob (kubeflow.org/v1); install"), "{words}");
    let status = action.shown();
    assert_eq!((status.plugin_phase.as_str(), status.system_failures), ("PhaseWaitingForResources", 0));
    let progress = &status.conditions[0];
    assert_eq!(
        (progress.type_.as_str(), progress.reason.as_str(), &progress.message),
        ("Progressing", "Queued", &words)
    );

    // Another one is deleted while it waits: nothing keeps it.
    space.submit(&kind.task("given-up")).await?;
    space.until("given-up", "waiting for its kind", lacks_its_kind).await?;
    space.delete("given-up").await?;
    space.until_gone("given-up").await?;

    install_definitions(&space.admin, &[kind.rules()]).await?;
    let begin = Instant::now();
    kind.objects(space).until("early-0").await?;
    ensure!(begin.elapsed() < AT_ONCE, "{:?}", begin.elapsed());
    Ok(())
}

/// The operator cannot make its pods, and says so.
async fn events_of_its_object_are_told(space: &Space<'_>) -> Result<()> {
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
        let told = space.recorded("early").into_iter().flat_map(|recorded| recorded.event.cluster_events);
        if told.into_iter().any(|event| event.message == refused) {
            return Ok(());
        }
        ensure!(begin.elapsed() < PATIENCE, "the event was not recorded\n{}", space.dump("early").await);
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// With the kind the job goes; nobody is charged for it.
async fn it_waits_again_when_the_kind_goes(space: &Space<'_>, kind: Kind, front: &Front) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(space.admin.clone());
    let first = kind.objects(space).until("early-0").await?;
    definitions.delete(DEFINITION, &DeleteParams::default()).await?;
    let action = space.until("early", "waiting again", lacks_its_kind).await?;
    let status = action.shown();
    assert_eq!((status.observed_attempt(), status.system_failures), (1, 0), "{}", space.dump("early").await);
    let begin = Instant::now();
    while definitions.get_opt(DEFINITION).await?.is_some() {
        ensure!(begin.elapsed() < PATIENCE, "the definition stays");
        tokio::time::sleep(LOOK_EVERY).await;
    }
    let since = front.passed().len();
    assert_eq!(watched(front).await?, [false, false]);
    // A watch that was only cut off by the server would have tried again by now, and been told that there is no such kind.
    let asked: Vec<_> = front.passed().into_iter().skip(since).map(|passed| passed.record).collect();
    ensure!(asked.iter().all(|asked| asked.resource != "pytorchjobs"), "{asked:?}");
    install_definitions(&space.admin, &[kind.rules()]).await?;
    let second = kind.objects(space).until("early-0").await?;
    assert_ne!(first.metadata.uid, second.metadata.uid);
    kind.objects(space).report("early-0", &kind.done()).await?;
    let action = space.until_ended("early").await?;
    assert_eq!((action.outcome().unwrap().0.as_str(), action.shown().attempts), ("Succeeded", 1));
    Ok(())
}

async fn it_fails_when_the_kind_does_not_come_in_time(space: &Space<'_>, kind: Kind) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(space.admin.clone());
    definitions.delete(DEFINITION, &DeleteParams::default()).await?;
    let settings = space.bench.settings().with(&["executor", "missingKindTimeout"], "2s");
    let executor = Executor::start(&space.bench.cluster, &settings).await?;
    space.submit(&kind.task("late")).await?;
    let action = space.until_ended("late").await?;
    assert_eq!((action.outcome().unwrap().0.as_str(), action.error_code().as_str()), ("Failed", "KindNotServed"));
    assert_eq!(action.pending(), None);
    let words = action.shown().error_state.map(|error| error.message).unwrap_or_default();
    ensure!(words.starts_with("the cluster does not serve PyTorchJob"), "{words}");
    executor.stop().await
}
