//! The permissions that the executor needs, by feature. The roles of `deploy/` and the table in `docs/running.md` are made
//! from this list.

use std::borrow::Cow;
use std::sync::Arc;

use aileron_config::Config;
use aileron_lease::LEASE_NAME;
use aileron_machinery::{ObjectPlugin, PluginSet, ResourceKind};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::rbac::v1::PolicyRule;

/// A feature of the executor, and the permissions that it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feature {
    /// Its name, such as `leader-election` or `plugin-spark`.
    pub name: Cow<'static, str>,
    /// The ids of the plugins that make objects of the kind. Empty for features of the executor itself.
    pub plugins: Vec<Arc<str>>,
    /// When the executor uses it, in Markdown.
    pub when: Cow<'static, str>,
    /// What happens if the permissions are missing, in Markdown; empty if the executor does not work without them.
    pub without: &'static str,
    /// The permissions.
    pub rules: Vec<Rule>,
}

/// The permission for some verbs on one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// In which namespaces.
    pub scope: Scope,
    /// The API group; empty for the core group.
    pub group: Cow<'static, str>,
    /// The plural name, with the subresource if there is one.
    pub resource: Cow<'static, str>,
    /// The only object that the executor uses. `None` if it uses all.
    pub object: Option<Cow<'static, str>>,
    /// The verbs, as RBAC names them.
    pub verbs: &'static [&'static str],
    /// What the executor does with them.
    pub why: &'static str,
}

/// The namespaces in which a permission is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// All of them, and objects without a namespace: one request covers the whole cluster.
    Cluster,
    /// Those with tasks. Each request names its namespace.
    Tasks,
    /// The one that the executor runs in.
    Own,
}

impl Rule {
    const fn new(
        scope: Scope,
        group: &'static str,
        resource: &'static str,
        verbs: &'static [&'static str],
        why: &'static str,
    ) -> Self {
        Self { scope, group: Cow::Borrowed(group), resource: Cow::Borrowed(resource), object: None, verbs, why }
    }

    fn only(self, object: impl Into<Cow<'static, str>>) -> Self {
        Self { object: Some(object.into()), ..self }
    }

    /// The rule in a role.
    #[must_use]
    pub fn policy_rule(&self) -> PolicyRule {
        PolicyRule {
            api_groups: Some(vec![self.group.to_string()]),
            resources: Some(vec![self.resource.to_string()]),
            resource_names: self.object.as_ref().map(|object| vec![object.to_string()]),
            verbs: self.verbs.iter().map(ToString::to_string).collect(),
            non_resource_urls: None,
        }
    }
}

impl Feature {
    /// The rules of the role for one scope. They are empty if the feature needs nothing there.
    #[must_use]
    pub fn policy_rules(&self, scope: Scope) -> Vec<PolicyRule> {
        self.rules.iter().filter(|rule| rule.scope == scope).map(Rule::policy_rule).collect()
    }
}

/// The features of every executor, whatever its plugins are.
#[must_use]
pub fn features() -> Vec<Feature> {
    let feature = |name, when, without, rules| {
        let (name, when) = (Cow::Borrowed(name), Cow::Borrowed(when));
        Feature { name, plugins: Vec::new(), when, without, rules }
    };
    vec![
        feature("core", "always", "", core_rules()),
        feature(
            "garbage-collection",
            "unless `executor.gc.interval` is 0",
            "ended actions stay, and the log has a warning for each of them",
            vec![Rule::new(
                Scope::Tasks,
                "flyte.org",
                "taskactions",
                &["delete"],
                "deletes actions that ended long ago",
            )],
        ),
        feature(
            "quotas",
            "unless `tasks.launch-gate.local-admission` is off",
            "creates are sent without a look at the quotas, and may be refused",
            vec![Rule::new(
                Scope::Cluster,
                "",
                "resourcequotas",
                &["list", "watch"],
                "compares a create with the quotas before it is sent",
            )],
        ),
        feature(
            "definitions",
            "with a plugin for another kind than Pod",
            "the executor asks the cluster once a minute which kinds it serves",
            vec![Rule::new(
                Scope::Cluster,
                "apiextensions.k8s.io",
                "customresourcedefinitions",
                &["list", "watch"],
                "notices at once that an operator is installed",
            )],
        ),
        feature(
            "pools",
            "with `tasks.pools`",
            "",
            vec![
                Rule::new(Scope::Cluster, "coordination.k8s.io", "leases", &["list", "watch"], "counts tokens"),
                Rule::new(
                    Scope::Tasks,
                    "coordination.k8s.io",
                    "leases",
                    &["create", "delete"],
                    "a token is a Lease beside the action that holds it",
                ),
            ],
        ),
        feature(
            "secure-metrics",
            "unless `executor.metricsSecure` is off",
            "the metrics server answers 500",
            vec![
                Rule::new(Scope::Cluster, "authentication.k8s.io", "tokenreviews", &["create"], "who asks for metrics"),
                Rule::new(
                    Scope::Cluster,
                    "authorization.k8s.io",
                    "subjectaccessreviews",
                    &["create"],
                    "whether that user may read them",
                ),
            ],
        ),
        feature(
            "leader-election",
            "with `executor.leaderElect`",
            "",
            vec![
                // A create cannot be limited to a name: the API server does not know the name when it checks.
                Rule::new(
                    Scope::Own,
                    "coordination.k8s.io",
                    "leases",
                    &["create"],
                    "the first leader creates the lease",
                ),
                Rule::new(
                    Scope::Own,
                    "coordination.k8s.io",
                    "leases",
                    &["get", "update"],
                    "takes and renews the lease",
                )
                .only(LEASE_NAME),
            ],
        ),
    ]
}

