//! See the module `object` of `aileron-fuzz-targets`.
#![no_main]

aileron_fuzz::target!("object");
