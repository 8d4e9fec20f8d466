//! The runtime environment of a job: what Ray installs and sets before the job runs.

use aileron_idl::flyteidl2::plugins::RayJob;
use aileron_machinery::PluginError;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use serde_saphyr::{ser_options, to_string_with_options};

/// The runtime environment as a YAML document; empty if the task names none.
///
/// Older tasks give it as JSON in base64.
///
/// # Differs from upstream
/// The document that is made from JSON is laid out differently, but a YAML reader sees the same values. Whole numbers
/// have all their digits; upstream writes a million as `1e+06`.
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
    // Each value stands on one line, so that the document reads the same however long its texts are.
    let options = ser_options! { prefer_block_scalars: false };
    to_string_with_options(&members.unwrap_or_default(), options)
        .map_err(|error| PluginError::uncoded(format!("custom.runtime_env cannot be written as YAML: {error}")))
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
    fn json_becomes_block_yaml() {
        assert_eq!(converted("null"), "{}\n");
        assert_eq!(converted(r#"{"pip": ["numpy==1.2", "pandas"]}"#), "pip:\n- numpy==1.2\n- pandas\n");
        assert_eq!(
            converted(r#"{"env_vars": {"X": "true", "Y_1": "", "n": "1"}, "nested": [{"a": 1, "b": []}, null]}"#),
            "env_vars:\n  X: \"true\"\n  Y_1: \"\"\n  \"n\": \"1\"\nnested:\n- a: 1\n  b: []\n- null\n"
        );
    }

    /// For a reader of YAML 1.1 `no` is a truth value, `1:30` a number, and `1e6` a text.
    #[test]
    fn texts_stay_texts_and_numbers_stay_numbers_for_a_reader_of_yaml_1_1() {
        for text in ["no", "y", "on", "~", "null", "1", "-1.5", "0x1F", "1e3", "1:30", "2001-02-03", ".inf", "", " x"] {
            let line = converted(&serde_json::json!({"v": text}).to_string());
            assert!(["v: \"", "v: '"].iter().any(|start| line.starts_with(start)), "{text:?} is not quoted: {line}");
        }
        assert_eq!(converted(r#"{"v": 2000000}"#), "v: 2000000\n");
        assert_eq!(converted(r#"{"v": 1.5e300}"#), "v: 1.5e+300\n");
    }

    proptest::proptest! {
        #[test]
        fn every_text_is_read_back_as_it_was(key in "\\PC{0,12}", text in "(\\PC|[\n\t\r :#'\"-]){0,40}") {
            let json = serde_json::json!({key: [text]});
            let read: Value = serde_saphyr::from_str(&converted(&json.to_string())).unwrap();
            proptest::prop_assert_eq!(read, json);
        }
    }

    #[test]
    fn what_is_no_json_object_is_an_error_that_names_the_field() {
        for bad in ["***".to_owned(), STANDARD.encode("[1]"), STANDARD.encode("{")] {
            let error = of_job(&RayJob { runtime_env: bad, ..RayJob::default() }).unwrap_err();
            assert!(error.to_string().contains("custom.runtime_env"), "{error}");
        }
    }
}
