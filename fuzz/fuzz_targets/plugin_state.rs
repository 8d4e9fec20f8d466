//! See the module `plugin_state` of `aileron-fuzz-targets`.
#![no_main]

aileron_fuzz::target!("plugin_state");
