//! The port and the token of a sandbox. A persistent sandbox stores both, so that copies of its kubeconfig still work after
//! the next start.

use std::io;
use std::net::Ipv4Addr;
use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

use super::registration::replace_private;
use crate::display::output;

/// The file of port and token in the sandbox's directory.
const FILE: &str = "access.json";

/// The length of a token in hexadecimal digits: 128 bits.
const TOKEN_LENGTH: usize = 32;

/// The port and the token of a sandbox. The type has no `Debug`, so that the token cannot get into a log.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// The port of the API server on loopback.
    pub port: u16,
    /// The bearer token that the API server accepts.
    pub token: String,
}

impl Access {
    /// Reads the stored port and token, if there are any.
    pub fn read(dir: &Path) -> anyhow::Result<Option<Self>> {
        let path = dir.join(FILE);
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        let found = serde_json::from_slice(&bytes).ok().filter(Self::is_generated);
        if found.is_none() {
            output::warn(&format!(
                "{} does not contain a valid token: a new token is created, and older kubeconfigs do not work any more",
                path.display()
            ));
        }
        Ok(found)
    }

    /// Stores port and token in a file that only its owner can read.
    pub fn write(&self, dir: &Path) -> anyhow::Result<()> {
        let path = dir.join(FILE);
        let text = serde_json::to_vec_pretty(self).map_err(io::Error::from);
        text.and_then(|text| replace_private(&path, &text)).with_context(|| format!("cannot write {}", path.display()))
    }

    /// True for a token that a sandbox has generated. Any other token may be easy to guess; an empty one would accept
    /// every request.
    fn is_generated(&self) -> bool {
        self.token.len() == TOKEN_LENGTH && self.token.bytes().all(|letter| letter.is_ascii_hexdigit())
    }
}

/// Listens on the requested port. If it is 0, listens on the port of the previous start, or on a free port.
pub async fn listen(requested: u16, previous: Option<u16>) -> anyhow::Result<TcpListener> {
    if let Some(previous) = previous.filter(|_| requested == 0)
        && let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, previous)).await
    {
        return Ok(listener);
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, requested)).await;
    listener.with_context(|| format!("--port: cannot listen on 127.0.0.1:{requested}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::unix::fs::PermissionsExt;

    use k8s_openapi::api::core::v1::Namespace;
    use kube::api::ListParams;
    use kube::config::{KubeConfigOptions, Kubeconfig};
    use kube::{Api, Client, Config};

    use super::super::{DirectoryChoice, Sandbox, SandboxOptions};
    use super::*;
    use crate::program::Program;

    async fn is_accepted(kubeconfig: &str) -> bool {
        let kubeconfig = Kubeconfig::from_yaml(kubeconfig).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        let namespaces: Api<Namespace> = Api::all(Client::try_from(config).unwrap());
        namespaces.list(&ListParams::default()).await.is_ok()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_copy_of_the_kubeconfig_works_after_the_next_start() {
        let dir = tempfile::tempdir().unwrap();
        let options = SandboxOptions {
            directory: DirectoryChoice::Persistent(dir.path().to_owned()),
            ..SandboxOptions::default()
        };
        let first = Sandbox::start(&Program::new(), options.clone()).await.unwrap();
        let copy = std::fs::read_to_string(dir.path().join("kubeconfig")).unwrap();
        let stored = Access::read(dir.path()).unwrap().unwrap();
        assert!(copy.contains(&stored.token));
        let mode = std::fs::metadata(dir.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(is_accepted(&copy).await);
        first.stop().await.unwrap();
        assert!(!is_accepted(&copy).await);

        let second = Sandbox::start(&Program::new(), options).await.unwrap();
        assert_eq!(Access::read(dir.path()).unwrap().unwrap().token, stored.token);
        assert!(is_accepted(&copy).await, "port and token are those of the first start");
        second.stop().await.unwrap();
    }

    #[test]
    fn a_token_that_no_sandbox_generated_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Access::read(dir.path()).unwrap().is_none());
        for content in ["", "{}", r#"{"port": 1, "token": ""}"#, r#"{"port": 1, "token": "password"}"#] {
            std::fs::write(dir.path().join(FILE), content).unwrap();
            assert!(Access::read(dir.path()).unwrap().is_none(), "{content}");
        }
        let access = Access { port: 7, token: "0123456789abcdef".repeat(2) };
        access.write(dir.path()).unwrap();
        assert!(Access::read(dir.path()).unwrap() == Some(access));
    }

    #[tokio::test]
    async fn a_sandbox_starts_on_another_port_if_the_previous_one_is_in_use() {
        let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let taken = other.local_addr().unwrap().port();
        let elsewhere = listen(0, Some(taken)).await.unwrap();
        assert_ne!(elsewhere.local_addr().unwrap().port(), taken);
        let refused = listen(taken, None).await.unwrap_err().to_string();
        assert!(refused.starts_with("--port: cannot listen"), "{refused}");
    }
}
