//! References: `scheme://container/key`.

use super::StorageError;

/// The parts of a storage reference. Mirrors `DataReference.Split`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// The scheme in lower case.
    pub scheme: String,
    /// Bucket, container or directory; empty in `file:///absolute/path`.
    pub container: String,
    /// The key of the blob in the container, without slashes at either end and with percent escapes decoded.
    pub key: String,
}

impl Location {
    /// Parses a reference.
    ///
    /// # Errors
    /// When the scheme or the key is missing, or a percent escape is not valid.
    pub fn parse(uri: &str) -> Result<Self, StorageError> {
        let bad = |detail: &str| StorageError::BadReference { uri: uri.to_owned(), detail: detail.to_owned() };
        let (scheme, rest) = uri.split_once("://").ok_or_else(|| bad("write it as scheme://container/key"))?;
        let well_formed = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
        if !well_formed {
            return Err(bad("its scheme is malformed"));
        }
        let scheme = scheme.to_ascii_lowercase();
        // The query and the fragment of a URL are not part of its path, so a key can contain `?` and `#` only escaped.
        let rest = rest.split(['?', '#']).next().unwrap_or_default();
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let container = match authority.rsplit_once('@') {
            // Data Lake addresses have the container where other URLs have a user.
            Some((user, _)) if matches!(scheme.as_str(), "abfs" | "abfss") && !user.is_empty() => {
                user.split(':').next().unwrap_or_default()
            }
            Some((_, host)) => host,
            None => authority,
        };
        let key = unescape(path).ok_or_else(|| bad("it has a malformed percent escape"))?;
        let key = key.trim_matches('/');
        if key.is_empty() {
            return Err(bad("it names no blob inside the container"));
        }
        if key.split('/').any(|part| part == "..") || matches!(container, "." | "..") {
            return Err(bad("`..` would leave the container"));
        }
        if key.contains('\0') || container.contains('\0') {
            return Err(bad("it contains NUL"));
        }
        Ok(Self { scheme, container: container.to_owned(), key: key.to_owned() })
    }
}

fn unescape(path: &str) -> Option<String> {
    if !path.contains('%') {
        return Some(path.to_owned());
    }
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
            let (high, low) = (digit(rest.next())?, digit(rest.next())?);
            bytes.push(u8::try_from(high << 4 | low).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    fn parts(uri: &str) -> (String, String, String) {
        let Location { scheme, container, key } = Location::parse(uri).unwrap();
        (scheme, container, key)
    }

    #[test]
    fn takes_references_apart() {
        let expect = |a: &str, b: &str, c: &str| (a.to_owned(), b.to_owned(), c.to_owned());
        assert_eq!(parts("s3://bkt/a/b/outputs.pb"), expect("s3", "bkt", "a/b/outputs.pb"));
        assert_eq!(parts("S3://bkt/a/"), expect("s3", "bkt", "a"));
        assert_eq!(parts("s3://key:secret@bkt/a"), expect("s3", "bkt", "a"));
        assert_eq!(parts("abfs://cont@acc.dfs.core.windows.net/p/q"), expect("abfs", "cont", "p/q"));
        assert_eq!(parts("abfss://cont/p"), expect("abfss", "cont", "p"));
        assert_eq!(parts("file:///abs/x"), expect("file", "", "abs/x"));
        assert_eq!(parts("gs://b/a%20b/%C3%BC?x=1"), expect("gs", "b", "a b/ü"));
    }

    #[test]
    fn refuses_what_names_no_blob() {
        for uri in ["", "bucket/key", "s3://bkt", "s3://bkt/", "://b/k", "s3://b/%zz", "s3://b/%4", "file://b/../../x"]
        {
            assert!(Location::parse(uri).is_err(), "{uri}");
        }
        assert!(Location::parse("s3://b/%2e%2e/x").is_err(), "escapes do not hide a parent directory");
    }

    proptest! {
        #[test]
        fn never_panics(uri in ".*") {
            let _ = Location::parse(&uri);
        }
    }
}
