//! Scripts: what happens to a simulated pod.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::Document;

/// Annotations that [`Script::from_annotations`] reads.
pub mod annotations {
    /// How the pod ends: `succeed`, `fail:<exit code>[:<reason>[:<message>]]`, `run`, `pending`,
    /// `unschedulable:<message>`, `waiting:<reason>[:<message>]` (such as an image that cannot be pulled),
    /// `evict:<reason>[:<message>]`, `vanish`.
    pub const END: &str = "kubelet.aileron.test/end";
    /// Milliseconds from binding to Running.
    pub const START_MS: &str = "kubelet.aileron.test/start-ms";
    /// Milliseconds from Running to the end.
    pub const RUN_MS: &str = "kubelet.aileron.test/run-ms";
}

/// What happens to one pod: it is bound, is Running after `start_after`, and ends after `run_for`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// From binding to Running.
    pub start_after: Duration,
    /// From Running to the end.
    pub run_for: Duration,
    /// How the pod ends.
    pub end: End,
    /// The file that the task writes to its output prefix, before the pod ends.
    pub document: Document,
    /// Containers (sidecars) that keep running when the others end. The pod then stays Running.
    pub leave_running: Vec<String>,
    /// Kubernetes Events about the pod, `(reason, message)`, recorded when it is bound.
    pub events: Vec<(String, String)>,
}

/// How a pod ends, or where it gets stuck.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// All containers exit with 0.
    Succeed,
    /// The task's container exits with this code and the others with 0.
    Fail {
        /// Exit code of the task's container.
        exit_code: i32,
        /// E.g. `Error` or `OOMKilled`.
        reason: String,
        /// The container's termination message.
        message: String,
    },
    /// The node evicts the pod: Failed with a reason on the pod, such as `Evicted`, and no container status.
    Evict {
        /// The pod's reason.
        reason: String,
        /// The pod's message.
        message: String,
    },
    /// The pod runs until it is deleted.
    Run,
    /// The pod is neither scheduled nor changed.
    Pending,
    /// The scheduler finds no node and sets the PodScheduled condition to False with this message.
    Unschedulable(String),
    /// Bound, but a container waits for this reason, e.g. `ImagePullBackOff`.
    Waiting {
        /// The waiting reason.
        reason: String,
        /// The waiting message.
        message: String,
    },
    /// The pod object disappears while Running, as after the loss of a node.
    Vanish,
}

impl Default for Script {
    /// Runs at once, succeeds at once, and writes one output.
    fn default() -> Self {
        Self::new(End::Succeed)
    }
}

impl Script {
    /// A script without delays. A pod that succeeds writes one output; any other pod writes nothing.
    #[must_use]
    pub fn new(end: End) -> Self {
        let document = if end == End::Succeed { Document::one_output() } else { Document::Nothing };
        let (start_after, run_for) = (Duration::ZERO, Duration::ZERO);
        Self { start_after, run_for, end, document, leave_running: Vec::new(), events: Vec::new() }
    }

    /// A failure with this exit code and reason, without a document.
    #[must_use]
    pub fn fail(exit_code: i32, reason: &str) -> Self {
        Self::new(End::Fail { exit_code, reason: reason.to_owned(), message: String::new() })
    }

    /// Changes the delay before Running.
    #[must_use]
    pub fn start_after(mut self, delay: Duration) -> Self {
        self.start_after = delay;
        self
    }

    /// Changes the time between Running and the end.
    #[must_use]
    pub fn run_for(mut self, time: Duration) -> Self {
        self.run_for = time;
        self
    }

    /// Changes the file that the task writes.
    #[must_use]
    pub fn document(mut self, document: Document) -> Self {
        self.document = document;
        self
    }

    /// Reads [`annotations`]; a pod without them succeeds at once. An invalid annotation makes the pod unschedulable with
    /// the error as message, so that the test shows the error instead of a timeout.
    #[must_use]
    pub fn from_annotations(pod: &Pod) -> Self {
        parse(pod).unwrap_or_else(|mistake| Self::new(End::Unschedulable(format!("{mistake:#}"))))
    }
}

fn parse(pod: &Pod) -> Result<Script> {
    let given = pod.annotations();
    let end = given.get(annotations::END).map_or(Ok(End::Succeed), |text| parse_end(text))?;
    let millis = |key: &str| match given.get(key) {
        None => Ok(Duration::ZERO),
        Some(text) => text.parse().map(Duration::from_millis).with_context(|| format!("annotation {key}: {text:?}")),
    };
    Ok(Script::new(end).start_after(millis(annotations::START_MS)?).run_for(millis(annotations::RUN_MS)?))
}

fn parse_end(text: &str) -> Result<End> {
    let (word, rest) = text.split_once(':').unwrap_or((text, ""));
    Ok(match word {
        "succeed" => End::Succeed,
        "run" => End::Run,
        "pending" => End::Pending,
        "vanish" => End::Vanish,
        "unschedulable" => End::Unschedulable(rest.to_owned()),
        "waiting" | "evict" => {
            let (reason, message) = rest.split_once(':').unwrap_or((rest, ""));
            let (reason, message) = (reason.to_owned(), message.to_owned());
            if word == "evict" { End::Evict { reason, message } } else { End::Waiting { reason, message } }
        }
        "fail" => {
            let (code, rest) = rest.split_once(':').unwrap_or((rest, "Error"));
            let (reason, message) = rest.split_once(':').unwrap_or((rest, ""));
            let exit_code =
                code.parse().with_context(|| format!("annotation {}: exit code {code:?}", annotations::END))?;
            End::Fail { exit_code, reason: reason.to_owned(), message: message.to_owned() }
        }
        _ => bail!("annotation {}: unknown end {word:?}", annotations::END),
    })
}

#[cfg(test)]
#[allow(clippy::panic)]
mod tests {
    use super::*;

    fn annotated(pairs: &[(&str, &str)]) -> Script {
        let mut pod = Pod::default();
        pod.annotations_mut().extend(pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())));
        Script::from_annotations(&pod)
    }

    #[test]
    fn a_plain_pod_succeeds_at_once_with_an_output() {
        let script = annotated(&[]);
        assert_eq!(script, Script::default());
        assert_ne!(script.document, Document::Nothing);
    }

    #[test]
    fn a_failure_carries_code_reason_and_message() {
        let script = annotated(&[(annotations::END, "fail:137:OOMKilled:a: b"), (annotations::RUN_MS, "40")]);
        let end = End::Fail { exit_code: 137, reason: "OOMKilled".into(), message: "a: b".into() };
        assert_eq!(script, Script::new(end).run_for(Duration::from_millis(40)));
        assert_eq!(annotated(&[(annotations::END, "fail:1")]), Script::fail(1, "Error"));
    }

    #[test]
    fn an_invalid_annotation_is_reported_in_the_pod_status() {
        for pairs in [[(annotations::END, "suceed")], [(annotations::RUN_MS, "4s")], [(annotations::END, "fail:x")]] {
            let End::Unschedulable(text) = annotated(&pairs).end else { panic!("{pairs:?} was accepted") };
            assert!(text.contains(pairs[0].0), "{text}");
        }
    }
}
