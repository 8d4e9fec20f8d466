//! Random uids, names and tokens.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// Characters of generated names, as in Kubernetes: no vowels, so that no words appear, and none that look alike.
const NAME_CHARS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// Length of the random end of a generated name, as in Kubernetes.
const SUFFIX_CHARS: usize = 5;

/// A source of random numbers: a function of a counter. Threads share only the counter.
#[derive(Debug)]
pub(crate) struct Random {
    source: Source,
    counter: AtomicU64,
}

#[derive(Debug)]
enum Source {
    /// A keyed hash of the counter. The operating system provides the keys, so the numbers cannot be guessed.
    System(RandomState),
    /// The SplitMix64 generator with this seed: the same numbers in every run.
    Seed(u64),
}

impl Random {
    /// Numbers that follow from the seed, or that cannot be guessed if there is no seed.
    pub(crate) fn new(seed: Option<u64>) -> Self {
        let source = seed.map_or_else(|| Source::System(RandomState::new()), Source::Seed);
        Self { source, counter: AtomicU64::new(0) }
    }

    pub(crate) fn number(&self) -> u64 {
        let count = self.counter.fetch_add(1, Ordering::Relaxed);
        match &self.source {
            Source::System(keys) => keys.hash_one(count),
            Source::Seed(seed) => split_mix(*seed, count),
        }
    }

    /// A version-4 UUID.
    pub(crate) fn uid(&self) -> String {
        let (high, low) = (self.number(), self.number());
        format!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xfff,
            0x8000 | (low >> 50),
            low & 0xffff_ffff_ffff
        )
    }

    /// The random end of a name that is generated from `generateName`.
    pub(crate) fn suffix(&self) -> String {
        let mut number = self.number();
        let mut letter = || {
            let index = usize::try_from(number % NAME_CHARS.len() as u64).unwrap_or_default();
            number /= NAME_CHARS.len() as u64;
            char::from(NAME_CHARS[index])
        };
        (0..SUFFIX_CHARS).map(|_| letter()).collect()
    }

    /// A token of 128 random bits.
    pub(crate) fn token(&self) -> String {
        format!("{:016x}{:016x}", self.number(), self.number())
    }

    /// True with this probability.
    pub(crate) fn chance(&self, probability: f64) -> bool {
        // 32 bits fit exactly into a double.
        let bits = u32::try_from(self.number() >> 32).unwrap_or_default();
        f64::from(bits) / f64::from(u32::MAX) < probability
    }
}

/// The number of SplitMix64 after `count` earlier ones. The constants are those of the published generator.
fn split_mix(seed: u64, count: u64) -> u64 {
    let state = seed.wrapping_add(count.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeded_numbers_are_those_of_split_mix() {
        // The first numbers of the reference implementation with the seed 1234567.
        let random = Random::new(Some(1_234_567));
        assert_eq!([random.number(), random.number()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }

    #[test]
    fn a_seed_gives_the_same_uids_and_no_seed_gives_others() {
        let uids = |seed| (Random::new(seed).uid(), Random::new(seed).uid());
        let (first, second) = uids(Some(7));
        assert_eq!(first, second);
        assert_ne!(first, Random::new(Some(8)).uid());
        let (first, second) = uids(None);
        assert_ne!(first, second);
    }
}
