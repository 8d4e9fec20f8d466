//! Upstream's messages about pods and signals in plain English, for people.
//!
//! The status of an action and the JSON output of commands keep upstream's text.

/// Upstream's message for a pod that failed without a message of its own.
const POD_WITHOUT_MESSAGE: &str = "Pod failed. No message received from kubernetes.";

/// Upstream's message for a signal of an unknown sender.
const SIGNAL_WITHOUT_SENDER: &str = "condition signalled by \"\"";

/// Starts each of upstream's sentences about a container.
const CONTAINER_PREFIX: &str = "\r\n[";

/// Reasons of a terminated container that add nothing to its exit code.
const REDUNDANT_REASONS: [&str; 3] = ["", "Error", "Completed"];

/// The message in plain English if it is one of upstream's known messages, else the message itself. A code such as
/// `[Error]` may precede the message.
pub fn plain_message(message: &str) -> String {
    if message == SIGNAL_WITHOUT_SENDER {
        return "condition signalled".to_owned();
    }
    let mut parts = message.split(CONTAINER_PREFIX);
    let head = parts.next().unwrap_or_default();
    let Some(containers) = parts.map(container_sentence).collect::<Option<Vec<_>>>() else { return message.to_owned() };
    match (head.strip_suffix(POD_WITHOUT_MESSAGE), containers.as_slice()) {
        (None, []) => message.to_owned(),
        (Some(before), []) => format!("{before}the pod failed, and Kubernetes does not say why"),
        (Some(before), containers) => format!("{before}{}", containers.join("; ")),
        (None, containers) => format!("{} {}", head.trim_end(), containers.join("; ")),
    }
}

/// Reads `main] terminated with exit code (3). Reason [Error]. Message: …`; `None` for any other text.
fn container_sentence(sentence: &str) -> Option<String> {
    let (name, rest) = sentence.split_once("] terminated with exit code (")?;
    let (code, rest) = rest.split_once("). Reason [")?;
    let (reason, rest) = rest.split_once("]. Message: \n")?;
    let output = rest.strip_suffix('.')?.trim();
    let reason = if REDUNDANT_REASONS.contains(&reason) { String::new() } else { format!(" ({reason})") };
    let colon = if output.is_empty() { "" } else { ": " };
    Some(format!("container {name} exited with {code}{reason}{colon}{output}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(name: &str, code: i32, reason: &str, message: &str) -> String {
        format!("\r\n[{name}] terminated with exit code ({code}). Reason [{reason}]. Message: \n{message}.")
    }

    #[test]
    fn a_failed_pod_is_described_by_its_containers() {
        let one = format!("{POD_WITHOUT_MESSAGE}{}", ended("main", 3, "Error", ""));
        assert_eq!(plain_message(&one), "container main exited with 3");
        assert_eq!(plain_message(&format!("[Error] {one}")), "[Error] container main exited with 3");
        let two =
            [POD_WITHOUT_MESSAGE, &ended("a", 137, "OOMKilled", ""), &ended("b", 1, "Error", "no luck\nat all\n")]
                .concat();
        assert_eq!(
            plain_message(&two),
            "container a exited with 137 (OOMKilled); container b exited with 1: no luck\nat all"
        );
        let evicted = format!("The node was low on memory.{}", ended("a", 137, "Error", ""));
        assert_eq!(plain_message(&evicted), "The node was low on memory. container a exited with 137");
        assert_eq!(plain_message(POD_WITHOUT_MESSAGE), "the pod failed, and Kubernetes does not say why");
    }

    #[test]
    fn other_messages_are_not_changed() {
        for text in ["", "no luck", "one\r\n[two] three", "condition signalled by \"ada\""] {
            assert_eq!(plain_message(text), text);
        }
        assert_eq!(plain_message(SIGNAL_WITHOUT_SENDER), "condition signalled");
    }
}
