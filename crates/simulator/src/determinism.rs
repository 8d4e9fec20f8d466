//! What makes a run repeatable: one thread, a paused clock, and random numbers that come from the seed.
//!
//! The standard library takes the keys of its hash maps from the operating system. They decide the order in which maps
//! are iterated, and Tokio and the executor's jitter use them as random numbers. This module answers such requests
//! itself. Tokio also counts the runtimes of a process, so an exact repetition needs a process of its own: the program
//! `simulate` starts one for each run.

use std::cell::Cell;

use aileron_testkit::simulation::paused_runtime::run_paused;

thread_local! {
    /// State of the generator that answers for the operating system on this thread.
    static ENTROPY: Cell<u64> = const { Cell::new(0) };
}

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
        run_paused(run())
    });
    match thread.map(std::thread::JoinHandle::join) {
        Ok(Ok(Ok(result))) => result,
        Ok(Ok(Err(error))) => panic!("no runtime: {error}"),
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
