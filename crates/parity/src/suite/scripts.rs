//! What happens to the pod of each attempt, told by an annotation of the action; pods inherit it.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use crate::kubelet::{Script, annotations};

pub use crate::kubelet::Document;

/// One word per attempt, separated by `;`, the last one for all that follow. A word is what
/// [`annotations::END`] takes, or `error:<code>:<recoverable|permanent>`: the task ends well and leaves an error
/// document. Milliseconds of running may follow each word as `@<ms>`.
pub const ATTEMPTS: &str = "suite.aileron.test/attempts";

/// The container that goes on when the others have ended.
pub const LEFT_RUNNING: &str = "suite.aileron.test/left-running";

/// The annotation for these words.
pub fn attempts(words: &[&str]) -> (String, String) {
    (ATTEMPTS.to_owned(), words.join(";"))
}

/// The script of a pod: by attempt if it says so, else by the kubelet's own annotations.
pub fn script(pod: &Pod) -> Script {
    let mut script = script_of_attempt(pod);
    script.leave_running.extend(pod.annotations().get(LEFT_RUNNING).cloned());
    script
}

fn script_of_attempt(pod: &Pod) -> Script {
    let Some(words) = pod.annotations().get(ATTEMPTS) else { return Script::from_annotations(pod) };
    let attempt: usize = pod.labels().get("attempt").and_then(|text| text.parse().ok()).unwrap_or(1);
    let words: Vec<_> = words.split(';').collect();
    let word = words.get(attempt.saturating_sub(1)).or_else(|| words.last()).copied().unwrap_or_default();
    let (word, millis) = word.split_once('@').unwrap_or((word, "0"));
    let run_for = Duration::from_millis(millis.parse().unwrap_or_default());
    let script = match word.strip_prefix("error:") {
        Some(error) => {
            let (code, kind) = error.split_once(':').unwrap_or((error, "recoverable"));
            let message = format!("attempt {attempt} says {code}");
            Script::default().document(Document::error(code, &message, kind == "recoverable"))
        }
        None => {
            let mut pod = pod.clone();
            pod.annotations_mut().insert(annotations::END.to_owned(), word.to_owned());
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
    fn each_attempt_has_its_word_and_the_last_one_stays() {
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
