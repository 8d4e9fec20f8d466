//! Randomness for uids, names and tokens.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// The letters of generated names: no vowels, so no words, and none that look alike.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// How many of them a generated name ends with.
const SUFFIX: usize = 5;

/// A keyed hash of a counter. The keys come from the operating system, so the outputs cannot be guessed, and nothing
/// has to be shared between threads but the counter.
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

    /// What is put behind `generateName`.
    pub(crate) fn suffix(&self) -> String {
        let mut number = self.number();
        let mut letter = || {
            let index = usize::try_from(number % LETTERS.len() as u64).unwrap_or_default();
            number /= LETTERS.len() as u64;
            char::from(LETTERS[index])
        };
        (0..SUFFIX).map(|_| letter()).collect()
    }

    /// 128 bits that nobody can guess.
    pub(crate) fn token(&self) -> String {
        format!("{:016x}{:016x}", self.number(), self.number())
    }

    /// Whether something of this probability happens.
    pub(crate) fn happens(&self, probability: f64) -> bool {
        // 53 bits are what a double holds exactly.
        let bits = u32::try_from(self.number() >> 32).unwrap_or_default();
        f64::from(bits) / f64::from(u32::MAX) < probability
    }
}
