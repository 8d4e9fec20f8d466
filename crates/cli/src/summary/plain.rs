//! What people read instead of upstream's sentences. Statuses and what other programs read keep those as they are.

/// A pod failed and says nothing itself.
const SILENT_POD: &str = "Pod failed. No message received from kubernetes.";

/// A signal came, and its sender is not known.
const SIGNALLED_BY_NOBODY: &str = "condition signalled by \"\"";

/// What begins the sentence about a container.
const CONTAINER: &str = "\r\n[";

/// Reasons that say no more than the exit code does.
const PLAIN_REASONS: [&str; 3] = ["", "Error", "Completed"];

/// The same in plain words, if there are any; a code may be in front of it.
pub fn plain(message: &str) -> String {
    if message == SIGNALLED_BY_NOBODY {
        return "condition signalled".to_owned();
    }
    let mut parts = message.split(CONTAINER);
    let head = parts.next().unwrap_or_default();
    let Some(containers) = parts.map(container).collect::<Option<Vec<_>>>() else { return message.to_owned() };
    match (head.strip_suffix(SILENT_POD), containers.as_slice()) {
        (None, []) => message.to_owned(),
        (Some(before), []) => format!("{before}the pod failed, and Kubernetes does not say why"),
        (Some(before), containers) => format!("{before}{}", containers.join("; ")),
        (None, containers) => format!("{} {}", head.trim_end(), containers.join("; ")),
    }
}

/// `main] terminated with exit code (3). Reason [Error]. Message: …`; nothing if it is another text.
fn container(sentence: &str) -> Option<String> {
    let (name, rest) = sentence.split_once("] terminated with exit code (")?;
    let (code, rest) = rest.split_once("). Reason [")?;
    let (reason, rest) = rest.split_once("]. Message: \n")?;
    let told = rest.strip_suffix('.')?.trim();
    let reason = if PLAIN_REASONS.contains(&reason) { String::new() } else { format!(" ({reason})") };
    let colon = if told.is_empty() { "" } else { ": " };
    Some(format!("container {name} exited with {code}{reason}{colon}{told}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(name: &str, code: i32, reason: &str, message: &str) -> String {
        format!("\r\n[{name}] terminated with exit code ({code}). Reason [{reason}]. Message: \n{message}.")
    }

    #[test]
    fn a_failed_pod_is_told_by_its_containers() {
        let one = format!("{SILENT_POD}{}", ended("main", 3, "Error", ""));
        assert_eq!(plain(&one), "container main exited with 3");
        assert_eq!(plain(&format!("[Error] {one}")), "[Error] container main exited with 3");
        let two =
            [SILENT_POD, &ended("a", 137, "OOMKilled", ""), &ended("b", 1, "Error", "no luck\nat all\n")].concat();
        assert_eq!(plain(&two), "container a exited with 137 (OOMKilled); container b exited with 1: no luck\nat all");
        let evicted = format!("The node was low on memory.{}", ended("a", 137, "Error", ""));
        assert_eq!(plain(&evicted), "The node was low on memory. container a exited with 137");
        assert_eq!(plain(SILENT_POD), "the pod failed, and Kubernetes does not say why");
    }

    #[test]
    fn other_texts_stay_as_they_are() {
        for text in ["", "no luck", "one\r\n[two] three", "condition signalled by \"ada\""] {
            assert_eq!(plain(text), text);
        }
        assert_eq!(plain(SIGNALLED_BY_NOBODY), "condition signalled");
    }
}
