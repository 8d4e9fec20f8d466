//! The Dockerfile, the image that is made from it without an engine, and the other files of a release.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

#[path = "release/image_runs.rs"]
mod image_runs;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use aileron_parity::release::{
    Architecture, Elf, Entry, Image, Kind, Recipe, Sources, Stage, archive, entries, gzip, layout, package_chart,
    root_certificates, stages,
};
use anyhow::{Context as _, Result};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// The time of the commit in these tests.
const TIME: u64 = 1_700_000_000;

fn repository() -> PathBuf {
    fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).unwrap()
}

fn read(name: &str) -> String {
    fs::read_to_string(repository().join(name)).unwrap()
}

fn sources() -> Sources {
    Sources { version: "1.2.3".to_owned(), commit: "c0ffee".to_owned(), time: TIME, url: "https://x.test".to_owned() }
}

fn dockerfile() -> Vec<Stage> {
    stages(&read("Dockerfile")).unwrap()
}

/// The header of a program that does not run: for a processor, and with an entry of the program header for each type.
fn program(machine: u8, types: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
    (bytes[18], bytes[32], bytes[54], bytes[56]) = (machine, 64, 56, u8::try_from(types.len()).unwrap());
    for kind in types {
        bytes.extend([&[*kind][..], &[0; 55]].concat());
    }
    bytes
}

fn image(machine: u8) -> Image {
    sources().image(&repository(), &program(machine, &[1])).unwrap()
}

fn instruction<'a>(stage: &'a Stage, name: &str) -> Vec<&'a str> {
    stage.instructions.iter().filter(|(found, _)| found == name).map(|(_, rest)| rest.as_str()).collect()
}

#[test]
fn the_dockerfile_builds_with_the_pinned_compiler_and_the_script_of_make_dist() {
    let stages = dockerfile();
    let [build, last] = stages.as_slice() else { panic!("{stages:?}") };
    let toolchain = read("rust-toolchain.toml");
    let channel = toolchain.split_once("channel = \"").unwrap().1.split('"').next().unwrap();
    assert_eq!(build.base, format!("docker.io/library/rust:{channel}-slim-bookworm"));
    assert_eq!(instruction(build, "ENV"), [format!("RUSTUP_TOOLCHAIN={channel}")]);
    assert_eq!(instruction(build, "RUN"), ["deploy/image/build host /out/aileron"]);
    assert!(instruction(build, "ARG").iter().any(|rest| rest.starts_with("SOURCE_DATE_EPOCH=")));
    assert_eq!((build.name.as_deref(), last.base.as_str()), (Some("build"), "scratch"));
    assert!(instruction(last, "RUN").is_empty(), "there is nothing to run in an empty image");
    let script = read("deploy/image/build");
    for part in ["--locked", "+crt-static", "--remap-path-prefix", "SOURCE_DATE_EPOCH"] {
        assert!(script.contains(part), "{part}");
    }
}

/// Everything else could differ between two checkouts, or hold secrets.
#[test]
fn the_image_is_built_from_files_of_the_repository_only() {
    let ignored = read(".dockerignore");
    let lines: Vec<&str> = ignored.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(lines.first(), Some(&"*"), "all is left out that is not named");
    for name in lines.iter().filter_map(|line| line.strip_prefix('!')) {
        assert!(repository().join(name).exists(), "{name}");
    }
    for needed in ["Cargo.toml", "Cargo.lock", "crates", "examples", "deploy/image"] {
        assert!(lines.contains(&format!("!{needed}").as_str()), "{needed}");
    }
    assert!(lines.contains(&"**/target"));
}

