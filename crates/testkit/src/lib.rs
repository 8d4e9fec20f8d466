//! For the tests of plugins.
//!
//! | you want to | use |
//! | --- | --- |
//! | make a task, a pod, or a phase in one line | [`task`], [`running`], [`exited`], [`phase`] |
//! | compare an object with a file | [`golden!`] |
//! | compare many states with their phases at once | [`PhaseTable`] |
//! | check everything that the executor expects of a plugin | [`Conformance`] |
//!
//! ```
//! use aileron_machinery::serde_json::Value;
//! use aileron_testkit::{Conformance, Life, task};
//! # use aileron_machinery::k8s_openapi::api::core::v1::Pod;
//! # use aileron_machinery::pod::{PodOptions, build_pod, phase::task_phase};
//! # use aileron_machinery::{K8sPlugin, PhaseContext, PhaseInfo, PluginEntry, PluginError, TaskContext};
//! # struct Hello;
//! # impl K8sPlugin for Hello {
//! #     type Resource = Pod;
//! #     fn entry(&self) -> PluginEntry { PluginEntry::new("hello", &["hello"]) }
//! #     fn build(&self, task: &TaskContext) -> Result<Pod, PluginError> {
//! #         Ok(build_pod(task, PodOptions::default())?.into_pod())
//! #     }
//! #     fn phase(&self, cx: &PhaseContext<'_>, pod: &Pod) -> Result<PhaseInfo, PluginError> {
//! #         Ok(task_phase(cx, pod))
//! #     }
//! # }
//!
//! let report = Conformance::of(Hello)
//!     .task(task("hello", &Value::Null))
//!     .life(Life::pod_succeeds())
//!     .life(Life::pod_fails())
//!     .every(20) // a test of the plugin leaves this out: it then tries every fault at every place
//!     .check();
//! println!("{report}");
//! report.assert_passed();
//! ```

// So that the examples and the macro can name this crate in its own tests.
extern crate self as aileron_testkit;

mod conformance;
mod golden;
mod life;
mod phase_table;
mod report;
pub mod simulation;
mod trial;

pub use aileron_machinery::testing::{NAME, NOW, exited, phase, pod, running, task, variable};
pub use conformance::Conformance;
pub use golden::compare_with_golden;
pub use life::{Life, Step};
pub use phase_table::PhaseTable;
pub use report::{Check, Report};
