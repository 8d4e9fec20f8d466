//! What the node knows about one container of a pod.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Container;

use crate::node::containers::state::{RunState, Termination, Waiting};

/// The role of a container in its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Runs to completion before the next container starts.
    Init,
    /// Starts in the order of the init containers and keeps running.
    Sidecar,
    /// Starts after the init containers.
    Main,
}

/// When terminated containers are started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RestartPolicy {
    Always,
    OnFailure,
    Never,
}

/// What the node knows about one container of a pod.
#[derive(Clone, Debug)]
pub(crate) struct ContainerRecord {
    pub name: String,
    pub image: String,
    pub role: Role,
    pub state: RunState,
    /// How the previous run terminated.
    pub last: Option<Termination>,
    /// How often the container was created. All creations after the first are restarts.
    pub creations: u32,
    /// Whether a container task works on it: from the attempt to create the container until its termination.
    pub active: bool,
    /// Whether the container was told to stop.
    pub stopping: bool,
    /// The container is not started before this time.
    pub(super) retry_at: Option<Timestamp>,
    /// The waiting reason that the container gets at this time, such as `ImagePullBackOff` after `ErrImagePull`.
    pub(super) next_waiting: Option<(Timestamp, Waiting)>,
    /// Whether the container has ever run. After a sidecar has run, the next init container may start.
    pub(super) has_run: bool,
    /// How often the container terminated and had to be started again.
    pub(super) crashes: u32,
    /// How often the creation has failed since it last succeeded.
    pub(super) failed_creations: u32,
}

impl ContainerRecord {
    pub(super) fn new(container: &Container, role: Role, waiting: &str) -> Self {
        Self {
            name: container.name.clone(),
            image: container.image.clone().unwrap_or_default(),
            role,
            state: RunState::Waiting(Waiting::new(waiting, "")),
            last: None,
            creations: 0,
            active: false,
            stopping: false,
            retry_at: None,
            next_waiting: None,
            has_run: false,
            crashes: 0,
            failed_creations: 0,
        }
    }

    /// How the container terminated, in this run or, if it waits for its next run, in the previous one.
    pub(crate) fn termination(&self) -> Option<&Termination> {
        match &self.state {
            RunState::Terminated(termination) => Some(termination),
            RunState::Waiting(_) => self.last.as_ref(),
            RunState::Running { .. } => None,
        }
    }

    /// Whether the container is started again after this termination.
    pub(super) fn restarts_after(&self, termination: &Termination, policy: RestartPolicy) -> bool {
        match (self.role, policy) {
            (Role::Sidecar, _) => true,
            (Role::Init, RestartPolicy::Never) | (Role::Main, RestartPolicy::Never) => false,
            (Role::Init, _) | (Role::Main, RestartPolicy::OnFailure) => termination.code != 0,
            (Role::Main, RestartPolicy::Always) => true,
        }
    }

    /// Whether the container has terminated and is not started again.
    pub(super) fn is_finished(&self, policy: RestartPolicy) -> bool {
        let RunState::Terminated(termination) = &self.state else { return false };
        !self.active && !self.restarts_after(termination, policy)
    }

    /// Whether the container has terminated with this result.
    pub(super) fn has_exited(&self, success: bool) -> bool {
        matches!(&self.state, RunState::Terminated(termination) if (termination.code == 0) == success)
    }

    /// The container was created.
    pub(crate) fn created(&mut self) {
        if let RunState::Terminated(termination) = &self.state {
            self.last = Some(termination.clone());
        }
        self.creations += 1;
        self.failed_creations = 0;
        self.next_waiting = None;
    }

    /// The process of the container runs.
    pub(crate) fn started(&mut self, since: Timestamp, id: String) {
        self.has_run = true;
        self.state = RunState::Running { since, id };
    }
}