#[test]
fn the_image_has_a_user_an_entry_point_and_labels() {
    let config = image(62).config;
    let chart: Value = serde_saphyr::from_str(&read("deploy/helm/aileron/values.yaml")).unwrap();
    let (user, group) = (&chart["podSecurityContext"]["runAsUser"], &chart["podSecurityContext"]["runAsGroup"]);
    assert_eq!(config["config"]["User"], format!("{user}:{group}"), "the user of the chart");
    assert!(user.as_u64().unwrap() > 0);
    assert_eq!(config["config"]["Entrypoint"], json!(["/aileron"]));
    assert_eq!(config["config"]["Cmd"], json!(["run"]));
    assert_eq!((&config["os"], &config["architecture"]), (&json!("linux"), &json!("amd64")));
    assert_eq!(config["created"], "2023-11-14T22:13:20Z");
    let workspace: toml_edit::DocumentMut = read("Cargo.toml").parse().unwrap();
    let package = |key: &str| workspace["workspace"]["package"][key].as_str().unwrap().to_owned();
    let label =
        |key: &str| config["config"]["Labels"][format!("org.opencontainers.image.{key}")].as_str().unwrap().to_owned();
    assert_eq!((label("version"), label("licenses")), (package("version"), package("license")));
    assert_eq!((label("revision"), label("source")), ("c0ffee".to_owned(), "https://x.test".to_owned()));
    let chart: Value = serde_saphyr::from_str(&read("deploy/helm/aileron/Chart.yaml")).unwrap();
    assert_eq!(chart["appVersion"], package("version"), "the tag that the chart uses");
}

#[test]
fn the_image_has_the_program_and_root_certificates_and_nothing_else() {
    let found = entries(&image(62).layer).unwrap();
    let listed: Vec<(&str, u32, bool)> =
        found.iter().map(|(entry, _)| (entry.path.as_str(), entry.mode, entry.kind == Kind::Directory)).collect();
    let expected = [
        ("aileron", 0o755, false),
        ("etc", 0o755, true),
        ("etc/ssl", 0o755, true),
        ("etc/ssl/certs", 0o755, true),
        ("etc/ssl/certs/ca-certificates.crt", 0o644, false),
    ];
    // `entries` refuses owners other than root.
    assert_eq!(listed, expected);
    assert!(found.iter().all(|(_, time)| *time == TIME));
}

#[test]
fn the_same_sources_give_the_same_image() {
    let make = |time| {
        let images = [image(62), image(183)];
        layout(&images, "1.2.3", time).unwrap()
    };
    assert!(make(TIME) == make(TIME));
    assert!(make(TIME) != make(TIME + 1));
    let later = Sources { time: TIME + 1, ..sources() }.image(&repository(), &program(62, &[1])).unwrap();
    assert_ne!(later.config, image(62).config, "the time is that of the commit");
}

/// Follows all descriptors from `index.json`.
#[test]
fn the_layout_is_complete() -> Result<()> {
    let files: BTreeMap<String, Vec<u8>> = entries(&layout(&[image(62), image(183)], "1.2.3", TIME)?)?
        .into_iter()
        .filter_map(|(entry, _)| match entry.kind {
            Kind::File(content) => Some((entry.path, content)),
            Kind::Directory => None,
        })
        .collect();
    let mut used = BTreeSet::from(["oci-layout".to_owned(), "index.json".to_owned()]);
    assert_eq!(serde_json::from_slice::<Value>(&files["oci-layout"])?, json!({"imageLayoutVersion": "1.0.0"}));
    let mut left = vec![serde_json::from_slice::<Value>(&files["index.json"])?];
    assert_eq!(left[0]["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"], "1.2.3");
    let mut platforms = Vec::new();
    while let Some(document) = left.pop() {
        let lists = ["manifests", "layers"].map(|key| document[key].as_array().cloned().unwrap_or_default());
        let config = document.get("config").filter(|config| config["digest"].is_string()).cloned();
        for descriptor in lists.concat().into_iter().chain(config) {
            let path = format!("blobs/{}", descriptor["digest"].as_str().context("no digest")?.replace(':', "/"));
            let content = files.get(&path).with_context(|| path.clone())?;
            let sum: String = Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect();
            assert!(path.ends_with(&sum));
            assert_eq!(descriptor["size"], content.len());
            platforms.extend(descriptor["platform"]["architecture"].as_str().map(str::to_owned));
            if descriptor["mediaType"].as_str().is_some_and(|kind| kind.ends_with("+json")) {
                left.push(serde_json::from_slice(content)?);
            }
            used.insert(path);
        }
    }
    assert_eq!(platforms, ["amd64", "arm64"]);
    assert_eq!(files.into_keys().collect::<BTreeSet<_>>(), used, "every file is referred to");
    Ok(())
}

