//! Storage locations read and written the way Go's `net/url` does, as far as an output base needs it.
//!
//! The `url` crate follows the browsers' standard, which normalises differently (`..`, doubled slashes, escapes);
//! the control plane uses Go's rules, and both must arrive at the same text. Left out is what no object store has:
//! escapes in buckets, brackets that are no address, and rewriting of fragments.

use std::fmt::Write as _;

/// Why a text is not a location. The texts are those of Go's parser, because events and statuses contain them.
///
/// ```
/// use std::error::Error;
/// use aileron_machinery::output_path::{LocationError, action_output_prefix};
///
/// let error = action_output_prefix("team", "run-a0", "s3://data/%zz", "a0", 1).unwrap_err();
/// let cause = error.source().and_then(|cause| cause.downcast_ref::<LocationError>());
/// assert_eq!(cause, Some(&LocationError::Escape("%zz".into())));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LocationError {
    /// Control characters.
    #[error("net/url: invalid control character in URL")]
    Control,
    /// A colon with nothing before it.
    #[error("missing protocol scheme")]
    Scheme,
    /// `scheme:rest` without slashes, below which there are no paths.
    #[error("no path below the scheme; expected <scheme>://<bucket>/<path>")]
    Opaque,
    /// A colon in the first segment of a path without a scheme.
    #[error("first path segment in URL cannot contain colon")]
    Colon,
    /// A percent sign without two hexadecimal digits.
    #[error("invalid URL escape {0:?}")]
    Escape(String),
    /// A bucket or user name with a character that is not allowed there.
    #[error("invalid character in host name {0:?}")]
    Host(String),
}

/// A location taken apart.
#[derive(Debug)]
pub(super) struct Location {
    /// Everything before the path, ready to be written.
    front: String,
    scheme: String,
    has_host: bool,
    /// The path without escapes. Bytes, because an escape can stand for any.
    pub(super) path: Vec<u8>,
    /// Query and fragment, ready to be written.
    back: String,
}

impl Location {
    pub(super) fn parse(text: &str) -> Result<Self, LocationError> {
        if text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
            return Err(LocationError::Control);
        }
        let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
        unescape(fragment)?;
        let (scheme, rest) = split_scheme(rest)?;
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) => (rest, format!("?{query}")),
            None => (rest, String::new()),
        };
        if !rest.starts_with('/') {
            if !scheme.is_empty() {
                return Err(LocationError::Opaque);
            }
            if rest.split('/').next().is_some_and(|first| first.contains(':')) {
                return Err(LocationError::Colon);
            }
        }
        let after_slashes = rest.strip_prefix("//").filter(|_| !scheme.is_empty() || !rest.starts_with("///"));
        let (authority, path) = match after_slashes {
            Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
            None => ("", rest),
        };
        let authority = authority_text(authority)?;
        let colon = if scheme.is_empty() { "" } else { ":" };
        // `file:/a` keeps its single slash; without scheme and authority there is nothing to introduce.
        let slashes = if after_slashes.is_some() && !(scheme.is_empty() && authority.is_empty()) { "//" } else { "" };
        let fragment = if fragment.is_empty() { String::new() } else { format!("#{fragment}") };
        Ok(Self {
            front: format!("{scheme}{colon}{slashes}{authority}"),
            scheme,
            has_host: !authority.is_empty(),
            path: unescape(path)?,
            back: query + &fragment,
        })
    }

    /// A directory of this machine, or of what is mounted into it.
    pub(super) fn is_local_directory(&self) -> bool {
        self.scheme == "file" && !self.has_host
    }

    /// The text of the location with another path, which starts with a slash.
    pub(super) fn with_path(&self, path: &[u8]) -> String {
        let mut text = self.front.clone();
        for byte in path {
            push_escaped(&mut text, *byte, |byte| byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&byte));
        }
        text + &self.back
    }
}

fn split_scheme(text: &str) -> Result<(String, &str), LocationError> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '+' | '-' | '.'));
    match end.map(|end| text.split_at(end)) {
        Some(("", rest)) if rest.starts_with(':') => Err(LocationError::Scheme),
        Some((scheme, rest)) if rest.starts_with(':') && scheme.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            Ok((scheme.to_ascii_lowercase(), &rest[1..]))
        }
        _ => Ok((String::new(), text)),
    }
}

/// User and host as they will be written.
fn authority_text(authority: &str) -> Result<String, LocationError> {
    let refused = || LocationError::Host(authority.to_owned());
    let (user, host) = authority.rsplit_once('@').map_or(("", authority), |(user, host)| (user, host));
    let allowed_in_user = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
    if !user.bytes().all(allowed_in_user) {
        return Err(refused());
    }
    unescape(user)?;
    let allowed_in_host =
        |byte: u8| byte >= 0x80 || byte.is_ascii_alphanumeric() || b"!$&'()*+,;=:[]<>\"-_.~".contains(&byte);
    if !host.bytes().all(allowed_in_host) {
        return Err(refused());
    }
    let port = match host.rsplit_once(']') {
        Some((_, port)) => port,
        None => host.find(':').map_or("", |colon| &host[colon..]),
    };
    if !port.is_empty() && !port.strip_prefix(':').is_some_and(|port| port.bytes().all(|b| b.is_ascii_digit())) {
        return Err(refused());
    }
    let mut text = if authority.contains('@') { format!("{user}@") } else { String::new() };
    for byte in host.bytes() {
        push_escaped(&mut text, byte, |byte| byte < 0x80);
    }
    Ok(text)
}

fn push_escaped(text: &mut String, byte: u8, plain: impl Fn(u8) -> bool) {
    if plain(byte) {
        text.push(char::from(byte));
    } else {
        // Writing to a String cannot fail.
        _ = write!(text, "%{byte:02X}");
    }
}

fn unescape(text: &str) -> Result<Vec<u8>, LocationError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if *first != b'%' {
            bytes.push(*first);
            rest = after;
            continue;
        }
        let value = after.get(..2).and_then(|digits| {
            let digits = std::str::from_utf8(digits).ok().filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()))?;
            u8::from_str_radix(digits, 16).ok()
        });
        let Some(value) = value else {
            let shown = &rest[..rest.len().min(3)];
            return Err(LocationError::Escape(String::from_utf8_lossy(shown).into_owned()));
        };
        bytes.push(value);
        rest = &after[2..];
    }
    Ok(bytes)
}
