//! Ids of a bounded length that stay unique.

use aileron_kubekit::digest::{Fnv1a, base32};

/// An id cannot be made this short.
///
/// ```
/// use aileron_machinery::unique_id::fixed_length_unique_id;
///
/// let error = fixed_length_unique_id("a-name-of-more-than-ten-bytes", 5).unwrap_err();
/// assert_eq!((error.id.len(), error.max_length), (8, 5), "a digest has eight characters");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("max Length is too small, cannot create an encoded string that is so small")]
pub struct UniqueIdError {
    /// The shortest id there is.
    pub id: String,
    /// The length it should have had at most.
    pub max_length: usize,
}

/// `id` itself if it has at most `max_length` bytes, otherwise a digest of eight characters.
/// Mirrors `encoding.FixedLengthUniqueID`.
///
/// ```
/// use aileron_machinery::unique_id::fixed_length_unique_id;
///
/// assert_eq!(fixed_length_unique_id("run-a0-0", 20)?, "run-a0-0");
/// assert_eq!(fixed_length_unique_id("a-very-long-task-execution-generated-name-that-exceeds", 47)?, "fh65ueey");
/// # Ok::<(), aileron_machinery::unique_id::UniqueIdError>(())
/// ```
pub fn fixed_length_unique_id(id: &str, max_length: usize) -> Result<String, UniqueIdError> {
    fixed_length_unique_id_with(Fnv1a::Bits32, id, max_length)
}

/// [`fixed_length_unique_id`] with a digest of another width: 8, 14 or 27 characters.
///
/// ```
/// use aileron_machinery::unique_id::fixed_length_unique_id_with;
/// use aileron_kubekit::digest::Fnv1a;
///
/// let id = fixed_length_unique_id_with(Fnv1a::Bits64, &"run".repeat(20), 20)?;
/// assert_eq!(id.len(), 14);
/// # Ok::<(), aileron_machinery::unique_id::UniqueIdError>(())
/// ```
pub fn fixed_length_unique_id_with(digest: Fnv1a, id: &str, max_length: usize) -> Result<String, UniqueIdError> {
    if id.len() <= max_length {
        return Ok(id.to_owned());
    }
    // A leading letter: what needs a DNS-1035 label accepts the id, too.
    let id = format!("f{}", base32(&digest.digest(id.as_bytes())));
    if id.len() > max_length { Err(UniqueIdError { id, max_length }) } else { Ok(id) }
}

/// [`fixed_length_unique_id`] of parts joined by hyphens. Empty parts at the front leave no hyphen.
/// Mirrors `encoding.FixedLengthUniqueIDForParts`.
///
/// ```
/// use aileron_machinery::unique_id::fixed_length_unique_id_for_parts;
///
/// assert_eq!(fixed_length_unique_id_for_parts(30, &["run", "a0", "worker"])?, "run-a0-worker");
/// # Ok::<(), aileron_machinery::unique_id::UniqueIdError>(())
/// ```
pub fn fixed_length_unique_id_for_parts(max_length: usize, parts: &[&str]) -> Result<String, UniqueIdError> {
    let first = parts.iter().position(|part| !part.is_empty()).unwrap_or(parts.len());
    fixed_length_unique_id(&parts[first..].join("-"), max_length)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LONG: &str = "a-very-long-task-execution-generated-name-that-exceeds";

    #[test]
    fn short_ids_stay() {
        assert_eq!(fixed_length_unique_id("exactly-20-character", 20).unwrap(), "exactly-20-character");
        assert_eq!(fixed_length_unique_id("", 0).unwrap(), "");
    }

    #[test]
    fn long_ids_become_digests() {
        assert_eq!(fixed_length_unique_id(LONG, 47).unwrap(), "fh65ueey");
        assert_eq!(fixed_length_unique_id_with(Fnv1a::Bits64, LONG, 47).unwrap(), "fj5y3fxwskoebg");
        assert_eq!(fixed_length_unique_id_with(Fnv1a::Bits128, LONG, 47).unwrap(), "fe1j6sc5bz6lkh3m3puyoquadim");
    }

    #[test]
    fn a_bound_below_the_digest_is_an_error() {
        let error = fixed_length_unique_id(LONG, 7).unwrap_err();
        assert_eq!(error, UniqueIdError { id: "fh65ueey".to_owned(), max_length: 7 });
    }

    #[test]
    fn parts_are_joined() {
        for (parts, want) in [
            (&["a", "b", "c"][..], "a-b-c"),
            (&["", "", "b"], "b"),
            (&["a", "", "c"], "a--c"),
            (&[], ""),
            (&["", ""], ""),
        ] {
            assert_eq!(fixed_length_unique_id_for_parts(10, parts).unwrap(), want);
        }
    }

    proptest! {
        #[test]
        fn the_bound_holds_and_digests_are_names(id in "\\PC{0,80}", max_length in 8_usize..70) {
            let short = fixed_length_unique_id(&id, max_length).unwrap();
            prop_assert!(short.len() <= max_length);
            prop_assert!(short == id || aileron_kubekit::names::is_label(&short));
        }
    }
}
