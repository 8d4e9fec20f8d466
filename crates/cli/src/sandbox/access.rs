//! Where a sandbox is served and what lets others in. One that is kept keeps both, so that copies of its kubeconfig work
//! after the next start too.

use std::io;
use std::net::Ipv4Addr;
use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

use super::state::replace_private;
use crate::output;

/// The file in the sandbox's directory.
const FILE: &str = "access.json";

/// Letters of a token, which are hexadecimal digits: 128 bits.
const TOKEN_LENGTH: usize = 32;

/// Address and secret of a sandbox. It cannot be printed, so that the secret gets into no log.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// The port on loopback.
    pub port: u16,
    /// Whoever presents it is let in.
    pub token: String,
}

impl Access {
    /// What was kept, if anything was.
    pub fn read(dir: &Path) -> anyhow::Result<Option<Self>> {
        let path = dir.join(FILE);
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        let found = serde_json::from_slice(&bytes).ok().filter(Self::is_ours);
        if found.is_none() {
            output::warn(&format!(
                "{} does not hold the secret of a sandbox: a new one is made, and older kubeconfigs do not work any more",
                path.display()
            ));
        }
        Ok(found)
    }

    /// Keeps it, for its owner only.
    pub fn write(&self, dir: &Path) -> anyhow::Result<()> {
        let path = dir.join(FILE);
        let text = serde_json::to_vec_pretty(self).map_err(io::Error::from);
        text.and_then(|text| replace_private(&path, &text)).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Anything else was not made by us and may be easy to guess; an empty token would let everybody in.
    fn is_ours(&self) -> bool {
        self.token.len() == TOKEN_LENGTH && self.token.bytes().all(|letter| letter.is_ascii_hexdigit())
    }
}

/// Listens on the port that was asked for. If that is 0, on the one of the last time, or on a free one.
pub async fn listen(asked: u16, last: Option<u16>) -> anyhow::Result<TcpListener> {
    if let Some(last) = last.filter(|_| asked == 0)
        && let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, last)).await
    {
        return Ok(listener);
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, asked)).await;
    listener.with_context(|| format!("--port: cannot listen on 127.0.0.1:{asked}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::unix::fs::PermissionsExt;

    use k8s_openapi::api::core::v1::Namespace;
    use kube::api::ListParams;
    use kube::config::{KubeConfigOptions, Kubeconfig};
    use kube::{Api, Client, Config};

    use super::super::{Place, Sandbox, SandboxOptions};
    use super::*;

    async fn is_let_in(kubeconfig: &str) -> bool {
        let kubeconfig = Kubeconfig::from_yaml(kubeconfig).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        let namespaces: Api<Namespace> = Api::all(Client::try_from(config).unwrap());
        namespaces.list(&ListParams::default()).await.is_ok()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_copy_of_the_kubeconfig_works_after_the_next_start() {
        let dir = tempfile::tempdir().unwrap();
        let options = SandboxOptions { place: Place::Persistent(dir.path().to_owned()), ..SandboxOptions::default() };
        let first = Sandbox::start(options.clone()).await.unwrap();
        let copy = std::fs::read_to_string(dir.path().join("kubeconfig")).unwrap();
        let kept = Access::read(dir.path()).unwrap().unwrap();
        assert!(copy.contains(&kept.token));
        let mode = std::fs::metadata(dir.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(is_let_in(&copy).await);
        first.stop().await.unwrap();
        assert!(!is_let_in(&copy).await);

        let second = Sandbox::start(options).await.unwrap();
        assert_eq!(Access::read(dir.path()).unwrap().unwrap().token, kept.token);
        assert!(is_let_in(&copy).await, "the address and the secret are those of the first time");
        second.stop().await.unwrap();
    }

    #[test]
    fn what_we_did_not_make_lets_nobody_in() {
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
    async fn a_port_that_is_taken_is_no_reason_not_to_start() {
        let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let taken = other.local_addr().unwrap().port();
        let elsewhere = listen(0, Some(taken)).await.unwrap();
        assert_ne!(elsewhere.local_addr().unwrap().port(), taken);
        let refused = listen(taken, None).await.unwrap_err().to_string();
        assert!(refused.starts_with("--port: cannot listen"), "{refused}");
    }
}
