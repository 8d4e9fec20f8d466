//! The options of a sandbox.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use aileron_kubekit::quantity::Quantity;
use aileron_sandbox::{NodeOptions, Rules};
use anyhow::{Context, anyhow};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use crate::arguments::{ConfigArguments, DEFAULT_NAME, KindArguments, NodeArguments};
use crate::failure::Failure;

/// Where a sandbox keeps its objects and files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DirectoryChoice {
    /// In a new directory, which is removed when the sandbox stops.
    #[default]
    Temporary,
    /// In this directory, for the next start.
    Persistent(PathBuf),
}

/// Where log records go. A process can choose only once; later choices have no effect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LogTarget {
    /// To a file in the sandbox's directory.
    #[default]
    File,
    /// To the error stream.
    Stderr,
}

/// The sources of the executor's configuration. They override the sandbox's own settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecutorConfig {
    /// Configuration files and patterns.
    pub files: Vec<String>,
    /// Configuration keys and their values, as on the command line.
    pub overrides: Vec<(String, String)>,
    /// Environment variables.
    pub environment: BTreeMap<String, String>,
}

/// The options of a sandbox. The default is a temporary sandbox with the capacity of this machine.
#[derive(Clone, Debug, Default)]
pub struct SandboxOptions {
    /// Where objects and files are kept.
    pub directory: DirectoryChoice,
    /// The port of the API server on loopback. 0 means the port of the previous start, or a free port.
    pub port: u16,
    /// The directory of programs, or the virtualenv, that replaces each image.
    pub images: BTreeMap<String, PathBuf>,
    /// The Python interpreter or virtualenv for tasks.
    pub python: Option<PathBuf>,
    /// The capacity of the node by resource name, where it differs from this machine.
    pub capacity: BTreeMap<String, Quantity>,
    /// Kinds that are installed beside the built-in ones.
    pub definitions: Vec<CustomResourceDefinition>,
    /// Simulated operators beside the built-in ones. One for the same kind replaces the built-in one.
    pub operators: Vec<Rules>,
    /// The executor's configuration.
    pub config: ExecutorConfig,
    /// Where log records go.
    pub log: LogTarget,
    /// The filter of log records, instead of `info`.
    pub log_level: Option<String>,
}

impl ExecutorConfig {
    /// The files and keys of a command line, and the environment of this process.
    pub(crate) fn new(arguments: &ConfigArguments, overrides: Vec<(String, String)>) -> Self {
        Self { files: arguments.files.clone(), overrides, environment: aileron_config::environment_variables() }
    }
}

impl SandboxOptions {
    /// The same options with the node of a command line.
    pub(crate) fn with_node(mut self, arguments: &NodeArguments) -> Result<Self, Failure> {
        for image in &arguments.images {
            let pair = image.split_once('=').filter(|(name, path)| !name.is_empty() && !path.is_empty());
            let Some((name, path)) = pair else {
                return Err(Failure::Usage(format!("--image {image}: write NAME=PATH, such as team/etl:1=./etl")));
            };
            let path = existing_path(Path::new(path), "--image")?;
            self.images.insert(name.to_owned(), path);
        }
        if let Some(python) = &arguments.python {
            self.python = Some(existing_path(python, "--python")?);
        }
        let gpu = arguments.gpu.map(|count| count.to_string());
        for (name, amount) in [("cpu", &arguments.cpu), ("memory", &arguments.memory), ("nvidia.com/gpu", &gpu)] {
            let Some(amount) = amount else { continue };
            let Ok(amount) = amount.parse() else {
                return Err(Failure::Usage(format!("--{name} {amount}: not a quantity such as 4, 500m or 8Gi")));
            };
            self.capacity.insert(name.to_owned(), amount);
        }
        Ok(self)
    }

