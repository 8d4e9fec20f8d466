//! See the module `task_template` of `aileron-fuzz-targets`.
#![no_main]

aileron_fuzz::target!("task_template");
