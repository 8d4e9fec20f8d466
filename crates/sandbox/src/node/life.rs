//! The life of a pod's containers: what is to be started or stopped next.
//!
//! Nothing here does anything: [`Life::plan`] decides, a worker acts and tells what came of it.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Container, Pod};

use super::requests::is_sidecar;

/// A container that crashes again and again is started again at least this often.
const LONGEST_BACKOFF: Duration = Duration::from_secs(300);
/// After so long a run a crash counts as the first again.
const FORGIVEN_AFTER: SignedDuration = SignedDuration::from_mins(10);

/// What a container is in its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Runs to its end before the next one starts.
    Init,
    /// Starts in the order of the init containers and stays.
    Sidecar,
    /// Runs beside the others.
    Main,
}

/// When containers are started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    Always,
    OnFailure,
    Never,
}

/// How a container ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub code: i32,
    pub reason: String,
    pub message: String,
    pub started: Timestamp,
    pub finished: Timestamp,
    pub id: String,
}

/// What a container is waiting for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub reason: String,
    pub message: String,
}

/// Where a container stands, as its status shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Waiting(Waiting),
    Running { since: Timestamp, id: String },
    Ended(Ended),
}

/// One container of a pod.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub name: String,
    pub image: String,
    pub role: Role,
    pub state: State,
    /// How its life before this one ended.
    pub last: Option<Ended>,
    /// How often it was made; all but the first are restarts.
    pub lives: u32,
    /// Whether somebody is at work on it: from the attempt to start it to its end.
    pub busy: bool,
    /// Whether it was told to stop.
    pub stopping: bool,
    /// Not started before.
    retry_at: Option<Timestamp>,
    /// What it will be waiting for in a moment.
    turn: Option<(Timestamp, Waiting)>,
    /// Whether it ever ran; a sidecar that did lets the next one start.
    came_up: bool,
    /// How often it ended and had to start again.
    crashes: u32,
    /// How often it could not be made, since it last could.
    hold_ups: u32,
}

/// All containers of a pod.
#[derive(Clone, Debug)]
pub(crate) struct Life {
    /// Init containers and sidecars in their order, then the others.
    pub slots: Vec<Slot>,
    pub policy: Policy,
    /// Nothing is started any more, and all that runs is stopped.
    pub ending: bool,
    /// Between two tries; it doubles.
    pub backoff: Duration,
    /// The pod, as messages name it.
    pub pod: String,
}

/// What is to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub start: Vec<usize>,
    pub stop: Vec<usize>,
    /// When to look again at the latest.
    pub wake: Option<Timestamp>,
    /// Nothing runs and nothing ever will.
    pub finished: bool,
}

impl Waiting {
    /// Waits for this reason.
    pub(crate) fn new(reason: &str, message: impl Into<String>) -> Self {
        Self { reason: reason.to_owned(), message: message.into() }
    }
}

impl Slot {
    fn new(container: &Container, role: Role, waiting: &str) -> Self {
        Self {
            name: container.name.clone(),
            image: container.image.clone().unwrap_or_default(),
            role,
            state: State::Waiting(Waiting::new(waiting, "")),
            last: None,
            lives: 0,
            busy: false,
            stopping: false,
            retry_at: None,
            turn: None,
            came_up: false,
            crashes: 0,
            hold_ups: 0,
        }
    }

    /// How it ended if it did, now or in its life before.
    pub(crate) fn ended(&self) -> Option<&Ended> {
        match &self.state {
            State::Ended(ended) => Some(ended),
            State::Waiting(_) => self.last.as_ref(),
            State::Running { .. } => None,
        }
    }

    fn restarts_after(&self, ended: &Ended, policy: Policy) -> bool {
        match (self.role, policy) {
            (Role::Sidecar, _) => true,
            (Role::Init, Policy::Never) | (Role::Main, Policy::Never) => false,
            (Role::Init, _) | (Role::Main, Policy::OnFailure) => ended.code != 0,
            (Role::Main, Policy::Always) => true,
        }
    }

    /// Whether its work is over for good.
    fn is_settled(&self, policy: Policy) -> bool {
        matches!(&self.state, State::Ended(ended) if !self.busy && !self.restarts_after(ended, policy))
    }

