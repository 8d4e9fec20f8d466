//! Which plugin takes a task, by the rules of an installation.

use std::time::Duration;

use aileron_executor::reconcile::PLUGIN_CHOSEN;
use aileron_parity::suite::{Executor, Server, Shown, Task, duration_inputs};
use anyhow::{Result, ensure};
use serde_json::json;

use crate::operators::kinds::Kind;

aileron_parity::on_both!(rules_say_which_plugin_takes_a_task_and_why_none_does);

async fn rules_say_which_plugin_takes_a_task_and_why_none_does(on: Server) -> Result<()> {
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
        let conditions = action.shown().conditions;
        ensure!(conditions.iter().any(|condition| condition.message.contains(why)), "{conditions:?}");
    }
    assert_eq!(space.until_ended("usual").await?.outcome().unwrap().0, "Succeeded");

    // The same type in another project is another plugin's, one that needs no pod.
    let elsewhere = Task::sleep("elsewhere").task_type("container");
    space.write_inputs(&elsewhere, &duration_inputs(Duration::from_millis(200)))?;
    let mut object = space.object(&elsewhere);
    object.spec.project = "quiet".to_owned();
    space.create(&object).await?;
    let action = space.until_ended("elsewhere").await?;
    assert_eq!(action.outcome().unwrap().0, "Succeeded", "{}", action.summary());
    let conditions = action.shown().conditions;
    let chosen = conditions.iter().find(|condition| condition.type_ == PLUGIN_CHOSEN).unwrap();
    assert_eq!(chosen.reason, "Override");
    let words = "plugin \"core-sleep\" takes task type \"container\": tasks.task-plugins.overrides[1] names it";
    ensure!(chosen.message.starts_with(words), "{}", chosen.message);
    assert_eq!(space.pod_names().await?, ["usual-0"]);
    executor.stop().await
}
