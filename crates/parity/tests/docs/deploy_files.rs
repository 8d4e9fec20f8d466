//! Files that are made from the list of permissions: the roles of `deploy/`, and the table of `docs/running.md`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;

use aileron_executor::cluster::permissions::{Feature, Rule, Scope, features, plugin_features};
use aileron_machinery::{PluginSet, ResourceKind};

use super::architecture_page::with_part;
use super::{is_current, read, root};

const NOTE: &str = "# Generated: UPDATE_DOCS=1 cargo test --locked -p aileron-parity --test docs\n";

/// The usual order of verbs.
const ORDER: [&str; 6] = ["get", "list", "watch", "create", "patch", "delete"];

fn plugins() -> PluginSet {
    aileron_plugins::builtin().build(&Default::default()).unwrap()
}

fn all_features() -> Vec<Feature> {
    features().into_iter().chain(plugin_features(&plugins())).collect()
}

/// The verbs that the executor needs for objects of a kind, as a YAML list.
pub fn verbs_for(kind: &ResourceKind) -> String {
    let features = all_features();
    let is_of_kind = |rule: &&Rule| rule.group == kind.group && rule.resource == kind.plural && rule.object.is_none();
    let verbs: BTreeSet<_> =
        features.iter().flat_map(|one| &one.rules).filter(is_of_kind).flat_map(|rule| rule.verbs).collect();
    let mut verbs: Vec<_> = verbs.into_iter().copied().collect();
    verbs.sort_by_key(|verb| ORDER.iter().position(|other| other == verb));
    format!("[{}]", verbs.join(", "))
}

/// The rules of a feature for one scope, as items of a YAML list.
fn rules(feature: &Feature, scope: Scope, indent: &str) -> String {
    let mut text = String::new();
    for rule in feature.rules.iter().filter(|rule| rule.scope == scope) {
        let group = if rule.group.is_empty() { "\"\"" } else { &rule.group };
        let _ = writeln!(text, "{indent}# {}", rule.why);
        let _ = writeln!(text, "{indent}- apiGroups: [{group}]");
        let _ = writeln!(text, "{indent}  resources: [{}]", rule.resource);
        if let Some(object) = &rule.object {
            let _ = writeln!(text, "{indent}  resourceNames: [{object}]");
        }
        let _ = writeln!(text, "{indent}  verbs: [{}]", rule.verbs.join(", "));
    }
    text
}

/// The permissions of all features, for the templates of the chart.
fn chart_file() -> String {
    let mut text = format!("{NOTE}# The plugins that need no permissions.\n");
    let core = plugins().core().iter().map(|plugin| plugin.entry().id.to_string()).collect::<Vec<_>>();
    let _ = writeln!(text, "always: [{}]\nfeatures:", core.join(", "));
    for feature in all_features() {
        let _ = writeln!(text, "  {}:", feature.name);
        if !feature.plugins.is_empty() {
            let _ = writeln!(text, "    ids: [{}]", feature.plugins.join(", "));
        }
        for (scope, key) in [(Scope::Cluster, "cluster"), (Scope::Tasks, "tasks"), (Scope::Own, "own")] {
            let rules = rules(&feature, scope, "      ");
            if !rules.is_empty() {
                let _ = write!(text, "    {key}:\n{rules}");
            }
        }
    }
    text
}