    /// A container is made for it.
    pub(crate) fn created(&mut self) {
        if let State::Ended(ended) = &self.state {
            self.last = Some(ended.clone());
        }
        self.lives += 1;
        self.hold_ups = 0;
        self.turn = None;
    }

    /// It runs.
    pub(crate) fn runs(&mut self, since: Timestamp, id: String) {
        self.came_up = true;
        self.state = State::Running { since, id };
    }
}

impl Life {
    /// All containers wait.
    pub(crate) fn new(pod: &Pod, backoff: Duration) -> Self {
        let spec = pod.spec.as_ref();
        let init = spec.and_then(|spec| spec.init_containers.as_deref()).unwrap_or_default();
        let main = spec.map(|spec| spec.containers.as_slice()).unwrap_or_default();
        let waiting = if init.is_empty() { "ContainerCreating" } else { "PodInitializing" };
        let role = |container: &Container| if is_sidecar(container) { Role::Sidecar } else { Role::Init };
        let slots = init.iter().map(|container| Slot::new(container, role(container), waiting));
        let slots = slots.chain(main.iter().map(|container| Slot::new(container, Role::Main, waiting))).collect();
        let policy = match spec.and_then(|spec| spec.restart_policy.as_deref()) {
            Some("Never") => Policy::Never,
            Some("OnFailure") => Policy::OnFailure,
            _ => Policy::Always,
        };
        let text = |value: Option<&String>| value.cloned().unwrap_or_default();
        let metadata = &pod.metadata;
        let (name, namespace) = (text(metadata.name.as_ref()), text(metadata.namespace.as_ref()));
        let pod = format!("{name}_{namespace}({})", text(metadata.uid.as_ref()));
        Self { slots, policy, ending: false, backoff, pod }
    }

    /// Those of a role.
    pub(crate) fn of(&self, role: Role) -> impl Iterator<Item = &Slot> {
        self.slots.iter().filter(move |slot| slot.role == role)
    }

    /// Whether the containers may start: all init containers succeeded and all sidecars came up. Once a container
    /// was made this holds for good.
    pub(crate) fn is_initialized(&self) -> bool {
        self.of(Role::Main).any(|slot| slot.lives > 0) || self.next_init().is_none()
    }

    /// The init container whose turn it is.
    fn next_init(&self) -> Option<usize> {
        self.slots.iter().position(|slot| match slot.role {
            Role::Init => !matches!(&slot.state, State::Ended(ended) if ended.code == 0),
            Role::Sidecar => !slot.came_up,
            Role::Main => false,
        })
    }

    /// Whether an init container failed and none may try again.
    pub(crate) fn failed_to_initialize(&self) -> bool {
        self.policy == Policy::Never
            && self.of(Role::Init).any(|slot| matches!(&slot.state, State::Ended(ended) if ended.code != 0))
    }

    /// Whether anything runs or is about to.
    pub(crate) fn is_active(&self) -> bool {
        self.slots.iter().any(|slot| slot.busy)
    }

    /// What is to be done now. Mirrors `kubeGenericRuntimeManager.computePodActions`.
    pub(crate) fn plan(&self, now: Timestamp) -> Plan {
        let mut plan = Plan::default();
        if self.ending || self.failed_to_initialize() {
            plan.stop = self.positions(|slot| slot.busy && !slot.stopping).collect();
            plan.finished = !self.is_active();
            return plan;
        }
        let initialized = self.is_initialized();
        if initialized && self.of(Role::Main).all(|slot| slot.is_settled(self.policy)) {
            // The last sidecar goes first: the others may depend on those before them.
            let last = self.positions(|slot| slot.busy).last();
            plan.stop = last.into_iter().filter(|&index| !self.slots[index].stopping).collect();
            plan.finished = last.is_none();
            return plan;
        }
        let upto = if initialized { self.slots.len() } else { self.next_init().map_or(0, |next| next + 1) };
        for (index, slot) in self.slots.iter().enumerate().take(upto) {
            if let Some((at, _)) = &slot.turn {
                plan.wake = earlier(plan.wake, *at);
            }
            let over = match slot.role {
                Role::Init if initialized => true,
                _ => slot.is_settled(self.policy),
            };
            if slot.busy || over {
                continue;
            }
            match slot.retry_at {
                Some(at) if at > now => plan.wake = earlier(plan.wake, at),
                _ => plan.start.push(index),
            }
        }
        plan
    }

