//! Decides which containers of a pod are started or stopped next.
//!
//! This module only decides and has no side effects. The worker of the pod carries out [`Lifecycle::next_actions`] and
//! reports what happened with the other methods.

use std::time::Duration;

use aileron_kubekit::duration::GoDuration;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Container, Pod};

use super::container_record::{ContainerRecord, RestartPolicy, Role};
use crate::node::containers::state::{RunState, Termination, Waiting};
use crate::node::resources::is_sidecar;

/// Longest delay between two attempts to start a container, as in a kubelet.
const MAX_BACKOFF: Duration = Duration::from_secs(300);
/// The crash count is reset after a run that was longer than this, as in a kubelet.
const CRASH_COUNT_RESET: SignedDuration = SignedDuration::from_mins(10);

/// The state of all containers of a pod.
#[derive(Clone, Debug)]
pub(crate) struct Lifecycle {
    /// Init containers and sidecars in the order of the pod spec, then the main containers.
    pub containers: Vec<ContainerRecord>,
    pub policy: RestartPolicy,
    /// Whether the pod ends: no container is started any more, and all running containers are stopped.
    pub ending: bool,
    /// First delay between two attempts to start a container. It doubles with each attempt.
    backoff: Duration,
    /// The pod in messages of a kubelet: `name_namespace(uid)`.
    pub pod: String,
}

/// What the worker of the pod has to do. Containers are named by their index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Actions {
    pub start: Vec<usize>,
    pub stop: Vec<usize>,
    /// The worker asks for the next actions at this time, or earlier if something happens.
    pub wake_at: Option<Timestamp>,
    /// No container runs and none will be started.
    pub finished: bool,
}

impl Lifecycle {
    /// All containers of a new pod wait.
    pub(crate) fn new(pod: &Pod, backoff: Duration) -> Self {
        let spec = pod.spec.as_ref();
        let init = spec.and_then(|spec| spec.init_containers.as_deref()).unwrap_or_default();
        let main = spec.map(|spec| spec.containers.as_slice()).unwrap_or_default();
        let waiting = if init.is_empty() { "ContainerCreating" } else { "PodInitializing" };
        let role = |container: &Container| if is_sidecar(container) { Role::Sidecar } else { Role::Init };
        let init = init.iter().map(|container| ContainerRecord::new(container, role(container), waiting));
        let main = main.iter().map(|container| ContainerRecord::new(container, Role::Main, waiting));
        let policy = match spec.and_then(|spec| spec.restart_policy.as_deref()) {
            Some("Never") => RestartPolicy::Never,
            Some("OnFailure") => RestartPolicy::OnFailure,
            _ => RestartPolicy::Always,
        };
        let text = |value: Option<&String>| value.cloned().unwrap_or_default();
        let metadata = &pod.metadata;
        let (name, namespace) = (text(metadata.name.as_ref()), text(metadata.namespace.as_ref()));
        let pod = format!("{name}_{namespace}({})", text(metadata.uid.as_ref()));
        Self { containers: init.chain(main).collect(), policy, ending: false, backoff, pod }
    }

    /// The containers with this role.
    pub(crate) fn with_role(&self, role: Role) -> impl Iterator<Item = &ContainerRecord> {
        self.containers.iter().filter(move |container| container.role == role)
    }

    /// Whether the main containers may start: all init containers have succeeded and all sidecars have run. This stays
    /// true once a main container was created.
    pub(crate) fn is_initialized(&self) -> bool {
        self.with_role(Role::Main).any(|container| container.creations > 0) || self.next_init().is_none()
    }

    /// The first init container or sidecar that the following containers have to wait for.
    fn next_init(&self) -> Option<usize> {
        self.containers.iter().position(|container| match container.role {
            Role::Init => !container.has_exited(true),
            Role::Sidecar => !container.has_run,
            Role::Main => false,
        })
    }

    /// Whether an init container has failed and the restart policy forbids another attempt.
    pub(crate) fn failed_to_initialize(&self) -> bool {
        self.policy == RestartPolicy::Never && self.with_role(Role::Init).any(|container| container.has_exited(false))
    }

    /// Whether a container task works on any container.
    pub(crate) fn is_active(&self) -> bool {
        self.containers.iter().any(|container| container.active)
    }

