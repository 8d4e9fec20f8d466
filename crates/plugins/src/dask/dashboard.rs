//! Under which path the scheduler's dashboard is reached.
//!
//! The dashboard writes links to its own pages. Behind a proxy they lead astray unless the scheduler knows the path under
//! which the proxy shows it; the configured link to the dashboard says which one that is.

use aileron_idl::flyteidl2::core::task_log::LinkType;
use aileron_machinery::log_links::{LinkInput, LogLinks};
use aileron_machinery::{PluginError, TaskContext};

use super::config::DaskConfig;

/// The page of the dashboard to which links lead.
const FIRST_PAGE: &str = "/status";

/// What hosts may consist of beside letters, digits and everything beyond ASCII.
const HOST_PUNCTUATION: &str = "-_.~!$&'()*+,;=:[]<>\"%";

/// Why a link is not an address.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum UriError {
    #[error("the character {0:?} cannot stand in it")]
    Control(char),
    #[error("a scheme is missing before the colon")]
    NoScheme,
    #[error("its first part has a colon but no scheme before it")]
    ColonInFirstSegment,
    #[error("the character {0:?} cannot stand in a host")]
    Host(char),
    #[error("[{0}] is not a port")]
    Port(String),
    #[error("[{0}] is not the code of a character")]
    Escape(String),
}

/// The path of the dashboard, from the first link to a dashboard that the task has.
///
/// Mirrors `dashboardPrefixFromLogConfig` of upstream's Dask plugin.
pub(super) fn prefix(task: &TaskContext, config: &DaskConfig) -> Result<Option<String>, PluginError> {
    let links = LogLinks::new(&config.logs, Some(&task.template)).links(&LinkInput {
        namespace: &task.metadata.namespace,
        id: Some(&task.metadata.id),
        template: Some(&task.template),
        ..LinkInput::default()
    });
    let Some(link) = links.into_iter().find(|link| link.link_type() == LinkType::Dashboard) else { return Ok(None) };
    let path = path(&link.uri).map_err(|error| {
        PluginError::uncoded(format!(
            "the link [{}] to the Dask dashboard is not an address, {error}; correct plugins.dask.logs or the links of \
             the task",
            link.uri
        ))
    })?;
    let prefix = path.strip_suffix(FIRST_PAGE).unwrap_or(&path);
    Ok(Some(prefix.to_owned()).filter(|prefix| !prefix.is_empty()))
}

/// The path of an address, codes of characters resolved. As generous as Go's `url.Parse`: variables of link templates
/// that have no value yet stay in the path, and braces are no reason to refuse it.
fn path(uri: &str) -> Result<String, UriError> {
    if let Some(control) = uri.chars().find(char::is_ascii_control) {
        return Err(UriError::Control(control));
    }
    let (address, fragment) = uri.split_once('#').unwrap_or((uri, ""));
    unescape(fragment)?;
    let (scheme, rest) = split_scheme(address)?;
    let rest = rest.split_once('?').map_or(rest, |(before, _)| before);
    if !rest.starts_with('/') {
        if scheme.is_some() {
            return Ok(String::new()); // `mailto:somebody` has no path
        }
        if rest.split('/').next().is_some_and(|first| first.contains(':')) {
            return Err(UriError::ColonInFirstSegment);
        }
    }
    let after_slashes = rest.strip_prefix("//").filter(|after| scheme.is_some() || !after.starts_with('/'));
    let Some(after) = after_slashes else { return unescape(rest) };
    let (authority, path) = after.find('/').map_or((after, ""), |slash| after.split_at(slash));
    check_host(authority.rsplit_once('@').map_or(authority, |(_, host)| host))?;
    unescape(path)
}

/// A scheme is letters, digits and `+-.` before the first colon, a letter first; without one the whole is a path.
fn split_scheme(uri: &str) -> Result<(Option<&str>, &str), UriError> {
    let Some((scheme, rest)) = uri.split_once(':') else { return Ok((None, uri)) };
    let Some(first) = scheme.chars().next() else { return Err(UriError::NoScheme) };
    let fits = scheme.chars().all(|letter| letter.is_ascii_alphanumeric() || "+-.".contains(letter));
    Ok(if fits && first.is_ascii_alphabetic() { (Some(scheme), rest) } else { (None, uri) })
}

fn check_host(host: &str) -> Result<(), UriError> {
    let unfit =
        |letter: &char| letter.is_ascii() && !letter.is_ascii_alphanumeric() && !HOST_PUNCTUATION.contains(*letter);
    if let Some(letter) = host.chars().find(unfit) {
        return Err(UriError::Host(letter));
    }
    // The colons of an IPv6 address stand in brackets.
    let after_name = match host.strip_prefix('[') {
        Some(numbers) => numbers.rsplit_once(']').ok_or(UriError::Host('['))?.1,
        None => host.rfind(':').map_or("", |colon| &host[colon..]),
    };
    let port = after_name.strip_prefix(':').unwrap_or(after_name);
    let is_port = port.bytes().all(|digit| digit.is_ascii_digit()) && (after_name.is_empty() || after_name != port);
    if is_port { Ok(()) } else { Err(UriError::Port(port.to_owned())) }
}

fn unescape(text: &str) -> Result<String, UriError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = digits
            .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let Some(code) = code else {
            let shown = &after[..after.len().min(2)];
            return Err(UriError::Escape(format!("%{}", String::from_utf8_lossy(shown))));
        };
        bytes.push(code);
        rest = &after[2..];
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_the_path_that_go_sees() {
        let paths = [
            ("https://h/a/status", "/a/status"),
            ("https://u:p@h:1/a%20b?c=/d#/e", "/a b"),
            ("https://[::1]:80/a", "/a"),
            ("/rel/{{ .podName }}?q=1", "/rel/{{ .podName }}"),
            ("//h/a", "/a"),
            ("///a", "///a"),
            ("https://h", ""),
            ("https://h?x=/y", ""),
            ("mailto:somebody", ""),
            ("a/b:c", "a/b:c"),
            ("", ""),
        ];
        for (uri, expected) in paths {
            assert_eq!(path(uri).as_deref(), Ok(expected), "{uri}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused_as_go_does() {
        assert_eq!(path("https://h/%zz"), Err(UriError::Escape("%zz".into())));
        assert_eq!(path("https://h/%4"), Err(UriError::Escape("%4".into())));
        assert_eq!(path("https://{{.host}}/a"), Err(UriError::Host('{')));
        assert_eq!(path("https://h:x/a"), Err(UriError::Port("x".into())));
        assert_eq!(path("https://[::1/a"), Err(UriError::Host('[')));
        assert_eq!(path("://h/a"), Err(UriError::NoScheme));
        assert_eq!(path("1:2/a"), Err(UriError::ColonInFirstSegment));
        assert_eq!(path("https://h/\u{7f}"), Err(UriError::Control('\u{7f}')));
    }
}
