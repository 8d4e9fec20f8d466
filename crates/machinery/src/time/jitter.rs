//! The random part of retry delays. Without it, clients that failed at the same time would retry at the same time.

use std::hash::{BuildHasher as _, RandomState};

/// A random number from 0 to 1. It is the hash of nothing under the random keys of a std hasher, which is random enough
/// for delays.
///
/// ```
/// use aileron_machinery::time::jitter::random;
///
/// assert!((0.0..=1.0).contains(&random()));
/// ```
pub fn random() -> f64 {
    RandomState::new().hash_one(()) as f64 / u64::MAX as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_part_of_one() {
        for _ in 0..100 {
            assert!((0.0..=1.0).contains(&random()));
        }
    }
}
