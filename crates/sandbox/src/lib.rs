//! A single-machine cluster: a node that runs pods as processes, and simulated operators.
//!
//! Both use only a Kubernetes client. They work with the in-memory API server of `aileron-apiserver` and with a real
//! one. The node also needs the pod logs of the API server, to which it appends the output of containers.

mod node;
mod operators;

pub use node::{Node, NodeError, NodeOptions};
pub use operators::{OperatorError, Operators, Rules, RulesError, install_definitions};
