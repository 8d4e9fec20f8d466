//! See the module `configuration` of `aileron-fuzz-targets`.
#![no_main]

aileron_fuzz::target!("configuration");