    fn positions(&self, which: impl Fn(&Slot) -> bool) -> impl Iterator<Item = usize> {
        self.slots.iter().enumerate().filter(move |(_, slot)| which(slot)).map(|(index, _)| index)
    }

    /// A container ended. It is started again at once the first time, and later after a pause that doubles.
    pub(crate) fn ended(&mut self, index: usize, ended: Ended) {
        let base = self.backoff;
        let (policy, closing) = (self.policy, self.ending || self.failed_to_initialize());
        let Some(slot) = self.slots.get_mut(index) else { return };
        let restarts = !closing && !slot.stopping && slot.restarts_after(&ended, policy);
        slot.busy = false;
        slot.retry_at = None;
        if ended.finished.duration_since(ended.started) > FORGIVEN_AFTER && ended.started > Timestamp::UNIX_EPOCH {
            slot.crashes = 0;
        }
        let earlier_crashes = slot.crashes;
        slot.crashes = earlier_crashes.saturating_add(1);
        if !restarts || earlier_crashes == 0 {
            slot.state = State::Ended(ended);
            return;
        }
        let pause = pause(base, earlier_crashes - 1);
        let message = format!("back-off {} restarting failed container={} pod={}", spoken(pause), slot.name, self.pod);
        slot.retry_at = after(ended.finished, pause);
        slot.last = Some(ended);
        slot.state = State::Waiting(Waiting::new("CrashLoopBackOff", message));
    }

    /// A container could not be made; it is tried again later. `then` is what it waits for meanwhile, and if there is
    /// such a thing the pauses get longer. What only has to be created is found soon.
    pub(crate) fn held_up(&mut self, index: usize, waiting: Waiting, then: Option<Waiting>, now: Timestamp) {
        let base = self.backoff;
        let Some(slot) = self.slots.get_mut(index) else { return };
        let pause = if then.is_some() { pause(base, slot.hold_ups) } else { base };
        slot.hold_ups = slot.hold_ups.saturating_add(1);
        slot.busy = false;
        slot.retry_at = after(now, pause);
        slot.turn = then.and_then(|then| Some((after(now, pause / 2)?, then)));
        if let State::Ended(ended) = &slot.state {
            slot.last = Some(ended.clone());
        }
        slot.state = State::Waiting(waiting);
    }

    /// Lets those turn whose time has come; tells which.
    pub(crate) fn turn(&mut self, now: Timestamp) -> Vec<usize> {
        let mut turned = Vec::new();
        for (index, slot) in self.slots.iter_mut().enumerate() {
            if let Some((_, waiting)) = slot.turn.take_if(|(at, _)| *at <= now) {
                slot.state = State::Waiting(waiting);
                turned.push(index);
            }
        }
        turned
    }

    /// Nothing is started any more. What paused between two lives is as it ended.
    pub(crate) fn end(&mut self) {
        self.ending = true;
        for slot in self.slots.iter_mut().filter(|slot| !slot.busy) {
            if matches!(slot.state, State::Waiting(_))
                && let Some(last) = slot.last.take()
            {
                slot.state = State::Ended(last);
            }
        }
    }
}

fn earlier(known: Option<Timestamp>, other: Timestamp) -> Option<Timestamp> {
    Some(known.map_or(other, |known| known.min(other)))
}

fn after(time: Timestamp, pause: Duration) -> Option<Timestamp> {
    time.checked_add(SignedDuration::try_from(pause).ok()?).ok()
}

/// Doubles with every time before.
fn pause(base: Duration, before: u32) -> Duration {
    base.saturating_mul(2_u32.saturating_pow(before)).min(LONGEST_BACKOFF)
}

/// As Go prints a duration of this size.
fn spoken(pause: Duration) -> String {
    aileron_kubekit::duration::GoDuration(i64::try_from(pause.as_nanos()).unwrap_or(i64::MAX)).to_string()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;
