//! A single-machine cluster.
//!
//! [`ApiServer`] is an in-memory Kubernetes API server, of use to any program written with kube-rs: hand
//! [`ApiServer::client`] to the code under test and no socket is opened, or [`ApiServer::serve`] it on loopback for
//! `kubectl`. It answers with the texts and codes of kube-apiserver, which a suite compares side by side.
//!
//! ```
//! # use k8s_openapi::api::core::v1::ConfigMap;
//! # use kube::{Api, api::{ObjectMeta, PostParams}};
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let server = aileron_sandbox::ApiServer::new(aileron_sandbox::Options::default());
//! let maps: Api<ConfigMap> = Api::default_namespaced(server.client());
//! let metadata = ObjectMeta { name: Some("settings".into()), ..Default::default() };
//! let made = maps.create(&PostParams::default(), &ConfigMap { metadata, ..Default::default() }).await.unwrap();
//! assert!(made.metadata.uid.is_some());
//! # });
//! ```

mod admission;
mod body;
mod crd;
mod create;
mod defaults;
mod delete;
mod discovery;
mod dispatch;
mod events;
mod faults;
mod field_names;
mod garbage;
mod kind;
mod kubeconfig;
mod list;
mod logs;
mod metadata;
mod node;
mod object;
mod openapi;
mod operators;
mod patch;
mod persist;
mod pods;
mod protobuf;
mod random;
mod registry;
mod request;
mod reviews;
mod server;
mod status;
mod store;
mod table;
mod update;
mod watch;

pub use faults::{Fault, Faults, Match};
pub use kind::Kind;
pub use logs::{LogLine, PodLogs};
pub use node::{Node, NodeError, NodeOptions};
pub use operators::{OperatorError, Operators, Rules, RulesError, install_definitions};
pub use persist::{PersistError, Persistence};
pub use server::{ApiServer, Options};
pub use status::{ApiError, Cause};
pub use store::{Snapshot, Store, Stored};
