//! The random part of pauses, so that those who failed together do not come back together.

use std::hash::{BuildHasher as _, RandomState};

/// A number from zero to one. The keys of a std hasher are random, and spreading tries asks for no more.
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
