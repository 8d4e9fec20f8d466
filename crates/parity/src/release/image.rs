//! An image in the format of the Open Container Initiative, made of files and of the last stage of the Dockerfile.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, ensure};
use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::dockerfile::Recipe;
use super::elf::{Architecture, Elf};
use super::tar::{Entry, Kind, archive, gzip};

const INDEX_TYPE: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG_TYPE: &str = "application/vnd.oci.image.config.v1+json";
const LAYER_TYPE: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// The usual compression of gzip: higher levels take twice the time for a percent.
pub const LEVEL: u32 = 6;

/// An image for one platform.
#[derive(Debug, Clone)]
pub struct Image {
    /// The platform.
    pub architecture: Architecture,
    /// What runs, as which user, with which labels.
    pub config: Value,
    /// The files, as an archive that is not compressed.
    pub layer: Vec<u8>,
}

impl Image {
    /// Makes an image. `files` are the files of earlier stages by their paths in these stages, with their permissions.
    ///
    /// # Errors
    /// The recipe copies a file that is not among them, or the program of its entry point is not a static program.
    pub fn new(recipe: &Recipe, files: &BTreeMap<&str, (u32, &[u8])>, time: u64) -> Result<Self> {
        let mut entries = Vec::new();
        let mut directories = BTreeSet::new();
        for file in &recipe.files {
            let source = &file.source;
            let (mode, content) =
                files.get(source.as_str()).with_context(|| format!("{source} is copied, but not there"))?;
            let path = file.path.trim_start_matches('/');
            for (at, _) in path.match_indices('/') {
                if directories.insert(path[..at].to_owned()) {
                    entries.push(Entry::directory(&path[..at]));
                }
            }
            entries.push(Entry::file(path, *mode, content.to_vec()));
        }
        entries.sort_by(|one, other| one.path.cmp(&other.path));
        let architecture = architecture(recipe, &entries)?;
        let layer = archive(&entries, time)?;
        let created = Timestamp::from_second(i64::try_from(time)?)?.to_string();
        let config = json!({
            "created": created,
            "architecture": architecture.name(),
            "os": "linux",
            "config": {
                "User": recipe.user,
                "Entrypoint": recipe.entrypoint,
                "Cmd": recipe.command,
                "WorkingDir": "/",
                "Labels": recipe.labels,
            },
            "rootfs": {"type": "layers", "diff_ids": [digest(&layer)]},
            "history": [{"created": created, "created_by": "Dockerfile"}],
        });
        Ok(Self { architecture, config, layer })
    }

    /// Adds the manifest and what it refers to, and returns the descriptor of the manifest.
    fn add_to(&self, blobs: &mut BTreeMap<String, Vec<u8>>) -> Result<Value> {
        let layer = add(blobs, LAYER_TYPE, gzip(&self.layer, LEVEL)?);
        let config = add(blobs, CONFIG_TYPE, self.config.to_string().into_bytes());
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "config": config,
            "layers": [layer],
        });
        let mut manifest = add(blobs, MANIFEST_TYPE, manifest.to_string().into_bytes());
        manifest["platform"] = json!({"architecture": self.architecture.name(), "os": "linux"});
        Ok(manifest)
    }
}

/// An image layout as an archive, with images for one or more platforms under one name. `skopeo copy --all oci-archive:<file>`
/// and `docker load` read it.
///
/// # Errors
/// There is no image, or two are for the same platform.
pub fn layout(images: &[Image], name: &str, time: u64) -> Result<Vec<u8>> {
    ensure!(!images.is_empty(), "an image needs a program");
    let platforms: BTreeSet<&str> = images.iter().map(|image| image.architecture.name()).collect();
    ensure!(platforms.len() == images.len(), "two images are for the same platform");
    let mut blobs = BTreeMap::new();
    let manifests = images.iter().map(|image| image.add_to(&mut blobs)).collect::<Result<Vec<Value>>>()?;
    let index = json!({"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": manifests});
    let mut index = add(&mut blobs, INDEX_TYPE, index.to_string().into_bytes());
    index["annotations"] = json!({"org.opencontainers.image.ref.name": name});
    let top = json!({"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": [index]});
    let mut entries = vec![
        Entry::file("oci-layout", 0o644, json!({"imageLayoutVersion": "1.0.0"}).to_string().into_bytes()),
        Entry::file("index.json", 0o644, top.to_string().into_bytes()),
        Entry::directory("blobs"),
        Entry::directory("blobs/sha256"),
    ];
    for (digest, content) in blobs {
        entries.push(Entry::file(&format!("blobs/{}", digest.replace(':', "/")), 0o644, content));
    }
    archive(&entries, time)
}

/// The platform of the program that the image starts. It must be static, because nothing else is in the image.
fn architecture(recipe: &Recipe, entries: &[Entry]) -> Result<Architecture> {
    let program = recipe.entrypoint.first().context("the image has no entry point")?;
    let content = entries.iter().find_map(|entry| match &entry.kind {
        Kind::File(content) if entry.path == program.trim_start_matches('/') => Some(content),
        _ => None,
    });
    let elf = Elf::read(content.with_context(|| format!("{program} is not in the image"))?)
        .with_context(|| program.clone())?;
    ensure!(elf.is_static, "{program} needs a dynamic linker, which an empty image does not have");
    Ok(elf.architecture)
}

/// Adds a blob, and returns its descriptor.
fn add(blobs: &mut BTreeMap<String, Vec<u8>>, media_type: &str, content: Vec<u8>) -> Value {
    let (digest, size) = (digest(&content), content.len());
    blobs.insert(digest.clone(), content);
    json!({"mediaType": media_type, "digest": digest, "size": size})
}

fn digest(content: &[u8]) -> String {
    format!("sha256:{}", hex(content))
}

/// The sha256 sum of bytes, in hexadecimal digits.
pub fn hex(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}
