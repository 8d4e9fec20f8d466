//! Selection of the plugin for a task by the configured rules.

use std::time::Duration;

use aileron_executor::reconcile::PLUGIN_CHOSEN;
use aileron_parity::suite::{Executor, Server, StatusView, Task, duration_inputs};
use anyhow::{Result, ensure};
use serde_json::json;

use crate::operators::kinds::Kind;

aileron_parity::on_both!(rules_select_the_plugin_of_a_task);

async fn rules_select_the_plugin_of_a_task(on: Server) -> Result<()> {
    let bench = on.bench().await?;
    let space = bench.space("ruled").await?;
    let rules = json!({
        "unknown-task-types": "fail",
        "overrides": [
            {"project": "flytesnacks", "domain": "development", "missing": "fail",
                "task-types": {"pytorch": "my-torch"}},
            {"project": "quiet", "task-types": {"container": "core-sleep"}},
        ],
    });
    let settings = bench.settings().with(&["tasks", "task-plugins"], rules);
    let executor = Executor::start(&bench.cluster, &settings).await?;
    space.submit(&Task::container("unheard").task_type("shell")).await?;
    space.submit(&Kind::of("pytorch").task("ruled")).await?;
    space.submit(&Task::container("usual")).await?;
    for (name, why) in [
        ("unheard", "unknown-task-types keeps it from the default plugin \"pod\""),
        ("ruled", "tasks.task-plugins.overrides[0] wants plugin \"my-torch\""),
    ] {
        let action = space.until_ended(name).await?;
        assert_eq!(action.outcome().unwrap(), ("Failed".into(), "PluginNotFound".into()), "{}", action.summary());
        let conditions = action.status_or_default().conditions;
        ensure!(conditions.iter().any(|condition| condition.message.contains(why)), "{conditions:?}");
    }
    assert_eq!(space.until_ended("usual").await?.outcome().unwrap().0, "Succeeded");

    // In another project, a rule gives the same type to a plugin that needs no pod.
    let elsewhere = Task::sleep("elsewhere").task_type("container");
    space.write_inputs(&elsewhere, &duration_inputs(Duration::from_millis(200)))?;
    let mut object = space.object(&elsewhere);
    object.spec.project = "quiet".to_owned();
    space.create(&object).await?;
    let action = space.until_ended("elsewhere").await?;
    assert_eq!(action.outcome().unwrap().0, "Succeeded", "{}", action.summary());
    let conditions = action.status_or_default().conditions;
    let chosen = conditions.iter().find(|condition| condition.type_ == PLUGIN_CHOSEN).unwrap();
    assert_eq!(chosen.reason, "Override");
    let expected = "plugin \"core-sleep\" takes task type \"container\": tasks.task-plugins.overrides[1] names it";
    ensure!(chosen.message.starts_with(expected), "{}", chosen.message);
    assert_eq!(space.pod_names().await?, ["usual-0"]);
    executor.stop().await
}
