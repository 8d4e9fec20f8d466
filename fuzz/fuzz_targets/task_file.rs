//! See the module `task_file` of `aileron-fuzz-targets`.
#![no_main]

aileron_fuzz::target!("task_file");