    /// The same options with the kinds of a command line.
    pub(crate) fn with_kinds(mut self, arguments: &KindArguments) -> Result<Self, Failure> {
        for file in &arguments.definitions {
            self.definitions.extend(read_file(file, "--crd", definitions)?);
        }
        for file in &arguments.operators {
            self.operators.push(read_file(file, "--operator", |text| Ok(Rules::read(text)?))?);
        }
        Ok(self)
    }

    /// The rules of all simulated operators.
    pub(super) fn rules(&self) -> Vec<Rules> {
        let is_replaced = |rules: &Rules| self.operators.iter().any(|own| own.qualified() == rules.qualified());
        let builtin = Rules::builtin().into_iter().filter(|rules| !is_replaced(rules));
        builtin.chain(self.operators.iter().cloned()).collect()
    }

    /// The options of the node, with its files below `directory`.
    ///
    /// Tasks find this binary on their PATH as `aileron`, which task files rely on, and under its own name `program`.
    pub(super) fn node(&self, directory: &Path, program: &str) -> anyhow::Result<NodeOptions> {
        let mut node =
            NodeOptions { dir: directory.join("node"), images: self.images.clone(), ..NodeOptions::default() };
        node.capacity.extend(self.capacity.clone());
        if let Some(python) = &self.python {
            let programs = if python.is_dir() { Some(python.join("bin")) } else { python.parent().map(Path::to_owned) };
            node.path.extend(programs);
        }
        // A directory of links, because the directory of the binary may contain programs that tasks must not find.
        let programs = directory.join("bin");
        std::fs::create_dir_all(&programs).with_context(|| format!("cannot create {}", programs.display()))?;
        let binary = std::env::current_exe().context("cannot find the path of this program")?;
        for name in [DEFAULT_NAME, program] {
            let link = programs.join(name);
            // A link of an earlier start may lead to another binary.
            let _ = std::fs::remove_file(&link);
            std::os::unix::fs::symlink(&binary, &link)
                .with_context(|| format!("cannot create the link {}", link.display()))?;
        }
        node.path.push(programs);
        Ok(node)
    }
}

/// The capacity of a node as text: `4 CPUs, 7.6Gi of memory, 1 nvidia.com/gpu`.
pub(super) fn size_text(capacity: &BTreeMap<String, Quantity>) -> String {
    let amount = |name: &str| capacity.get(name).map(ToString::to_string).unwrap_or_default();
    let memory = amount("memory");
    // The memory of this machine is given in Ki, which is hard to read.
    let memory = match memory.strip_suffix("Ki").and_then(|number| number.parse::<f64>().ok()) {
        Some(kibibytes) => format!("{:.1}Gi", kibibytes / f64::from(1 << 20)),
        None => memory,
    };
    let cpus = match amount("cpu") {
        one if one == "1" => "1 CPU".to_owned(),
        other => format!("{other} CPUs"),
    };
    let mut text = format!("{cpus}, {memory} of memory");
    for (name, amount) in capacity.iter().filter(|(name, _)| name.contains('/')) {
        text.push_str(&format!(", {amount} {name}"));
    }
    text
}

/// The absolute form of a path of the command line, which must exist.
fn existing_path(path: &Path, flag: &str) -> Result<PathBuf, Failure> {
    // Links are not resolved: the `python` of a virtualenv is a link to an interpreter without the virtualenv's packages.
    let path = std::path::absolute(path).map_err(|error| Failure::Usage(format!("{flag}: {error}")))?;
    if path.exists() { Ok(path) } else { Err(Failure::Usage(format!("{flag}: {} does not exist", path.display()))) }
}

/// Reads a file of the command line.
fn read_file<T>(path: &Path, flag: &str, read: impl FnOnce(&str) -> anyhow::Result<T>) -> Result<T, Failure> {
    let text = std::fs::read_to_string(path).map_err(anyhow::Error::new);
    text.and_then(|text| read(&text)).map_err(|error| Failure::Usage(format!("{flag}: {}: {error:#}", path.display())))
}