/// The roles of a feature and their bindings, for all namespaces.
fn kustomize_file(feature: &Feature) -> String {
    let mut objects = Vec::new();
    for (scope, name) in [
        (Scope::Cluster, format!("aileron-{}", feature.name)),
        (Scope::Tasks, format!("aileron-{}-tasks", feature.name)),
        (Scope::Own, format!("aileron-{}", feature.name)),
    ] {
        let rules = rules(feature, scope, "  ");
        if rules.is_empty() {
            continue;
        }
        let (kind, namespace) =
            if scope == Scope::Own { ("Role", "\n  namespace: flyte") } else { ("ClusterRole", "") };
        let head = |kind: &str| {
            format!("apiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}\nmetadata:\n  name: {name}{namespace}\n")
        };
        objects.push(format!("{}rules:\n{rules}", head(kind)));
        let subject = "subjects:\n  - kind: ServiceAccount\n    name: aileron\n    namespace: flyte\n";
        let role = format!("roleRef:\n  apiGroup: rbac.authorization.k8s.io\n  kind: {kind}\n  name: {name}\n");
        objects.push(format!("{}{role}{subject}", head(&format!("{kind}Binding"))));
    }
    format!("{NOTE}{}", objects.join("---\n"))
}

fn kustomization(feature: &Feature) -> String {
    format!(
        "{NOTE}# {}.\napiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n  - roles.yaml\n",
        feature.when
    )
}

/// One row for each rule.
fn table() -> String {
    let mut text =
        "| feature | in use | resource | verbs | where | for |\n| --- | --- | --- | --- | --- | --- |\n".to_owned();
    for feature in all_features() {
        let mut first = true;
        for rule in &feature.rules {
            let (name, when) =
                if first { (format!("`{}`", feature.name), feature.when.as_ref()) } else { Default::default() };
            first = false;
            let _ = writeln!(
                text,
                "| {name} | {when} | {} | {} | {} | {} |",
                resource(rule),
                rule.verbs.join(", "),
                place(rule.scope),
                rule.why
            );
        }
    }
    let optional: Vec<_> = features().into_iter().filter(|feature| !feature.without.is_empty()).collect();
    text.push_str("\nThe executor also works without these:\n\n");
    for feature in optional {
        let _ = writeln!(text, "- `{}`: {}.", feature.name, feature.without);
    }
    format!("\n{text}\n")
}

fn resource(rule: &Rule) -> String {
    let group = if rule.group.is_empty() { String::new() } else { format!(" (`{}`)", rule.group) };
    let object = rule.object.as_ref().map(|object| format!(", only `{object}`")).unwrap_or_default();
    format!("`{}`{group}{object}", rule.resource)
}

fn place(scope: Scope) -> &'static str {
    match scope {
        Scope::Cluster => "all namespaces",
        Scope::Tasks => "namespaces of tasks",
        Scope::Own => "its own namespace",
    }
}

#[test]
fn the_permissions_of_the_chart_are_current() {
    is_current("deploy/helm/aileron/files/permissions.yaml", &chart_file());
}

#[test]
fn the_permissions_of_the_kustomization_are_current() {
    let folder = "deploy/kustomize/permissions";
    for feature in all_features() {
        let folder = format!("{folder}/{}", feature.name);
        fs::create_dir_all(root().join(&folder)).unwrap();
        is_current(&format!("{folder}/roles.yaml"), &kustomize_file(&feature));
        is_current(&format!("{folder}/kustomization.yaml"), &kustomization(&feature));
    }
    let names = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let present: BTreeSet<_> = fs::read_dir(root().join(folder)).unwrap().map(names).collect();
    let expected: BTreeSet<_> = all_features().iter().map(|feature| feature.name.to_string()).collect();
    assert_eq!(present, expected, "{folder} has folders of other features");
}

#[test]
fn the_definition_for_installations_without_flyte_is_current() {
    let mut definition = serde_json::to_value(aileron_action::crd::crd().unwrap()).unwrap();
    // Helm would delete the definition with the release, and all actions with it.
    definition["metadata"]["annotations"]["helm.sh/resource-policy"] = "keep".into();
    let text = format!("{NOTE}{}", serde_saphyr::to_string(&definition).unwrap());
    is_current("deploy/helm/aileron/files/taskactions.yaml", &text);
    is_current("deploy/kustomize/crd/taskactions.yaml", &text);
}

#[test]
fn the_table_of_permissions_is_current() {
    is_current("docs/running.md", &with_part(&read("docs/running.md"), "permissions", &table()));
}
