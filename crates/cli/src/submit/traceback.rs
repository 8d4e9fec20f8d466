//! The traceback of a failed Python task, from the log of its pod.
//!
//! The error document of the SDK has only the last line of the traceback. The traceback in the log has many frames of the
//! SDK; they are removed here.

use aileron_action::TaskAction;
use k8s_openapi::api::core::v1::Pod;
use kube::api::LogParams;
use kube::{Api, Client, ResourceExt};

use super::Submitted;
use crate::action::objects;

/// A traceback is searched in this many last lines of a log. It is at the end of the log and usually much shorter.
const LAST_LINES: i64 = 400;
const HEAD: &str = "Traceback (most recent call last):";
/// A part of the path of the SDK's own frames.
const SDK_PATH: &str = "/site-packages/flyte/";

/// The last traceback in the log of an attempt, if its pod still exists.
pub async fn find(client: &Client, submitted: &Submitted, attempt: u32) -> Option<String> {
    let actions: Api<TaskAction> = Api::namespaced(client.clone(), &submitted.namespace);
    let action = actions.get_opt(&submitted.name).await.ok()??;
    let pods = objects::pods(client, &action).await.ok()?;
    let pod = pods.into_iter().rev().find(|pod| objects::attempt_of(pod.labels()) == Some(attempt))?;
    let containers = pod.spec.as_ref().map_or(&[][..], |spec| &spec.containers);
    let logs: Api<Pod> = Api::namespaced(client.clone(), &submitted.namespace);
    for container in containers {
        let wanted =
            LogParams { container: Some(container.name.clone()), tail_lines: Some(LAST_LINES), ..LogParams::default() };
        // A container that has not started has no log.
        let Ok(log) = logs.logs(&pod.name_any(), &wanted).await else { continue };
        if let Some(traceback) = last_traceback(&log) {
            return Some(traceback);
        }
    }
    None
}

/// The last traceback of a log, without the frames of the SDK unless all frames are of the SDK.
fn last_traceback(log: &str) -> Option<String> {
    let lines: Vec<&str> = log.lines().collect();
    let begin = lines.iter().rposition(|line| line.trim_end() == HEAD)?;
    let rest = &lines[begin + 1..];
    let end = rest.iter().position(|line| !line.starts_with(' '))?;
    let mut frames: Vec<Vec<&str>> = Vec::new();
    for line in &rest[..end] {
        match frames.last_mut() {
            Some(frame) if !line.starts_with("  File ") => frame.push(line),
            _ => frames.push(vec![line]),
        }
    }
    let is_sdk = |frame: &Vec<&str>| frame.first().is_some_and(|line| line.contains(SDK_PATH));
    if !frames.iter().all(is_sdk) {
        frames.retain(|frame| !is_sdk(frame));
    }
    let frames = frames.concat();
    let shown: Vec<&str> = std::iter::once(HEAD).chain(frames).chain(std::iter::once(rest[end])).collect();
    Some(shown.join("\n"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const LOG: &str = "\
[flyte] ERROR Task failed with error: no greeting
Traceback (most recent call last):
  File \"/v/lib/python3.11/site-packages/flyte/_task.py\", line 713, in execute
    v = await run(self.func)
        ^^^^^^^^^^^^^^^^^^^^
  File \"/home/a/greet.py\", line 34, in fragile
    raise ValueError(\"no greeting\")
ValueError: no greeting
[flyte] WARNING completed
";

    #[test]
    fn only_the_users_frames_are_kept() {
        let expected = "Traceback (most recent call last):\n  File \"/home/a/greet.py\", line 34, in fragile\n    \
                        raise ValueError(\"no greeting\")\nValueError: no greeting";
        assert_eq!(last_traceback(LOG).unwrap(), expected);
    }

    #[test]
    fn an_error_of_the_sdk_itself_is_kept_whole() {
        let log = LOG.replace("/home/a/greet.py", "/v/lib/python3.11/site-packages/flyte/storage.py");
        assert_eq!(last_traceback(&log).unwrap().lines().count(), 7);
    }

    #[test]
    fn a_log_without_a_complete_traceback_has_none() {
        assert_eq!(last_traceback("all well\n"), None);
        assert_eq!(last_traceback(HEAD), None);
        assert_eq!(last_traceback(&format!("{HEAD}\n  File \"x\"\n")), None, "cut off");
    }
}