    /// What to do now. Mirrors `kubeGenericRuntimeManager.computePodActions`.
    pub(crate) fn next_actions(&self, now: Timestamp) -> Actions {
        let mut actions = Actions::default();
        if self.ending || self.failed_to_initialize() {
            actions.stop = self.indices(|container| container.active && !container.stopping).collect();
            actions.finished = !self.is_active();
            return actions;
        }
        let initialized = self.is_initialized();
        if initialized && self.with_role(Role::Main).all(|container| container.is_finished(self.policy)) {
            // Sidecars are stopped in reverse order: a later one may depend on an earlier one.
            let last = self.indices(|container| container.active).last();
            actions.stop = last.into_iter().filter(|&index| !self.containers[index].stopping).collect();
            actions.finished = last.is_none();
            return actions;
        }
        let count = if initialized { self.containers.len() } else { self.next_init().map_or(0, |next| next + 1) };
        for (index, container) in self.containers.iter().enumerate().take(count) {
            if let Some((at, _)) = &container.next_waiting {
                actions.wake_at = earlier(actions.wake_at, *at);
            }
            let finished = match container.role {
                Role::Init if initialized => true,
                _ => container.is_finished(self.policy),
            };
            if container.active || finished {
                continue;
            }
            match container.retry_at {
                Some(at) if at > now => actions.wake_at = earlier(actions.wake_at, at),
                _ => actions.start.push(index),
            }
        }
        actions
    }

    fn indices(&self, which: impl Fn(&ContainerRecord) -> bool) -> impl Iterator<Item = usize> {
        self.containers.iter().enumerate().filter(move |(_, container)| which(container)).map(|(index, _)| index)
    }

    /// A container has terminated. After its first crash it is started again at once, after later crashes with a delay
    /// that doubles.
    pub(crate) fn terminated(&mut self, index: usize, termination: Termination) {
        let base = self.backoff;
        let (policy, closing) = (self.policy, self.ending || self.failed_to_initialize());
        let Some(container) = self.containers.get_mut(index) else { return };
        let restarts = !closing && !container.stopping && container.restarts_after(&termination, policy);
        container.active = false;
        container.retry_at = None;
        let run = termination.finished.duration_since(termination.started);
        if run > CRASH_COUNT_RESET && termination.started > Timestamp::UNIX_EPOCH {
            container.crashes = 0;
        }
        let earlier_crashes = container.crashes;
        container.crashes = earlier_crashes.saturating_add(1);
        if !restarts || earlier_crashes == 0 {
            container.state = RunState::Terminated(termination);
            return;
        }
        let delay = delay(base, earlier_crashes - 1);
        let (text, name) = (go_text(delay), &container.name);
        let message = format!("back-off {text} restarting failed container={name} pod={}", self.pod);
        container.retry_at = after(termination.finished, delay);
        container.last = Some(termination);
        container.state = RunState::Waiting(Waiting::new("CrashLoopBackOff", message));
    }

    /// A container could not be created; another attempt follows.
    ///
    /// `then` is the waiting reason in the second half of the delay. If it is set, the delay doubles with each attempt.
    /// Otherwise the delay stays short, because the container only waits for another object, such as a config map.
    pub(crate) fn not_created(&mut self, index: usize, waiting: Waiting, then: Option<Waiting>, now: Timestamp) {
        let base = self.backoff;
        let Some(container) = self.containers.get_mut(index) else { return };
        let delay = if then.is_some() { delay(base, container.failed_creations) } else { base };
        container.failed_creations = container.failed_creations.saturating_add(1);
        container.active = false;
        container.retry_at = after(now, delay);
        container.next_waiting = then.and_then(|then| Some((after(now, delay / 2)?, then)));
        if let RunState::Terminated(termination) = &container.state {
            container.last = Some(termination.clone());
        }
        container.state = RunState::Waiting(waiting);
    }

    /// Changes the waiting reason of containers for which this is due, from `ErrImagePull` to `ImagePullBackOff`.
    /// Returns their indices.
    pub(crate) fn begin_due_backoffs(&mut self, now: Timestamp) -> Vec<usize> {
        let mut changed = Vec::new();
        for (index, container) in self.containers.iter_mut().enumerate() {
            if let Some((_, waiting)) = container.next_waiting.take_if(|(at, _)| *at <= now) {
                container.state = RunState::Waiting(waiting);
                changed.push(index);
            }
        }
        changed
    }

    /// The pod ends: no container is started any more. A container that waits for a restart keeps the termination of
    /// its last run.
    pub(crate) fn end(&mut self) {
        self.ending = true;
        for container in self.containers.iter_mut().filter(|container| !container.active) {
            if matches!(container.state, RunState::Waiting(_))
                && let Some(last) = container.last.take()
            {
                container.state = RunState::Terminated(last);
            }
        }
    }
}

fn earlier(known: Option<Timestamp>, other: Timestamp) -> Option<Timestamp> {
    Some(known.map_or(other, |known| known.min(other)))
}

fn after(time: Timestamp, delay: Duration) -> Option<Timestamp> {
    time.checked_add(SignedDuration::try_from(delay).ok()?).ok()
}

/// The delay after this number of earlier attempts. It doubles with each attempt.
fn delay(base: Duration, earlier_attempts: u32) -> Duration {
    base.saturating_mul(2_u32.saturating_pow(earlier_attempts)).min(MAX_BACKOFF)
}

/// The duration as Go prints it.
fn go_text(duration: Duration) -> String {
    GoDuration(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)).to_string()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;
