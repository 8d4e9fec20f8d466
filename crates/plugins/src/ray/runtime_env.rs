//! The runtime environment of a job: what Ray installs and sets before the job runs.

mod yaml;

use aileron_idl::flyteidl2::plugins::RayJob;
use aileron_machinery::PluginError;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

/// The runtime environment as a YAML document; empty if the task names none.
///
/// Older tasks give it as JSON in base64.
pub(super) fn of_job(job: &RayJob) -> Result<String, PluginError> {
    // Deprecated by its makers, yet sent by every SDK before the YAML form came up.
    #[allow(deprecated)]
    let encoded = &job.runtime_env;
    if encoded.is_empty() || !job.runtime_env_yaml.is_empty() {
        return Ok(job.runtime_env_yaml.clone());
    }
    let json = STANDARD.decode(encoded).map_err(|error| unreadable("base64", &error))?;
    let members: Option<Map<String, Value>> =
        serde_json::from_slice(&json).map_err(|error| unreadable("a JSON object", &error))?;
    Ok(yaml::document(&members.unwrap_or_default()))
}

fn unreadable(expected: &str, cause: &dyn std::error::Error) -> PluginError {
    PluginError::uncoded(format!("custom.runtime_env is not {expected} ({cause}); use custom.runtime_env_yaml instead"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, deprecated)]
    use super::*;

    fn converted(json: &str) -> String {
        of_job(&RayJob { runtime_env: STANDARD.encode(json), ..RayJob::default() }).unwrap()
    }

    #[test]
    fn the_yaml_form_wins_and_absence_is_empty() {
        let both = RayJob { runtime_env: "e30=".into(), runtime_env_yaml: "pip: []".into(), ..RayJob::default() };
        assert_eq!(of_job(&both).unwrap(), "pip: []");
        assert_eq!(of_job(&RayJob::default()).unwrap(), "");
    }

    #[test]
    fn json_becomes_yaml() {
        assert_eq!(converted("null"), "{}\n");
        assert_eq!(
            converted(r#"{"pip": ["numpy", {"a": 1, "b": []}], "n": 1e6, "env_vars": {"X": "true", "Y_1": ""}}"#),
            "env_vars:\n  X: \"true\"\n  Y_1: \"\"\n\"n\": 1e+06\npip:\n- numpy\n- a: 1\n  b: []\n"
        );
    }

    #[test]
    fn what_is_no_json_object_is_an_error_that_names_the_field() {
        for bad in ["***".to_owned(), STANDARD.encode("[1]"), STANDARD.encode("{")] {
            let error = of_job(&RayJob { runtime_env: bad, ..RayJob::default() }).unwrap_err();
            assert!(error.to_string().contains("custom.runtime_env"), "{error}");
        }
    }
}
