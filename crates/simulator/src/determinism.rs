//! What makes a run repeatable: one thread, a paused clock, and random numbers that come from the seed.
//!
//! The standard library takes the keys of its hash maps from the operating system. They decide the order in which maps
//! are iterated, and Tokio and the executor's jitter use them as random numbers. This module answers such requests
//! itself. Tokio also counts the runtimes of a process, so an exact repetition needs a process of its own: the program
//! `simulate` starts one for each run.

use std::cell::Cell;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aileron_machinery::time::clock::Clock;
use jiff::{SignedDuration, Timestamp};

thread_local! {
    /// State of the generator that answers for the operating system on this thread.
    static ENTROPY: Cell<u64> = const { Cell::new(0) };
}

/// The time of day at which every run starts.
pub const START: &str = "2026-01-01T00:00:00Z";

/// Runs a future on a new thread with a paused clock and random numbers from `seed`.
///
/// # Panics
/// If the runtime cannot be built, or if the future panics.
#[allow(clippy::panic)]
pub fn simulate<T: Send + 'static, F: Future<Output = T>>(seed: u64, run: impl FnOnce() -> F + Send + 'static) -> T {
    let thread = std::thread::Builder::new().name(format!("seed-{seed}")).spawn(move || {
        ENTROPY.set(seed);
        // kube takes the jitter of its pauses from here, which would otherwise start with the time of day.
        fastrand::seed(seed);
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = match runtime.enable_time().start_paused(true).build() {
            Ok(runtime) => runtime,
            Err(error) => panic!("no runtime: {error}"),
        };
        let result = runtime.block_on(run());
        // Executors that were killed left tasks behind that never end.
        runtime.shutdown_background();
        result
    });
    match thread.map(std::thread::JoinHandle::join) {
        Ok(Ok(result)) => result,
        Ok(Err(panic)) => std::panic::resume_unwind(panic),
        Err(error) => panic!("no thread: {error}"),
    }
}

/// Fills a buffer with the numbers of this thread's generator (SplitMix64).
fn fill(buffer: &mut [u8]) {
    for chunk in buffer.chunks_mut(8) {
        let state = ENTROPY.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        ENTROPY.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let bytes = (mixed ^ (mixed >> 31)).to_le_bytes();
        chunk.copy_from_slice(&bytes[..chunk.len()]);
    }
}

/// Takes the place of the C library's function in every program that links this crate.
///
/// # Safety
/// As for the C library: `buffer` points to `length` writable bytes.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getrandom(buffer: *mut u8, length: usize, _flags: u32) -> isize {
    // SAFETY: the caller promises that the buffer has this length.
    let buffer = unsafe { std::slice::from_raw_parts_mut(buffer, length) };
    fill(buffer);
    isize::try_from(length).unwrap_or(-1)
}

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

/// The time of day in the simulation: it follows the paused clock of the runtime. Each process has a clock of its own,
/// which can be wrong.
#[derive(Clone, Debug)]
pub struct SimulatedClock {
    began: tokio::time::Instant,
    start: Timestamp,
    /// How far this clock is from the true time.
    error: Arc<Mutex<SignedDuration>>,
}

impl SimulatedClock {
    /// A clock that starts now.
    #[must_use]
    pub fn start() -> Self {
        let start = START.parse().unwrap_or(Timestamp::UNIX_EPOCH);
        Self { began: tokio::time::Instant::now(), start, error: Arc::default() }
    }

    /// The clock of another process of the same world.
    #[must_use]
    pub fn of_process(&self) -> Self {
        Self { error: Arc::default(), ..self.clone() }
    }

    /// Moves this clock away from the true time.
    pub fn jump(&self, error: SignedDuration) {
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = error;
    }

    /// The time since the start of the run.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }
}

impl Clock for SimulatedClock {
    fn now(&self) -> Timestamp {
        let error = *self.error.lock().unwrap_or_else(PoisonError::into_inner);
        let elapsed = SignedDuration::try_from(self.began.elapsed()).unwrap_or_default();
        self.start.saturating_add(elapsed + error).unwrap_or(self.start)
    }

    fn instant(&self) -> std::time::Instant {
        tokio::time::Instant::now().into_std()
    }
}
