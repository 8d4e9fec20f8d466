//! Makes a libFuzzer binary of a target of `aileron-fuzz-targets`.

/// The entry point of a binary: prepares the target once, and runs it with each input.
#[macro_export]
macro_rules! target {
    ($name:literal) => {
        static TARGET: std::sync::LazyLock<aileron_fuzz_targets::Target> =
            std::sync::LazyLock::new(|| aileron_fuzz_targets::Target::new($name).expect("a target that can be prepared"));

        libfuzzer_sys::fuzz_target!(|data: &[u8]| TARGET.run(data));
    };
}
