//! Sections and plugins of Flyte that this executor does not have.
//!
//! The services of Flyte may share their configuration files, as they do in the flyte-binary chart, and upstream's loader
//! ignores what no service reads. So a section that is listed here is ignored. A section that nobody knows is probably a
//! spelling mistake and is reported.

/// A name, and what it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// The name of the section or plugin.
    pub name: &'static str,
    /// What it belongs to, for messages and pages.
    pub owner: &'static str,
}

const fn foreign(name: &'static str, owner: &'static str) -> Foreign {
    Foreign { name, owner }
}

/// What all names of Flyte 1 belong to. The files of an installation that came from Flyte 1 may still have them.
const FLYTE_1: &str = "Flyte 1";

/// Top-level sections of other services.
pub const SECTIONS: &[Foreign] = &[
    foreign("actions", "the actions service"),
    foreign("apps", "the app service"),
    foreign("cache_service", "the cache service"),
    foreign("database", "the database client of the services"),
    foreign("dataproxy", "the data proxy"),
    foreign("events", "the events service"),
    foreign("internalApps", "the app service"),
    foreign("prof", "the profiler of the services"),
    foreign("runs", "the runs service"),
    foreign("secret", "the secret service"),
    foreign("admin", FLYTE_1),
    foreign("auth", FLYTE_1),
    foreign("cacheservice", FLYTE_1),
    foreign("catalog-cache", FLYTE_1),
    foreign("cloudEvents", FLYTE_1),
    foreign("cluster_resources", FLYTE_1),
    foreign("clusterPools", FLYTE_1),
    foreign("clusters", FLYTE_1),
    foreign("datacatalog", FLYTE_1),
    foreign("domains", FLYTE_1),
    foreign("event", FLYTE_1),
    foreign("externalEvents", FLYTE_1),
    foreign("flyte", FLYTE_1),
    foreign("flyteadmin", FLYTE_1),
    foreign("namespace_mapping", FLYTE_1),
    foreign("notifications", FLYTE_1),
    foreign("propeller", FLYTE_1),
    foreign("qualityOfService", FLYTE_1),
    foreign("queues", FLYTE_1),
    foreign("registration", FLYTE_1),
    foreign("remoteData", FLYTE_1),
    foreign("scheduler", FLYTE_1),
    foreign("server", FLYTE_1),
    foreign(
        "task_resources",
        "Flyte 1; no part of Flyte 2 reads it, use `tasks.resource-limits` and `plugins.k8s.default-cpus`",
    ),
    foreign("task_type_whitelist", FLYTE_1),
];

/// Sections below `plugins` of plugins that this executor does not have.
pub const PLUGIN_SECTIONS: &[Foreign] = &[
    foreign("agent-service", FLYTE_1),
    foreign("athena", FLYTE_1),
    foreign("aws", "the plugins for AWS"),
    foreign("bigquery", FLYTE_1),
    foreign("databricks", FLYTE_1),
    foreign("echo", "a plugin of Flyte for tests"),
    foreign("k8s-array", FLYTE_1),
    foreign("presto", FLYTE_1),
    foreign("qubole", FLYTE_1),
    foreign("sagemaker", FLYTE_1),
    foreign("snowflake", FLYTE_1),
];

/// Plugins of Flyte that this executor does not have, by their id.
pub const PLUGINS: &[Foreign] = &[
    foreign("agent-service", FLYTE_1),
    foreign("athena", FLYTE_1),
    foreign("aws_array", FLYTE_1),
    foreign("bigquery", FLYTE_1),
    foreign("connector-service", "Flyte 2"),
    foreign("databricks", FLYTE_1),
    foreign("echo", "Flyte 2"),
    foreign("hive", FLYTE_1),
    foreign("k8s-array", FLYTE_1),
    foreign("presto", FLYTE_1),
    foreign("qubole-hive-executor", FLYTE_1),
    foreign("sagemaker_custom_training", FLYTE_1),
    foreign("sagemaker_hyperparameter_tuning", FLYTE_1),
    foreign("sagemaker_training", FLYTE_1),
    foreign("snowflake", FLYTE_1),
];

/// The entry with this name. The letter case does not matter.
pub fn find(list: &'static [Foreign], name: &str) -> Option<Foreign> {
    list.iter().find(|foreign| foreign.name.eq_ignore_ascii_case(name)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::keys;
    use crate::schema::shape::Shape;

    #[test]
    fn no_section_of_this_executor_is_listed() {
        let schema = keys(&[]);
        let root = Shape::of(&schema);
        let plugins = root.field("plugins").map(|field| field.shape);
        assert!(SECTIONS.iter().all(|foreign| root.field(foreign.name).is_none()));
        assert!(PLUGIN_SECTIONS.iter().all(|foreign| plugins.is_some_and(|it| it.field(foreign.name).is_none())));
    }

    #[test]
    fn names_are_found_in_any_letter_case_and_are_listed_once() {
        assert_eq!(find(SECTIONS, "INTERNALAPPS").map(|foreign| foreign.name), Some("internalApps"));
        assert_eq!(find(PLUGINS, "k8s-arrays"), None);
        for list in [SECTIONS, PLUGIN_SECTIONS, PLUGINS] {
            let mut names: Vec<_> = list.iter().map(|foreign| foreign.name.to_lowercase()).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), list.len());
        }
    }
}
