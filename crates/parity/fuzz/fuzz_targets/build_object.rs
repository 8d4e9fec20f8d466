//! Builds an object from arbitrary bytes, read as a task template.
#![no_main]

use std::sync::LazyLock;

use aileron_parity::fuzz::{Builder, recorded};
use libfuzzer_sys::fuzz_target;

static BUILDER: LazyLock<Builder> = LazyLock::new(|| {
    let cases = ["build/real-sdk-pod/python-plain-default", "build/real-sdk-pod/python-plain-allknobs"];
    let cases: Vec<_> = cases.iter().map(|id| recorded(id).expect("a recorded case")).collect();
    Builder::new(&cases).expect("recorded installations")
});

fuzz_target!(|data: &[u8]| {
    BUILDER.build(data);
});