/// The features of plugins, one for each kind of object. It is named after the last plugin that makes objects of the kind.
#[must_use]
pub fn plugin_features(plugins: &PluginSet) -> Vec<Feature> {
    let mut found: Vec<(ResourceKind, Feature)> = Vec::new();
    for plugin in plugins.k8s() {
        let kind = plugin.kind();
        let mut feature = plugin_feature(plugin.as_ref());
        if let Some(at) = found.iter().position(|(known, _)| *known == kind) {
            feature.plugins.splice(0..0, found.remove(at).1.plugins);
        }
        found.push((kind, feature));
    }
    found.into_iter().map(|(_, feature)| feature).collect()
}

/// The features that an executor with this configuration uses. `enabled` says which plugins the configuration enables, by id.
#[must_use]
pub fn features_in_use(config: &Config, plugins: &PluginSet, enabled: impl Fn(&str) -> bool) -> Vec<Feature> {
    let other_kinds = plugins
        .k8s()
        .iter()
        .any(|plugin| enabled(plugin.entry().id.as_ref()) && plugin.kind() != ResourceKind::of::<Pod>());
    let executor = &config.executor;
    let is_used = |feature: &Feature| match feature.name.as_ref() {
        "garbage-collection" => executor.gc.interval.to_std().is_some_and(|interval| !interval.is_zero()),
        "quotas" => config.tasks.launch_gate.local_admission,
        "definitions" => other_kinds,
        "pools" => !config.tasks.pools.is_empty(),
        "secure-metrics" => executor.metrics_secure && !matches!(executor.metrics_bind_address.as_str(), "" | "0"),
        "leader-election" => executor.leader_elect,
        _ => true,
    };
    let own = features().into_iter().filter(is_used);
    let of_plugins =
        plugin_features(plugins).into_iter().filter(|feature| feature.plugins.iter().any(|id| enabled(id)));
    own.chain(of_plugins).collect()
}

fn core_rules() -> Vec<Rule> {
    vec![
        Rule::new(Scope::Cluster, "flyte.org", "taskactions", &["list", "watch"], "finds work"),
        Rule::new(
            Scope::Tasks,
            "flyte.org",
            "taskactions",
            &["get", "patch"],
            "reads one action; its own finalizer, and the labels of ended actions",
        ),
        Rule::new(Scope::Tasks, "flyte.org", "taskactions/status", &["patch"], "the status"),
        Rule::new(Scope::Cluster, "", "pods", &["list", "watch"], "follows the pods of tasks, also those of operators"),
        Rule::new(Scope::Cluster, "", "podtemplates", &["list", "watch"], "base pods of tasks"),
        Rule::new(
            Scope::Cluster,
            "events.k8s.io",
            "events",
            &["list", "watch"],
            "what Kubernetes says about the objects of tasks",
        ),
        Rule::new(Scope::Tasks, "events.k8s.io", "events", &["create", "patch"], "warnings about actions"),
    ]
}

fn plugin_feature(plugin: &dyn ObjectPlugin) -> Feature {
    let (kind, id) = (plugin.kind(), plugin.entry().id);
    let of_kind = |scope, verbs, why| Rule {
        group: kind.group.clone(),
        resource: kind.plural.clone(),
        ..Rule::new(scope, "", "", verbs, why)
    };
    let mut rules = Vec::new();
    // The executor always watches pods: see the rules of the core.
    if kind != ResourceKind::of::<Pod>() {
        rules.push(of_kind(Scope::Cluster, &["list", "watch"], "follows the objects of attempts"));
    }
    let writes = "reads one that the watch does not show; creates and stops the object of an attempt, and removes the \
                  executor's finalizer from it";
    rules.push(of_kind(Scope::Tasks, &["get", "create", "patch", "delete"], writes));
    if plugin.properties().reads_definition {
        let rule = Rule::new(
            Scope::Cluster,
            "apiextensions.k8s.io",
            "customresourcedefinitions",
            &["get"],
            "which fields the definition has",
        );
        rules.push(rule.only(kind.definition_name()));
    }
    let (name, when) = (format!("plugin-{id}").into(), format!("with the plugin `{id}`").into());
    Feature { name, plugins: vec![id], when, without: "", rules }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_every_rule_is_given_once() {
        let mut names = BTreeSet::new();
        for feature in features() {
            assert!(names.insert(feature.name.clone()), "{}", feature.name);
            let mut verbs = BTreeSet::new();
            for rule in &feature.rules {
                for verb in rule.verbs {
                    let place = (rule.scope, rule.group.clone(), rule.resource.clone(), *verb);
                    assert!(verbs.insert(place.clone()), "{}: {place:?} is given twice", feature.name);
                }
            }
        }
    }

    #[test]
    fn only_features_that_the_configuration_uses_need_permissions() {
        let names = |config: &Config| -> Vec<String> {
            let used = features_in_use(config, &PluginSet::default(), |_| true);
            used.into_iter().map(|feature| feature.name.into_owned()).collect()
        };
        let mut config = Config::default();
        config.executor.leader_elect = true;
        assert_eq!(names(&config), ["core", "garbage-collection", "quotas", "secure-metrics", "leader-election"]);
        config.executor.leader_elect = false;
        config.executor.metrics_bind_address = "0".into();
        config.tasks.launch_gate.local_admission = false;
        config.executor.gc.interval = Default::default();
        assert_eq!(names(&config), ["core"]);
    }

    #[test]
    fn a_permission_in_the_own_namespace_is_limited_to_the_lease_except_for_its_creation() {
        let features = features();
        let own: Vec<_> =
            features.iter().flat_map(|feature| &feature.rules).filter(|rule| rule.scope == Scope::Own).collect();
        assert!(own.iter().all(|rule| rule.verbs == ["create"] || rule.object.as_deref() == Some(LEASE_NAME)));
    }
}
