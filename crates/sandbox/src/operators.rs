//! Simulated operators: they change the status of objects as the real operators would, and do nothing else.
//!
//! **This is a simulation: no driver, no worker and no cluster runs, and no outputs are written.** It is for trying and
//! testing programs that create these objects and read their status.
//!
//! A rule file describes each kind; see [`Rules`]. `operators/rules/` has the rule files of `SparkApplication`,
//! `RayJob`, `DaskJob`, `PyTorchJob`, `TFJob`, `MPIJob` and `JobSet`. Operators need only a client, so they work with
//! any API server. The status of an object tells the operator which stage is next, so operators may be stopped and
//! started at any time.
//!
//! An object may request how it ends: with an annotation or label, or with an environment variable of any of its
//! containers:
//!
//! | annotation | variable | meaning |
//! | --- | --- | --- |
//! | `simulate.aileron.dev/outcome` | `AILERON_SIMULATE` | `succeed` (the default), `fail`, `hang`, or another outcome in the rules of the kind; `fail-once` fails only the first attempt; `fail, fail, succeed` is a list with one outcome per attempt |
//! | `simulate.aileron.dev/message` | `AILERON_SIMULATE_MESSAGE` | message of a failure |
//! | `simulate.aileron.dev/run-for` | `AILERON_SIMULATE_RUN_FOR` | how long the object runs before it ends: `3s` |
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use aileron_apiserver::{ApiServer, Options};
//! use aileron_sandbox::{Operators, Rules, install_definitions};
//!
//! let server = ApiServer::new(Options::default());
//! install_definitions(&server.client(), &Rules::builtin()).await.unwrap();
//! let operators = Operators::start(server.client(), Rules::builtin()).await.unwrap();
//! // ... create a RayJob, and watch its status ...
//! operators.stop().await;
//! # });
//! ```

mod definition;
mod object;
mod operator;
mod placeholders;
mod request;
mod rules;
mod stages;
mod tracker;

use std::collections::BTreeSet;

use kube::Client;
use tokio::task::JoinSet;

pub use definition::install_definitions;
pub use rules::{Rules, RulesError};

/// Why operators cannot start.
#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    /// Two rule files are for the same kind, so two operators would change the same objects.
    #[error("there are two rule files for {0}; remove one of them")]
    Duplicate(String),
    /// The API server refused a CustomResourceDefinition.
    #[error(
        "the API server refused the definition {name}; remove the existing one, or install the kind in another way"
    )]
    Refused {
        /// The name of the definition.
        name: String,
        /// The answer of the API server.
        #[source]
        source: kube::Error,
    },
    /// The API server accepted a CustomResourceDefinition but does not serve the kind.
    #[error(
        "the definition {0} was not established in time; its status shows whether its names conflict with another kind"
    )]
    NotEstablished(String),
}

/// Running operators. Dropping this value stops them.
#[derive(Debug)]
pub struct Operators {
    tasks: JoinSet<()>,
}

impl Operators {
    /// Starts an operator for each kind. The kinds may be defined before or later; see [`install_definitions`].
    ///
    /// # Errors
    /// Two rule files are for the same kind.
    pub async fn start(client: Client, rules: Vec<Rules>) -> Result<Self, OperatorError> {
        let mut kinds = BTreeSet::new();
        if let Some(duplicate) = rules.iter().find(|rules| !kinds.insert((&rules.group, &rules.plural))) {
            return Err(OperatorError::Duplicate(duplicate.qualified()));
        }
        let mut tasks = JoinSet::new();
        for rules in rules {
            tasks.spawn(operator::run(client.clone(), rules));
        }
        Ok(Self { tasks })
    }

    /// Stops the operators. Objects keep their status.
    pub async fn stop(mut self) {
        self.tasks.shutdown().await;
    }
}