#[test]
fn a_program_that_needs_libraries_is_refused() {
    let dynamic = program(62, &[1, 3]);
    assert_eq!(Elf::read(&dynamic).unwrap(), Elf { architecture: Architecture::Amd64, is_static: false });
    let error = sources().image(&repository(), &dynamic).unwrap_err();
    assert!(format!("{error:#}").contains("/aileron needs a dynamic linker"), "{error:#}");
    assert!(
        !Elf::read(&fs::read(std::env::current_exe().unwrap()).unwrap()).unwrap().is_static,
        "this test is dynamic"
    );
}

#[test]
fn instructions_that_are_not_known_are_refused() {
    let read = |text: &str| Recipe::read(stages(text).unwrap().last().unwrap(), &BTreeMap::new());
    assert!(read("FROM scratch\nUSER 1:1\n").is_ok());
    for (text, said) in [
        ("FROM scratch\nENV A=b\n", "ENV A=b"),
        ("FROM debian:12\nUSER 1:1\n", "debian:12"),
        ("FROM scratch\nCOPY here there\n", "COPY here there"),
        ("FROM scratch\nLABEL a=${B}\n", "there is no ARG B"),
    ] {
        let error = format!("{:#}", read(text).unwrap_err());
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn root_certificates_are_certificates() {
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&root_certificates()) {
        store.add(certificate.unwrap()).unwrap();
    }
    assert!(store.len() > 100, "only {} certificates", store.len());
}

/// As other programs read it.
#[test]
fn archives_are_read_by_tar() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let written =
        [Entry::directory("a"), Entry::file("a/b", 0o640, b"text".to_vec()), Entry::file("c", 0o755, vec![7; 999])];
    let bytes = archive(&written, TIME)?;
    assert_eq!(entries(&bytes)?, written.clone().map(|entry| (entry, TIME)));
    fs::write(folder.path().join("x.tar.gz"), gzip(&bytes, 6)?)?;
    let output = std::process::Command::new("tar")
        .args(["--list", "--verbose", "--numeric-owner", "--utc", "--full-time", "--file", "x.tar.gz"])
        .current_dir(folder.path())
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<String> = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let expected = ["drwxr-xr-x 0/0 0", "-rw-r----- 0/0 4", "-rwxr-xr-x 0/0 999"];
    for ((line, start), path) in lines.iter().zip(expected).zip(["a/", "a/b", "c"]) {
        assert_eq!(*line, format!("{start} 2023-11-14 22:13:20 {path}"));
    }
    Ok(())
}

#[test]
fn the_chart_is_packed_in_the_same_way_every_time() -> Result<()> {
    let chart = repository().join("deploy/helm/aileron");
    let (name, content) = package_chart(&chart, TIME)?;
    let version = serde_saphyr::from_str::<Value>(&read("deploy/helm/aileron/Chart.yaml"))?["version"].clone();
    assert_eq!(name, format!("aileron-{}.tgz", version.as_str().context("no version")?));
    // Helm writes the second of the call into the package.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    assert!(package_chart(&chart, TIME)?.1 == content);
    let folder = tempfile::tempdir()?;
    let path = folder.path().join(name);
    fs::write(&path, content)?;
    let shown = aileron_parity::manifests::helm(&["show", "values", &path.display().to_string()], &Value::Null)?;
    assert!(shown.contains("podSecurityContext:"), "{shown}");
    Ok(())
}
