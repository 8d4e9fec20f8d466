//! What the compiler says to typical mistakes of plugin authors. Each file in `mistakes` has one, and the text file beside it has
//! the parts of lines that the compiler must print, in this order or any other.
//!
//! The files are compiled against the library that this test is linked with, because that takes a second for each: a package
//! of its own for each mistake would compile all dependencies again.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;
use std::{env, fs, thread};

/// This file has no mistake.
const RIGHT: &str = "right.rs";

/// At least this many mistakes are compared, so that a moved folder is noticed.
const LEAST_MISTAKES: usize = 6;

/// The library of this package and the folder of everything that it depends on.
struct Library {
    file: PathBuf,
    dependencies: PathBuf,
}

impl Library {
    /// The library beside this test. Of several builds the newest one with which the file without a mistake compiles: the
    /// dependencies of an older build may have been replaced.
    fn find() -> Self {
        let dependencies = env::current_exe().unwrap().parent().unwrap().to_path_buf();
        let is_library = |path: &PathBuf| {
            let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
            name.starts_with("libaileron_machinery-") && (name.ends_with(".rlib") || name.ends_with(".rmeta"))
        };
        let entries = fs::read_dir(&dependencies).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<(SystemTime, PathBuf)> = entries
            .filter(is_library)
            .filter_map(|path| Some((fs::metadata(&path).and_then(|metadata| metadata.modified()).ok()?, path)))
            .collect();
        files.sort();
        let mut said = String::new();
        for (_, file) in files.into_iter().rev() {
            let library = Self { file, dependencies: dependencies.clone() };
            match library.compile(&folder().join(RIGHT)) {
                Ok(()) => return library,
                Err(errors) => said = errors,
            }
        }
        panic!("{RIGHT} compiles with no library in {}:\n{said}", dependencies.display());
    }

    /// Compiles one file. The error is what the compiler says.
    fn compile(&self, file: &Path) -> Result<(), String> {
        let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mistakes");
        fs::create_dir_all(&output).unwrap();
        let mut library = OsStr::new("aileron_machinery=").to_os_string();
        library.push(&self.file);
        let mut dependencies = OsStr::new("dependency=").to_os_string();
        dependencies.push(&self.dependencies);
        let ended = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
            .args(["--edition", "2024", "--emit", "metadata", "--crate-type", "lib", "--color", "never"])
            .arg("--extern")
            .arg(library)
            .arg("-L")
            .arg(dependencies)
            .arg("--out-dir")
            .arg(&output)
            .arg(file)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        if ended.status.success() { Ok(()) } else { Err(said) }
    }

    /// What is wrong with the errors of one file; nothing if they are as expected.
    fn compare(&self, file: &Path) -> Option<String> {
        let name = file.file_name().unwrap().to_string_lossy();
        let expected = fs::read_to_string(file.with_extension("txt")).unwrap_or_default();
        let expected: Vec<&str> = expected.lines().filter(|line| !line.is_empty()).collect();
        if expected.is_empty() {
            return Some(format!("{name}: no text file beside it says what the compiler must print"));
        }
        let Err(said) = self.compile(file) else { return Some(format!("{name} compiles")) };
        let missing: Vec<&str> = expected.into_iter().filter(|part| !said.contains(part)).collect();
        if missing.is_empty() {
            return None;
        }
        Some(format!("{name}: the compiler does not print\n{}\nbut\n{said}", missing.join("\n")))
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mistakes")
}

#[test]
fn the_compiler_names_the_mistake_and_the_remedy() {
    let library = Library::find();
    let files = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension() == Some(OsStr::new("rs")) && !path.ends_with(RIGHT)).collect();
    files.sort();
    assert!(files.len() >= LEAST_MISTAKES, "{files:?}");
    let (first, second) = files.split_at(files.len() / 2);
    let wrong = |files: &[PathBuf]| files.iter().filter_map(|file| library.compare(file)).collect::<Vec<_>>();
    let wrong = thread::scope(|scope| {
        let second = scope.spawn(|| wrong(second));
        [wrong(first), second.join().unwrap()].concat()
    });
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
