//! The command lines of co-pilot.

use aileron_idl::flyteidl2::core::data_loading_config::{FileInputLayout, LiteralMapFormat};
use aileron_idl::flyteidl2::core::{DataLoadingConfig, TypedInterface};
use aileron_kubekit::duration::GoDuration;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prost::Message;

use super::STORAGE_CONFIG_PATH;
use crate::config::CoPilotConfig;
use crate::platform::CopilotStorage;
use crate::{PluginError, TaskPaths};

/// The co-pilot command with its storage settings. Mirrors `flytek8s.CopilotCommandArgs`.
///
/// The settings of the object store are on the command line either all or not at all, because there they replace all
/// settings of the mounted files. If the settings are mounted from a secret, they are not on the command line, unless
/// the configuration overrides them.
pub(super) fn entrypoint(config: &CoPilotConfig, storage: &CopilotStorage) -> Result<Vec<String>, PluginError> {
    let overridden = config
        .storage_config_override
        .as_deref()
        .map(|storage_config| CopilotStorage::new(storage_config, storage.logger_level));
    let settings = overridden.as_ref().unwrap_or(storage);

    let mut command = vec![
        "/bin/flyte-copilot".to_owned(),
        "--storage.limits.maxDownloadMBs=0".to_owned(),
        format!("--logger.level={}", settings.logger_level),
    ];
    if settings.multi_container {
        command.push("--storage.enable-multicontainer".to_owned());
    }
    if !settings.container.is_empty() {
        command.push(format!("--storage.container={}", settings.container));
    }
    command.push(format!("--storage.type={}", settings.kind));
    if !config.storage_config_secret_name.is_empty() {
        command.extend(["--config".to_owned(), format!("{STORAGE_CONFIG_PATH}/*.yaml")]);
        if overridden.is_none() {
            return Ok(command);
        }
    }
    if settings.stow_config.is_empty() || settings.stow_kind.is_empty() {
        return Err(PluginError::uncoded("no stow.config or stow.kind specified"));
    }
    for (key, value) in &settings.stow_config {
        command.extend(["--storage.stow.config".to_owned(), format!("{key}={value}")]);
    }
    command.push(format!("--storage.stow.kind={}", settings.stow_kind));
    Ok(command)
}

/// Arguments of the downloader. Mirrors `flytek8s.DownloadCommandArgs`.
pub(super) fn download(
    paths: &TaskPaths,
    to: &str,
    data: &DataLoadingConfig,
    interface: &TypedInterface,
) -> Vec<String> {
    let format = LiteralMapFormat::try_from(data.format)
        .map_or_else(|_| data.format.to_string(), |f| f.as_str_name().to_owned());
    let layout = FileInputLayout::try_from(data.file_input_layout)
        .map_or_else(|_| data.file_input_layout.to_string(), |l| l.as_str_name().to_owned());
    let inputs = interface.inputs.clone().unwrap_or_default();
    flags(
        "download",
        [
            ("--from-remote", paths.input_path()),
            ("--to-output-prefix", paths.output_prefix.clone()),
            ("--to-local-dir", to.to_owned()),
            ("--format", format),
            ("--file-input-layout", layout),
            ("--input-interface", STANDARD.encode(inputs.encode_to_vec())),
        ],
    )
}

/// Arguments of the uploader. Mirrors `flytek8s.SidecarCommandArgs`.
pub(super) fn upload(paths: &TaskPaths, from: &str, timeout: GoDuration, interface: &TypedInterface) -> Vec<String> {
    flags(
        "sidecar",
        [
            ("--timeout", timeout.to_string()),
            ("--to-raw-output", paths.raw_output_prefix.clone()),
            ("--to-output-prefix", paths.output_prefix.clone()),
            ("--from-local-dir", from.to_owned()),
            ("--interface", STANDARD.encode(interface.encode_to_vec())),
        ],
    )
}

fn flags<const N: usize>(subcommand: &str, flags: [(&str, String); N]) -> Vec<String> {
    let flags = flags.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]);
    std::iter::once(subcommand.to_owned()).chain(flags).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::config::StorageConfig;

    fn storage() -> CopilotStorage {
        let mut storage = StorageConfig::standard();
        storage.stow.config.insert("secret_key".into(), "hush".into());
        CopilotStorage::new(&storage, 4)
    }

    #[test]
    fn without_a_secret_the_settings_are_on_the_command_line() {
        let command = entrypoint(&CoPilotConfig::default(), &storage()).unwrap();
        assert!(command.contains(&"--logger.level=4".to_owned()));
        assert_eq!(
            command[command.len() - 3..],
            ["--storage.stow.config", "secret_key=hush", "--storage.stow.kind=s3"]
        );
    }

    #[test]
    fn with_a_secret_no_credentials_are_on_the_command_line() {
        let mut config = CoPilotConfig { storage_config_secret_name: "creds".into(), ..Default::default() };
        let command = entrypoint(&config, &storage()).unwrap();
        assert_eq!(command[command.len() - 2..], ["--config", "/etc/flyte/copilot/*.yaml"]);
        assert!(!command.iter().any(|argument| argument.contains("hush")));

        config.storage_config_override = Some(Box::new(StorageConfig::standard()));
        let command = entrypoint(&config, &storage()).unwrap();
        assert!(command.contains(&"region=us-east-1".to_owned()) && !command.iter().any(|a| a.contains("hush")));
    }

    #[test]
    fn a_store_without_settings_is_refused() {
        let error = entrypoint(&CoPilotConfig::default(), &CopilotStorage::default()).unwrap_err();
        assert_eq!(error.to_string(), "no stow.config or stow.kind specified");
    }
}
