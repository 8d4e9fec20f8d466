//! See the module `error_document` of `aileron-fuzz-targets`.
#![no_main]

aileron_fuzz::target!("error_document");
