//! Compiles `proto/` with a compiler written in Rust, so that a machine with
//! nothing but a Rust toolchain can build us.

use std::{env, error::Error, fs, path::Path};

fn main() -> Result<(), Box<dyn Error>> {
    let files = ["process.proto"];
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::Compiler::new(["proto"])?
        .include_imports(true)
        .open_files(files)?
        .encode_file_descriptor_set();
    let path = Path::new(&env::var("OUT_DIR")?).join("descriptors.bin");
    fs::write(&path, descriptors)?;
    buffa_build::Config::new()
        .files(&files)
        .includes(&["proto"])
        .descriptor_set(&path)
        .generate_json(true)
        .generate_views(false)
        .preserve_unknown_fields(false)
        .use_bytes_type()
        .compile()
}
