//! Scripts per attempt, from an annotation of the action that its pods inherit.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use crate::kubelet::{Script, annotations};

pub use crate::kubelet::Document;

/// One entry per attempt, separated by `;`. The last entry also applies to all later attempts. An entry is a value of
/// [`annotations::END`], or `error:<code>:<recoverable|permanent>[:<bytes>]`: the container exits with 0, and the task
/// writes an error document, with a message of at least so many bytes. `@<ms>` at the end of an entry is the running time in milliseconds.
pub const ATTEMPTS: &str = "suite.aileron.test/attempts";

/// The container that keeps running when the others have ended.
pub const LEFT_RUNNING: &str = "suite.aileron.test/left-running";

/// The annotation for these entries.
pub fn attempts(entries: &[&str]) -> (String, String) {
    (ATTEMPTS.to_owned(), entries.join(";"))
}

/// The script of a pod: from [`ATTEMPTS`] if the pod has it, else from the kubelet's own annotations.
pub fn script(pod: &Pod) -> Script {
    let mut script = script_of_attempt(pod);
    script.leave_running.extend(pod.annotations().get(LEFT_RUNNING).cloned());
    script
}

fn script_of_attempt(pod: &Pod) -> Script {
    let Some(entries) = pod.annotations().get(ATTEMPTS) else { return Script::from_annotations(pod) };
    let attempt: usize = pod.labels().get("attempt").and_then(|text| text.parse().ok()).unwrap_or(1);
    let entries: Vec<_> = entries.split(';').collect();
    let entry = entries.get(attempt.saturating_sub(1)).or_else(|| entries.last()).copied().unwrap_or_default();
    let (entry, millis) = entry.split_once('@').unwrap_or((entry, "0"));
    let run_for = Duration::from_millis(millis.parse().unwrap_or_default());
    let script = match entry.strip_prefix("error:") {
        Some(error) => {
            let (code, kind) = error.split_once(':').unwrap_or((error, "recoverable"));
            let (kind, length) = kind.split_once(':').unwrap_or((kind, "0"));
            let padding = ".".repeat(length.parse().unwrap_or_default());
            let message = format!("{padding}attempt {attempt} says {code}");
            Script::default().document(Document::error(code, &message, kind == "recoverable"))
        }
        None => {
            let mut pod = pod.clone();
            pod.annotations_mut().insert(annotations::END.to_owned(), entry.to_owned());
            Script::from_annotations(&pod)
        }
    };
    script.run_for(run_for)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubelet::End;

    fn pod(attempt: &str) -> Pod {
        let mut pod = Pod::default();
        pod.labels_mut().insert("attempt".to_owned(), attempt.to_owned());
        let (key, value) = attempts(&["fail:1@40", "error:Broken:recoverable", "succeed"]);
        pod.annotations_mut().insert(key, value);
        pod
    }

    #[test]
    fn each_attempt_has_its_entry_and_the_last_one_repeats() {
        assert_eq!(script(&pod("1")), Script::fail(1, "Error").run_for(Duration::from_millis(40)));
        let second = script(&pod("2"));
        assert_eq!(
            (second.end, second.document),
            (End::Succeed, Document::error("Broken", "attempt 2 says Broken", true))
        );
        assert_eq!(script(&pod("3")), Script::default());
        assert_eq!(script(&pod("9")), Script::default());
    }
}
