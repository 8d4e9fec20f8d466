//! Compiles the `.proto` files into Rust types and one descriptor set, without an installed protoc.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use prost::Message as _;
use prost_build::Config;

const PROTO_ROOT: &str = "proto";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed={PROTO_ROOT}");
    let mut sources = Vec::new();
    collect_protos(Path::new(PROTO_ROOT), &mut sources)?;
    // Directory order differs between file systems; a stable order keeps the outputs reproducible.
    sources.sort();

    let mut compiler = protox::Compiler::new([PROTO_ROOT])?;
    // Comments become the documentation of the generated types.
    compiler.include_source_info(true).include_imports(true).open_files(&sources)?;
    let mut files = compiler.file_descriptor_set();
    Config::new().enable_type_names().btree_map(["."]).include_file("packages.rs").compile_fds(files.clone())?;

    // The running program only needs names and numbers: comments would triple what it decodes at start.
    for file in &mut files.file {
        file.source_code_info = None;
    }
    let out_dir = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out_dir.join("descriptors.bin"), files.encode_to_vec())?;
    Ok(())
}

fn collect_protos(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect_protos(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "proto") {
            found.push(path);
        }
    }
    Ok(())
}
