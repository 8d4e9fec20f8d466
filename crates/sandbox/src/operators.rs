//! Simulated operators: they advance the status of objects as the real ones would, and nothing else.
//!
//! **A simulation: no driver, no worker and no cluster runs, and nobody writes outputs.** It is for trying and testing
//! what creates these objects and reads their status.
//!
//! One rule file per kind says what happens, see [`Rules`]; `operators/rules/` has those for `SparkApplication`,
//! `RayJob`, `DaskJob`, `PyTorchJob`, `TFJob`, `MPIJob` and `JobSet`. Operators only need a client, so they work on any
//! API server; they find out from an object's status how far it is, so they may be stopped and started at any time.
//!
//! An object may say how it ends, by annotation (or label), or by an environment variable of any of its containers:
//!
//! | annotation | variable | meaning |
//! | --- | --- | --- |
//! | `simulate.aileron.dev/outcome` | `AILERON_SIMULATE` | `succeed` (the default), `fail`, `hang`, or what else the rules of the kind know; `fail-once` fails the first attempt only; `fail, fail, succeed` says it for each attempt |
//! | `simulate.aileron.dev/message` | `AILERON_SIMULATE_MESSAGE` | what a failure says |
//! | `simulate.aileron.dev/run-for` | `AILERON_SIMULATE_RUN_FOR` | how long it runs before the end: `3s` |
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use aileron_sandbox::{ApiServer, Operators, Options, Rules, install_definitions};
//!
//! let server = ApiServer::new(Options::default());
//! install_definitions(&server.client(), &Rules::builtin()).await.unwrap();
//! let operators = Operators::start(server.client(), Rules::builtin()).await.unwrap();
//! // ... create a RayJob, and watch its status ...
//! operators.stop().await;
//! # });
//! ```

mod advance;
mod board;
mod definition;
mod fill;
mod follow;
mod request;
mod rules;

use std::collections::BTreeSet;

use kube::Client;
use tokio::task::JoinSet;

pub use definition::install_definitions;
pub use rules::{Rules, RulesError};

/// Operators cannot work.
#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    /// Two of them would fight for the same objects.
    #[error("there are two rule files for {0}; leave one of them out")]
    Twice(String),
    /// The API server does not take a definition.
    #[error("the definition {name} was refused; remove the one that is there, or install its kind by other means")]
    Refused {
        /// Name of the definition.
        name: String,
        /// What the API server says.
        #[source]
        source: kube::Error,
    },
    /// The API server took a definition and does not serve it.
    #[error("the definition {0} was not in use after a while; see its status for the names it conflicts with")]
    NotEstablished(String),
}

/// Operators that are at work. Dropping them ends their work too.
#[derive(Debug)]
pub struct Operators {
    tasks: JoinSet<()>,
}

impl Operators {
    /// Starts an operator for each kind. It needs the kinds to be defined, at the latest some time after: see
    /// [`install_definitions`].
    ///
    /// # Errors
    /// Two rule files are for the same kind.
    pub async fn start(client: Client, rules: Vec<Rules>) -> Result<Self, OperatorError> {
        let mut kinds = BTreeSet::new();
        if let Some(twice) = rules.iter().find(|rules| !kinds.insert((&rules.group, &rules.plural))) {
            return Err(OperatorError::Twice(twice.qualified()));
        }
        let mut tasks = JoinSet::new();
        for rules in rules {
            tasks.spawn(follow::follow(client.clone(), rules));
        }
        Ok(Self { tasks })
    }

    /// Ends their work. Objects stay as they are.
    pub async fn stop(mut self) {
        self.tasks.shutdown().await;
    }
}
