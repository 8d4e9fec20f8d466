//! See the module `api_request` of `aileron-fuzz-targets`.
#![no_main]

aileron_fuzz::target!("api_request");
