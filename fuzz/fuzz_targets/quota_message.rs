//! See the module `quota_message` of `aileron-fuzz-targets`.
#![no_main]

aileron_fuzz::target!("quota_message");
