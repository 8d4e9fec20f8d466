//! Which faults a run has, and when.
//!
//! Each run switches on a random part of all faults, with random rates: runs with a few kinds of faults reach states
//! that a run with all of them at once never reaches. Faults end at a known time; afterwards everything must recover.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::random::Random;

/// How far a clock may be wrong, in seconds. A task that sleeps until a time that a wrong clock gave it may sleep this much
/// longer, and every task must end soon after the last fault.
pub const LARGEST_CLOCK_ERROR: u64 = 150;
/// How many tokens the pool has at first.
pub const FIRST_POOL_LIMIT: usize = 1;

/// The faults of a run.
#[derive(Clone, Debug)]
pub struct Faults {
    /// Rates of faults that hit single calls.
    pub rates: Rates,
    /// Outages and other incidents, in the order of their times.
    pub incidents: Vec<(Duration, Incident)>,
    /// When everything works again.
    pub end: Duration,
    active: Arc<AtomicBool>,
    random: Random,
}

/// How probable each fault is, for each call.
#[derive(Clone, Debug, Default)]
pub struct Rates {
    /// The request does not reach the server.
    pub lost_request: f64,
    /// The request is carried out, and the answer does not arrive.
    pub lost_answer: f64,
    /// The server refuses with 409, 429, 500, 503 or 504.
    pub refused: f64,
    /// The request arrives twice.
    pub duplicated: f64,
    /// The request, or the answer, takes up to several seconds.
    pub delayed: f64,
    /// The connection hangs until the client gives up.
    pub hanging: f64,
    /// A watch ends, for each change that it delivers.
    pub watch_cut: f64,
    /// A watch delivers a change late.
    pub watch_delayed: f64,
    /// A watch ends with 410, so that the client must list again.
    pub watch_expired: f64,
    /// A list is answered from an older state.
    pub stale_list: f64,
    /// Calls of the events service fail, before or after they took effect.
    pub events: f64,
    /// Calls of the cache service fail.
    pub cache: f64,
    /// Calls of the storage fail.
    pub storage: f64,
}

/// Something that happens once.
#[derive(Clone, Debug)]
pub enum Incident {
    /// A process is killed. It starts again by itself.
    Kill(usize),
    /// A process does not run for a while.
    Pause(usize, Duration),
    /// A process reaches the API server no more.
    Partition(usize, Cut, Duration),
    /// The clock of a process is wrong by this many seconds from now on.
    ClockJump(usize, i64),
    /// The API server answers nobody.
    ApiOutage(Duration),
    /// The events service answers nobody.
    EventsOutage(Duration),
    /// The cache service answers nobody.
    CacheOutage(Duration),
    /// The storage answers nobody.
    StorageOutage(Duration),
    /// The API server forgets its history of changes: watches must list again.
    Compaction,
    /// Revisions go backwards, as after a restore of etcd. The administrator starts all replicas again after this time.
    RevisionsGoBack(Duration),
    /// An orderly end of a process, as for a new version.
    Stop(usize),
    /// The pool gets this many tokens: every replica starts again with the new configuration.
    PoolLimit(usize),
}

/// Which part of the traffic a partition cuts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Everything.
    All,
    /// The leader lease alone.
    Lease,
    /// Watches deliver nothing.
    Watches,
    /// Writes are lost.
    Writes,
}

impl Faults {
    /// No faults.
    #[must_use]
    pub fn none(seed: u64) -> Self {
        let random = Random::new(seed, "faults");
        let active = Arc::new(AtomicBool::new(false));
        Self { rates: Rates::default(), incidents: Vec::new(), end: Duration::ZERO, active, random }
    }

    /// The faults of a seed, for this many executors.
    #[must_use]
    pub fn random(seed: u64, executors: usize) -> Self {
        let random = Random::new(seed, "faults");
        // Half of the kinds are off. The others range from rare to one call in five.
        let rate = || *random.pick(&[0.0, 0.0, 0.0, 0.01, 0.05, 0.2]).unwrap_or(&0.0);
        let rates = Rates {
            lost_request: rate(),
            lost_answer: rate(),
            refused: rate(),
            duplicated: rate(),
            delayed: rate(),
            hanging: rate() / 4.0,
            watch_cut: rate(),
            watch_delayed: rate(),
            watch_expired: rate(),
            stale_list: rate(),
            events: rate(),
            cache: rate(),
            storage: rate(),
        };
        let end = random.millis(20_000, 120_000);
        let mut incidents: Vec<_> = (0..random.below(7))
            .map(|_| {
                let at = random.millis(0, u64::try_from(end.as_millis()).unwrap_or(u64::MAX));
                (at, incident(&random, executors))
            })
            .collect();
        incidents.sort_by_key(|(at, _)| *at);
        Self { rates, incidents, end, active: Arc::new(AtomicBool::new(true)), random }
    }

    /// Whether requests to the API server can fail. As upstream, the executor then uses its budget of system failures.
    #[must_use]
    pub fn hit_the_api_server(&self) -> bool {
        let Rates { lost_request, lost_answer, refused, hanging, stale_list, .. } = self.rates;
        let is_cut = |(_, incident): &(Duration, Incident)| {
            matches!(incident, Incident::Partition(..) | Incident::ApiOutage(_) | Incident::Pause(..))
        };
        [lost_request, lost_answer, refused, hanging, stale_list].iter().any(|rate| *rate > 0.0)
            || self.incidents.iter().any(is_cut)
    }

    /// The largest number of tokens that the pool has at any time.
    #[must_use]
    pub fn pool_limit(&self) -> usize {
        let limits = self.incidents.iter().filter_map(|(_, incident)| match incident {
            Incident::PoolLimit(limit) => Some(*limit),
            _ => None,
        });
        limits.fold(FIRST_POOL_LIMIT, usize::max)
    }

    /// From now on nothing fails.
    pub fn stop(&self) {
        self.active.store(false, Ordering::Relaxed);
    }

    /// True with this probability, as long as faults are active.
    #[must_use]
    pub fn hits(&self, rate: f64) -> bool {
        rate > 0.0 && self.active.load(Ordering::Relaxed) && self.random.chance(rate)
    }

    /// The random numbers of faults.
    #[must_use]
    pub fn random_numbers(&self) -> &Random {
        &self.random
    }
}

fn incident(random: &Random, executors: usize) -> Incident {
    let executor = usize::try_from(random.below(executors as u64)).unwrap_or_default();
    // Around the times of the lease (10 s, 15 s) and well beyond.
    let span = random.millis(500, 40_000);
    match random.below(14) {
        0..3 => Incident::Kill(executor),
        3 => Incident::Stop(executor),
        4 => Incident::Pause(executor, span),
        5 | 6 => {
            let cut = random.pick(&[Cut::All, Cut::Lease, Cut::Watches, Cut::Writes]).copied();
            Incident::Partition(executor, cut.unwrap_or(Cut::All), span)
        }
        7 => {
            let seconds = i64::try_from(random.below(2 * LARGEST_CLOCK_ERROR)).unwrap_or_default();
            Incident::ClockJump(executor, seconds - i64::try_from(LARGEST_CLOCK_ERROR).unwrap_or_default())
        }
        8 => Incident::ApiOutage(span),
        9 => Incident::EventsOutage(span),
        10 => {
            if random.chance(0.5) {
                Incident::CacheOutage(span)
            } else {
                Incident::StorageOutage(span * 3)
            }
        }
        11 => Incident::PoolLimit(usize::try_from(1 + random.below(3)).unwrap_or(1)),
        12 => Incident::RevisionsGoBack(span),
        _ => Incident::Compaction,
    }
}
