//! Invalid actions fail at once with a clear message and leave nothing to clean up.

use aileron_action::TaskAction;
use aileron_executor::reconcile::PLUGIN_CHOSEN;
use aileron_parity::suite::{Executor, Server, StatusView, Task};
use anyhow::Result;
use k8s_openapi::ByteString;

aileron_parity::on_both!(
    missing_fields_are_named_and_no_finalizer_is_added,
    a_template_that_cannot_be_read_fails_the_action,
    a_container_task_without_a_container_fails_with_a_reason,
    an_invalid_output_base_fails_the_action,
    the_default_plugin_serves_unknown_types,
    without_a_default_plugin_an_unknown_type_is_an_error
);

async fn missing_fields_are_named_and_no_finalizer_is_added(on: Server) -> Result<()> {
    let space = on.shared().await?.space("incomplete").await?;
    let mut object = space.object(&Task::container("empty"));
    object.spec.task_type = String::new();
    object.spec.input_uri = String::new();
    object.spec.task_template = ByteString::default();
    space.create(&object).await?;
    let action = space.until_ended("empty").await?;
    assert_eq!(action.outcome().unwrap(), ("Failed".into(), "InvalidSpec".into()));
    let message = &action.status_or_default().conditions[0].message;
    for field in ["taskType", "inputUri", "taskTemplate"] {
        assert!(message.contains(field), "{message}");
    }
    assert_eq!(action.metadata.finalizers, None);
    space.delete("empty").await?;
    space.until_gone("empty").await?;
    space.until_pods(&[]).await
}

async fn a_template_that_cannot_be_read_fails_the_action(on: Server) -> Result<()> {
    let space = on.shared().await?.space("garbage").await?;
    let mut object = space.object(&Task::container("noise"));
    object.spec.task_template = ByteString(b"\xff\xff\xff\xffnoise".to_vec());
    space.create(&object).await?;
    let action = space.until_ended("noise").await?;
    assert_eq!(action.outcome().unwrap().0, "Failed", "{}", action.summary());
    assert!(
        action.status_or_default().conditions[0].message.contains("taskTemplate"),
        "{:?}",
        action.status_or_default().conditions
    );
    space.until_pods(&[]).await
}

async fn a_container_task_without_a_container_fails_with_a_reason(on: Server) -> Result<()> {
    let space = on.shared().await?.space("no-container").await?;
    let mut task = Task::container("hollow");
    task.template.target = None;
    space.submit(&task).await?;
    let action = space.until_ended("hollow").await?;
    assert_eq!(action.outcome().unwrap().0, "Failed", "{}", action.summary());
    assert!(!action.error_code().is_empty() && !action.status_or_default().error_state.unwrap().message.is_empty());
    space.until_pods(&[]).await
}

async fn an_invalid_output_base_fails_the_action(on: Server) -> Result<()> {
    let space = on.shared().await?.space("nowhere").await?;
    let mut object = space.object(&Task::container("lost"));
    object.spec.run_output_base = "not a place".to_owned();
    space.create(&object).await?;
    let action = space.until_ended("lost").await?;
    assert_eq!(action.outcome().unwrap().0, "Failed", "{}", action.summary());
    space.delete("lost").await?;
    space.until_gone("lost").await
}

async fn the_default_plugin_serves_unknown_types(on: Server) -> Result<()> {
    let space = on.shared().await?.space("unheard").await?;
    space.submit(&Task::container("odd").task_type("unheard-of")).await?;
    let chosen = |action: &TaskAction| {
        let conditions = action.status_or_default().conditions.into_iter();
        conditions.filter(|it| it.type_ == PLUGIN_CHOSEN).map(|it| (it.reason, it.message)).next()
    };
    let begun = space.until("odd", "begun", |action| !action.status_or_default().conditions.is_empty()).await?;
    let (reason, message) = chosen(&begun).unwrap_or_default();
    assert_eq!(reason, "UnknownTaskType", "the first status must have the condition");
    assert!(message.starts_with("plugin \"pod\" takes task type \"unheard-of\": no plugin serves"), "{message}");
    let action = space.until_ended("odd").await?;
    assert_eq!(action.outcome().unwrap().0, "Succeeded", "{}", action.summary());
    assert_eq!(chosen(&action), Some((reason, message)), "the condition stays");

    // A task type that its plugin declares has no such condition.
    space.submit(&Task::container("usual")).await?;
    assert_eq!(chosen(&space.until_ended("usual").await?), None);
    Ok(())
}

async fn without_a_default_plugin_an_unknown_type_is_an_error(on: Server) -> Result<()> {
    let bench = on.bench().await?;
    let space = bench.space("no-default").await?;
    let settings = bench.settings().with(&["tasks", "task-plugins", "enabled-plugins"], vec!["core-sleep"]);
    let executor = Executor::start(&bench.cluster, &settings).await?;
    space.submit(&Task::container("odd").task_type("unheard-of")).await?;
    let action = space.until_ended("odd").await?;
    assert_eq!(action.outcome().unwrap(), ("Failed".into(), "PluginNotFound".into()));
    assert!(action.status_or_default().conditions[0].message.contains("unheard-of"));
    assert_eq!(action.metadata.finalizers, None);
    executor.stop().await
}
