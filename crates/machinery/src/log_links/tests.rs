#![allow(clippy::unwrap_used)]
use aileron_idl::flyteidl2::core::TaskMetadata;
use jiff::Timestamp;
use proptest::prelude::*;

use super::*;
use crate::config::AzureLogTemplate;

fn rendered(template: &str, input: &LinkInput<'_>) -> String {
    input.variables().render(template)
}

fn template(uris: &[&str]) -> LogTemplate {
    LogTemplate {
        display_name: "D".into(),
        template_uris: uris.iter().map(ToString::to_string).collect(),
        ..LogTemplate::default()
    }
}

#[test]
fn every_spelling_of_a_variable_is_found_and_the_value_is_taken_literally() {
    let input = LinkInput { pod_name: "a$1b${x}", namespace: "n", ..LinkInput::default() };
    assert_eq!(rendered("{{.podName}}|{{ $PODNAME }}|{{.namespace}}", &input), "a$1b${x}|a$1b${x}|n");
}

#[test]
fn what_is_unknown_or_empty_stays_in_the_text() {
    let input = LinkInput { pod_name: "p", ..LinkInput::default() };
    assert_eq!(rendered("{{.hostname}}/{{.nope}}/{{.podName}}", &input), "{{.hostname}}/{{.nope}}/p");
    assert_eq!(rendered("{{.taskID}}{{.generatedName}}", &input), "{{.taskID}}{{.generatedName}}");
}

#[test]
fn a_value_may_bring_in_variables_that_follow_it() {
    let input = LinkInput { log_name: "{{.podName}}", pod_name: "p{{.logName}}", ..LinkInput::default() };
    assert_eq!(rendered("{{.logName}}", &input), "p{{.logName}}");
}

#[test]
fn variables_of_a_plugin_win_over_those_of_the_pod() {
    let extra = [TemplateVar { name: "podName", value: "head".into() }, TemplateVar { name: "x", value: "".into() }];
    let input = LinkInput { pod_name: "p", extra: &extra, ..LinkInput::default() };
    assert_eq!(rendered("{{.podName}} {{.x}}", &input), "head {{.x}}");
}

#[test]
fn times_are_shown_in_both_forms() {
    let start = Timestamp::from_millisecond(1_257_894_000_900).unwrap();
    let input = LinkInput { pod_start: Some(start.into()), ..LinkInput::default() };
    let text = "{{.podRFC3339StartTime}} {{.podUnixStartTime}} {{.podUnixFinishTime}}";
    assert_eq!(rendered(text, &input), "2009-11-10T23:00:00Z 1257894000 0");
}

#[test]
fn sources_come_in_a_fixed_order() {
    let config = LogConfig {
        cloudwatch_enabled: true,
        stackdriver_enabled: true,
        templates: vec![template(&["t"])],
        azure_log_templates: vec![AzureLogTemplate { template: template(&["az"]), query_format: Some("q".into()) }],
        dynamic_log_links: [("ide".to_owned(), template(&["dyn/{{.taskConfig.port}}"]))].into(),
        ..LogConfig::kubernetes()
    };
    let own = TaskLog { name: "Own {{.podName}}".into(), uri: "own".into(), ..TaskLog::default() };
    let task = TaskTemplate {
        metadata: Some(TaskMetadata { log_links: vec![own], ..TaskMetadata::default() }),
        config: [("link_type", "x,ide"), ("port", "9")].map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
        ..TaskTemplate::default()
    };
    let input = LinkInput { pod_name: "p", log_name: "!", template: Some(&task), ..LinkInput::default() };
    let links = LogLinks::new(&config, Some(&task)).links(&input);
    let names: Vec<_> = links.iter().map(|link| link.name.as_str()).collect();
    assert_eq!(names, ["Own p!", "Kubernetes Logs!", "Cloudwatch Logs!", "Google Cloud Logs!", "D!", "D!", "D!"]);
    assert_eq!(links[0].link_type(), LinkType::Dashboard);
    assert!(links[4].uri.starts_with("azH4sI") && !links[4].ready);
    assert_eq!((links[5].uri.as_str(), links[6].uri.as_str()), ("t", "dyn/9"));
}

#[test]
fn an_editor_link_appears_when_the_container_or_the_task_asks_for_it() {
    let editor = LogTemplate {
        name: "vscode".into(),
        dynamic_template_uris: vec!["https://{{.podName}}/{{.taskConfig.port}}".into()],
        ..LogTemplate::default()
    };
    let asked = LinkInput { pod_name: "p", vscode: true, ..LinkInput::default() };
    let links = template_links(&editor, &asked);
    assert_eq!(links[0].uri, "https://p/{{.taskConfig.port}}");
    assert_eq!(links[0].link_type(), LinkType::Ide);
    assert!(template_links(&editor, &LinkInput { vscode: false, ..asked }).is_empty());
}

proptest! {
    /// The quick way and the exact way agree, whatever stands in the template and in the values.
    #[test]
    fn rendering_in_one_pass_and_one_by_one_agree(
        pieces in prop::collection::vec(
            prop::sample::select(vec!["{{", "}}", "{", ".", "$", " ", "podName", "LOGNAME", "namespace", "x", "\n", "é",
                "{{.podName}}", "{{ $logName }}", "{{.namespace}}", "{{.taskConfig.a}}"]),
            0..12,
        ),
        pod_name in "[a-z{}.]{0,4}",
        log_name in prop::sample::select(vec!["", "l", "{{.podName}}", "}}"]),
    ) {
        let template = pieces.concat();
        let input = LinkInput { pod_name: &pod_name, log_name, namespace: "n", ..LinkInput::default() };
        let exact = [("logName", log_name), ("podName", &pod_name), ("namespace", "n"), ("podUnixStartTime", "0")]
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .fold(template.clone(), |text, (name, value)| {
                let pattern = format!(r"(?i)\{{\{{[\t\n\x0C\r ]*[.$]{name}[\t\n\x0C\r ]*\}}\}}");
                let pattern = regex::Regex::new(&pattern).unwrap();
                pattern.replace_all(&text, regex::NoExpand(value)).into_owned()
            });
        prop_assert_eq!(rendered(&template, &input), exact);
    }
}
