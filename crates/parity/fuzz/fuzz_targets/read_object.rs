//! Reads the phase from arbitrary bytes, read as a pod.
#![no_main]

use std::sync::LazyLock;

use aileron_parity::fuzz::{Reader, recorded};
use libfuzzer_sys::fuzz_target;

static READER: LazyLock<Reader> = LazyLock::new(|| {
    let case = recorded("phase/pod/logs-all-builtin-plain").expect("a recorded case");
    Reader::new(&case).expect("its task")
});

fuzz_target!(|data: &[u8]| {
    READER.read(data);
});
