//! An in-memory Kubernetes API server.
//!
//! [`ApiServer`] serves any program written with kube-rs. Tests give [`ApiServer::client`] to the code under test; no
//! socket is opened. [`ApiServer::serve`] serves the same objects on a TCP listener, for example for `kubectl`. Error
//! texts and codes are those of kube-apiserver; a conformance suite compares the two servers.
//!
//! ```
//! # use k8s_openapi::api::core::v1::ConfigMap;
//! # use kube::{Api, api::{ObjectMeta, PostParams}};
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let server = aileron_apiserver::ApiServer::new(aileron_apiserver::Options::default());
//! let maps: Api<ConfigMap> = Api::default_namespaced(server.client());
//! let metadata = ObjectMeta { name: Some("settings".into()), ..Default::default() };
//! let created = maps.create(&PostParams::default(), &ConfigMap { metadata, ..Default::default() }).await.unwrap();
//! assert!(created.metadata.uid.is_some());
//! # });
//! ```
//!
//! The server runs no pods. A node (a kubelet) is a client: it binds pods, writes their status, and appends their
//! output to [`ApiServer::logs`], from which the server answers `pods/log`.
//!
//! # Modules, from the bottom up
//!
//! | module | content |
//! | --- | --- |
//! | `object` | reading and writing fields that all objects have |
//! | `kinds` | what the server knows about each kind; the registry of served kinds |
//! | `errors` | error answers: the `Status` object |
//! | `store` | all objects, the revision counter and the history that watches read |
//! | `state` | everything that requests share: store, kinds, options, injected faults, pod logs |
//! | `strategy` | rules per kind: defaults, validation, which fields may change |
//! | `request` | URL and body of a request |
//! | `admission` | checks of new objects against other objects: namespace, limits, quotas, webhooks |
//! | `controllers` | consequences of a write: garbage collection, quota counts, served kinds |
//! | `verbs` | create, update, patch, delete, list, watch |
//! | `routes` | from an HTTP request to the verb and back |
//! | `server` | [`ApiServer`] |
//! | `persistence` | [`Persistence`]: the objects in a file |

mod admission;
mod controllers;
mod errors;
mod kinds;
mod object;
mod persistence;
mod request;
mod routes;
mod server;
mod state;
mod store;
mod strategy;
mod verbs;

pub use errors::{ApiError, Cause};
pub use kinds::Kind;
pub use persistence::{PersistError, Persistence, PrivateDirError, create_private_dir};
pub use server::ApiServer;
pub use state::Options;
pub use state::clock::Clock;
pub use state::faults::{Fault, Faults, Match};
pub use state::logs::{LogLine, PodLogs};
pub use store::{ChangeType, Observed, Snapshot, Store, Stored};
