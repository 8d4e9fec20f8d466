//! Which plugin takes a task, by the rules of an installation.

use aileron_parity::suite::{Executor, Server, Shown, Task};
use anyhow::{Result, ensure};
use serde_json::json;

use crate::operators::kinds::Kind;

aileron_parity::on_both!(rules_say_which_plugin_takes_a_task_and_why_none_does);

async fn rules_say_which_plugin_takes_a_task_and_why_none_does(on: Server) -> Result<()> {
    let bench = on.bench().await?;
    let space = bench.space("ruled").await?;
    let rules = json!({
        "unknown-task-types": "fail",
        "overrides": [{"project": "flytesnacks", "domain": "development", "missing": "fail",
            "task-types": {"pytorch": "my-torch"}}],
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
    executor.stop().await
}