/// The definitions of a file. Objects of other kinds are refused: the sandbox would not create them.
fn definitions(text: &str) -> anyhow::Result<Vec<CustomResourceDefinition>> {
    let found: Vec<CustomResourceDefinition> =
        serde_saphyr::from_multiple(text).map_err(|error| anyhow!("not a CustomResourceDefinition: {error}"))?;
    if found.is_empty() {
        return Err(anyhow!("there is no CustomResourceDefinition"));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn images_and_sizes_are_read_and_mistakes_named() {
        let dir = tempfile::tempdir().unwrap();
        let image = format!("team/etl:1={}", dir.path().display());
        let good = NodeArguments { images: vec![image], cpu: Some("500m".into()), gpu: Some(2), ..Default::default() };
        let options = SandboxOptions::default().with_node(&good).unwrap();
        assert_eq!(options.images["team/etl:1"], dir.path());
        assert_eq!(options.capacity["nvidia.com/gpu"].to_string(), "2");
        assert_eq!(options.capacity["cpu"].to_string(), "500m");
        let machine = [("cpu", "4"), ("memory", "24684100Ki"), ("nvidia.com/gpu", "2"), ("pods", "110")];
        let machine = machine.map(|(name, amount)| (name.to_owned(), amount.parse().unwrap())).into();
        assert_eq!(size_text(&machine), "4 CPUs, 23.5Gi of memory, 2 nvidia.com/gpu");
        for (bad, text) in [
            (NodeArguments { images: vec!["x".into()], ..Default::default() }, "--image x: write NAME=PATH"),
            (NodeArguments { images: vec!["x=/not/there".into()], ..Default::default() }, "/not/there does not exist"),
            (NodeArguments { memory: Some("lots".into()), ..Default::default() }, "--memory lots: not a quantity"),
        ] {
            let error = SandboxOptions::default().with_node(&bad).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
    }

    #[test]
    fn own_kinds_are_read_from_files_and_mistakes_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let rules = "{group: ray.io, version: v1, kind: RayJob, plural: rayjobs, stages: [{name: a, after: 1s}]}";
        let names = "{kind: Kettle, plural: kettles}";
        let crd = format!(
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: kettles.k.org}}\n\
             spec: {{group: k.org, names: {names}, scope: Namespaced, versions: []}}\n"
        );
        let good = KindArguments {
            definitions: vec![file("crd.yaml", &format!("{crd}---\n{crd}"))],
            operators: vec![file("ray.yaml", rules)],
        };
        let options = SandboxOptions::default().with_kinds(&good).unwrap();
        assert_eq!(options.definitions.len(), 2);
        let ray: Vec<_> = options.rules().into_iter().filter(|rules| rules.qualified() == "rayjobs.ray.io").collect();
        assert_eq!((options.rules().len(), ray.len()), (Rules::builtin().len(), 1), "it replaces the built-in one");

        let pod = file("pod.yaml", "{apiVersion: v1, kind: Pod, metadata: {name: p}}");
        let wrong = KindArguments { definitions: vec![pod], ..KindArguments::default() };
        let error = SandboxOptions::default().with_kinds(&wrong).unwrap_err().to_string();
        assert!(error.contains("--crd: ") && error.contains("pod.yaml: not a CustomResourceDefinition"), "{error}");
        let wrong = KindArguments { operators: vec![dir.path().join("none.yaml")], ..KindArguments::default() };
        let error = SandboxOptions::default().with_kinds(&wrong).unwrap_err().to_string();
        assert!(error.contains("none.yaml: No such file"), "{error}");
    }

    #[test]
    fn tasks_find_this_binary_under_both_names() {
        let dir = tempfile::tempdir().unwrap();
        // A second start replaces the links of the first.
        for _ in 0..2 {
            let node = SandboxOptions::default().node(dir.path(), "polite").unwrap();
            assert_eq!(node.path.last().unwrap(), &dir.path().join("bin"));
            for name in ["aileron", "polite"] {
                let link = std::fs::read_link(dir.path().join("bin").join(name)).unwrap();
                assert_eq!(link, std::env::current_exe().unwrap());
            }
        }
    }
}
