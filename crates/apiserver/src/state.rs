//! Everything that requests share.

pub(crate) mod clock;
pub(crate) mod faults;
pub(crate) mod logs;
pub(crate) mod random;
pub(crate) mod services;

use jiff::Timestamp;

use self::clock::Clock;
use self::faults::Faults;
use self::logs::PodLogs;
use self::random::Random;
use self::services::ServiceUrls;
use crate::kinds::registry::Registry;
use crate::store::Store;

/// Name of the only user. Whoever has the token is this user and may do everything.
pub(crate) const USER: &str = "sandbox-admin";

/// Default of [`Options::history`]. A watch that is further behind has to list again. With about 2 kB per change, the
/// kind that changes most takes about 10 MB.
const HISTORY: usize = 5_000;

/// Settings of a server.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many changes of each kind are kept for watches; at least one.
    pub history: usize,
    /// Whether the server also does the work of a cluster's controllers: garbage collection of owned objects, emptying
    /// of deleted namespaces, and counting of quota usage. A bare kube-apiserver does none of it.
    pub controllers: bool,
    /// Namespaces that exist from the start.
    pub namespaces: Vec<String>,
    /// The version that `/version` reports.
    pub version: (u32, u32, u32),
    /// The time of day that the server writes into objects; by default the clock of the operating system.
    pub clock: Clock,
    /// With a seed, the server generates the same uids, names, tokens and random faults in every run that sends the
    /// same requests. This is for tests only, because the tokens can be guessed. By default the operating system
    /// provides the randomness.
    pub seed: Option<u64>,
}

/// The state of one server. Requests share it.
#[derive(Debug)]
pub(crate) struct ServerState {
    pub options: Options,
    pub registry: Registry,
    pub random: Random,
    pub faults: Faults,
    pub services: ServiceUrls,
    pub store: Store,
    pub logs: PodLogs,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            history: HISTORY,
            controllers: true,
            namespaces: ["default", "kube-system", "kube-public", "kube-node-lease"].map(str::to_owned).into(),
            version: (1, 34, 4),
            clock: Clock::default(),
            seed: None,
        }
    }
}

impl ServerState {
    /// The state of a server without any object.
    pub(crate) fn new(options: Options) -> Self {
        let random = Random::new(options.seed);
        // Faults have their own numbers, so that a request that asks for a fault does not change the next uid.
        let faults = Faults::new(Random::new(options.seed.map(|_| random.number())));
        Self {
            registry: Registry::new(),
            random,
            faults,
            services: ServiceUrls::default(),
            store: Store::new(options.history.max(1)),
            logs: PodLogs::default(),
            options,
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.options.clock.now()
    }
}
