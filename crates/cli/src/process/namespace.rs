//! The namespace of the executor and other facts about its pod, from the environment.

/// The namespace of the executor, unless `POD_NAMESPACE` names another.
const NAMESPACE: &str = "flyte";

/// The namespace of the executor itself, with its lease and the default pod templates.
pub fn executor_namespace() -> String {
    variable("POD_NAMESPACE").unwrap_or_else(|| NAMESPACE.to_owned())
}

/// An environment variable that is set and not empty.
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
