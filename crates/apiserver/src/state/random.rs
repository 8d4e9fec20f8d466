//! Random uids, names and tokens.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// Characters of generated names, as in Kubernetes: no vowels, so that no words appear, and none that look alike.
const NAME_CHARS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// Length of the random end of a generated name, as in Kubernetes.
const SUFFIX_CHARS: usize = 5;

/// A source of random numbers: a keyed hash of a counter. The operating system provides the random keys, so the numbers
/// cannot be guessed. Threads share only the counter.
#[derive(Debug, Default)]
pub(crate) struct Random {
    keys: RandomState,
    counter: AtomicU64,
}

impl Random {
    pub(crate) fn number(&self) -> u64 {
        self.keys.hash_one(self.counter.fetch_add(1, Ordering::Relaxed))
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
