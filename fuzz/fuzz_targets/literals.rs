//! See the module `literals` of `aileron-fuzz-targets`.
#![no_main]

aileron_fuzz::target!("literals");
