//! Random decisions that come from a seed.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Random decisions of a run. Clones draw from the same sequence.
#[derive(Clone, Debug)]
pub struct Random(Arc<Mutex<fastrand::Rng>>);

impl Random {
    /// The sequence of a seed. `purpose` separates sequences, so that one more decision in one place does not change
    /// those in another.
    #[must_use]
    pub fn new(seed: u64, purpose: &str) -> Self {
        let mixed = purpose.bytes().fold(seed ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Self(Arc::new(Mutex::new(fastrand::Rng::with_seed(mixed))))
    }

    fn draw<T>(&self, draw: impl FnOnce(&mut fastrand::Rng) -> T) -> T {
        draw(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// True with this probability.
    #[must_use]
    pub fn chance(&self, probability: f64) -> bool {
        self.draw(|random| random.f64() < probability)
    }

    /// A number below `bound`, which must not be zero.
    #[must_use]
    pub fn below(&self, bound: u64) -> u64 {
        self.draw(|random| random.u64(0..bound.max(1)))
    }

    /// A duration of the range, in milliseconds.
    #[must_use]
    pub fn millis(&self, from: u64, to: u64) -> Duration {
        self.draw(|random| Duration::from_millis(random.u64(from..=to.max(from))))
    }

    /// One of the values; `None` if there is none.
    #[must_use]
    pub fn pick<'a, T>(&self, values: &'a [T]) -> Option<&'a T> {
        self.draw(|random| random.choice(values))
    }
}
