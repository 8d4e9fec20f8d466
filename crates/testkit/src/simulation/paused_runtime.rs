//! A runtime whose clock stands still while anything is ready to run.

/// Runs a future on this thread. Time passes only while all tasks wait for it, so hours take a fraction of a second.
///
/// # Errors
/// The operating system cannot start the runtime.
pub fn run_paused<T>(future: impl Future<Output = T>) -> std::io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    let result = runtime.block_on(future);
    // Executors that were killed left tasks behind that never end.
    runtime.shutdown_background();
    Ok(result)
}
