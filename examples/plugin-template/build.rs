//! Compiles `proto/batch.proto` into Rust types and a descriptor set, without an installed protoc.

use std::path::Path;
use std::{env, error, fs};

use prost::Message as _;

fn main() -> Result<(), Box<dyn error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let files = protox::compile(["batch.proto"], ["proto"])?;
    fs::write(Path::new(&env::var("OUT_DIR")?).join("descriptors.bin"), files.encode_to_vec())?;
    // `CustomMessage` finds the message by its type name. The types use the prost that the plugin framework re-exports.
    let mut config = prost_build::Config::new();
    config.enable_type_names().prost_path("::aileron_machinery::prost").compile_fds(files)?;
    Ok(())
}
