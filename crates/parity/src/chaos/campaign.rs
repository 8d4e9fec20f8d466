//! Kills, pauses and restarts in random order, while tasks run.

use std::fs;
use std::io::{IsTerminal, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use aileron_lease::LEASE_NAME;
use anyhow::{Context, Result};
use fastrand::Rng;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, Patch, PatchParams};
use serde::Serialize;
use serde_json::json;

use super::faults::{FaultCounts, Pace, heal, inject};
use super::replica::Replica;
use super::world::{Failure, World};
use crate::cluster::{Server, User};

/// Time between two kills, in milliseconds.
const KILL_MS: (u64, u64) = (1_000, 3_000);
/// Time between two faults, in milliseconds.
const FAULT_MS: (u64, u64) = (500, 4_000);
/// Of a hundred kills, so many hit the leader. The others hit either process.
const LEADER_KILLS: u32 = 75;
/// After so many of a hundred kills of a leader, the standby has to wait until the lease expires (15 s). After the others the
/// lease is released in the name of the dead process, because otherwise nobody would lead most of the time.
const EXPIRED_LEASES: u32 = 5;
/// A short pause, in milliseconds. It ends before the lease expires.
const SHORT_PAUSE_MS: (u64, u64) = (1_000, 5_000);
/// A standby leads at the latest this long after the last renewal of the leader: the lease (15 s), the pause between two
/// looks (2 s), the request, and a loaded machine. It is also the limit for the first leader.
const TAKEOVER_TIMEOUT: Duration = Duration::from_secs(60);
/// Tasks that have ended are checked this often. It bounds the memory.
const CHECK_EVERY: Duration = Duration::from_secs(10);
/// How long after the last fault all tasks must have ended. They wait for each other (pool, quota), and for pauses of up to
/// 30 s between tries.
const SETTLES_WITHIN: Duration = Duration::from_secs(300);
/// Pause between two looks at the replicas.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// What a campaign consists of.
#[derive(Clone, Debug)]
pub struct Options {
    /// The API server.
    pub server: Server,
    /// Fixes the random choices. Times differ from run to run.
    pub seed: u64,
    /// How often a process is killed.
    pub kills: u32,
    /// Tasks that are open at the same time.
    pub open_tasks: usize,
    /// Other incidents.
    pub incidents: Incidents,
    /// Where logs and the history of a broken rule are written.
    pub out: PathBuf,
}

/// After how many kills an incident happens; 0 means never.
#[derive(Clone, Copy, Debug)]
pub struct Incidents {
    /// The leader is paused for some seconds.
    pub short_pause: u32,
    /// The leader is paused until the standby leads.
    pub long_pause: u32,
    /// The API server is killed and started again.
    pub apiserver_restart: u32,
    /// etcd is killed and started again.
    pub etcd_restart: u32,
}

/// What happened.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figures {
    /// The seed.
    pub seed: u64,
    /// Processes that were killed.
    pub kills: u32,
    /// Kills of the leader among them.
    pub leader_kills: u32,
    /// How often a process led that had not led before.
    pub leaders: u32,
    /// Pauses that ended before the lease expired.
    pub short_pauses: u32,
    /// Pauses in which the standby took over.
    pub long_pauses: u32,
    /// Restarts of the API server.
    pub apiserver_restarts: u32,
    /// Restarts of etcd.
    pub etcd_restarts: u32,
    /// Processes that ended because they had lost the lease.
    pub lost_leases: u32,
    /// Faults of the events service and of the cache service.
    pub service_faults: u64,
    /// Faults of the storage.
    pub storage_faults: u64,
    /// Refused requests and ended watches.
    pub api_faults: u64,
    /// Tasks that were submitted.
    pub tasks_submitted: u64,
    /// Tasks that ended and were checked.
    pub tasks_checked: u64,
    /// How long it took.
    pub seconds: u64,
    /// The broken rules, with what happened; `None` if every promise was kept.
    pub failure: Option<String>,
}

impl Default for Incidents {
    fn default() -> Self {
        Self { short_pause: 10, long_pause: 29, apiserver_restart: 23, etcd_restart: 37 }
    }
}

/// Runs a campaign.
///
/// # Errors
/// It could not be run. Broken rules are not an error, see [`Figures::failure`].
pub async fn run(options: &Options) -> Result<Figures> {
    let world = World::start(options.server, options.seed).await?;
    let replicas = Replica::pair(&world).await?;
    let proxies: Vec<_> = replicas.iter().map(|replica| Arc::clone(&replica.proxy)).collect();
    let (counts, begin) = (FaultCounts::default(), Instant::now());
    let mut campaign = Campaign {
        world: &world,
        replicas,
        random: Rng::with_seed(options.seed ^ 1),
        figures: Figures { seed: options.seed, ..Figures::default() },
        last_leader: String::new(),
        checked: Instant::now(),
        options,
    };
    let pace = Pace { pause_ms: FAULT_MS, lease: true };
    let outcome = tokio::select! {
        outcome = campaign.disturb() => outcome,
        () = inject(&world, &proxies, Rng::with_seed(options.seed ^ 2), pace, &counts) => Ok(()),
        () = world.load(options.open_tasks, Duration::ZERO) => Ok(()),
    };
    heal(&world, &proxies);
    world.recorder.note("faults end");
    let outcome = match outcome {
        Ok(()) => campaign.settle().await,
        failed => failed,
    };
    let mut figures = campaign.figures;
    (figures.tasks_submitted, figures.tasks_checked) = world.counts();
    figures.service_faults = counts.services.load(Ordering::Relaxed);
    figures.storage_faults = counts.storage.load(Ordering::Relaxed);
    figures.api_faults = counts.api.load(Ordering::Relaxed);
    figures.seconds = begin.elapsed().as_secs();
    if let Err(error) = outcome {
        let failure = error.downcast::<Failure>()?.to_string();
        keep_logs(world.cluster.dir(), &options.out, &failure)?;
        figures.failure = Some(failure);
    }
    Ok(figures)
}

struct Campaign<'a> {
    world: &'a World,
    replicas: [Replica; 2],
    random: Rng,
    figures: Figures,
    last_leader: String,
    checked: Instant,
    options: &'a Options,
}

impl Campaign<'_> {
    async fn disturb(&mut self) -> Result<()> {
        self.until_leader("").await?;
        while self.figures.kills < self.options.kills {
            let pause = self.random_time(KILL_MS);
            self.wait(pause).await?;
            self.kill().await?;
            self.incident().await?;
            self.show();
        }
        Ok(())
    }

    /// Lets time pass, and meanwhile starts processes again that have lost the lease.
    async fn wait(&mut self, time: Duration) -> Result<()> {
        let begin = Instant::now();
        while begin.elapsed() < time {
            self.look().await?;
            tokio::time::sleep(POLL_INTERVAL.min(time)).await;
        }
        if self.checked.elapsed() > CHECK_EVERY {
            self.checked = Instant::now();
            self.world.check_ended().await?;
        }
        Ok(())
    }

    async fn look(&mut self) -> Result<()> {
        for replica in &mut self.replicas {
            self.figures.lost_leases += u32::from(replica.keep_alive(self.world).await?);
        }
        if let Some(leader) = self.world.recorder.leader()
            && leader != self.last_leader
        {
            self.figures.leaders += 1;
            self.last_leader = leader;
        }
        Ok(())
    }

    /// The replica that leads, with its identity.
    fn leader(&self) -> Option<(usize, String)> {
        let identities = self.replicas.iter().map(|replica| replica.identity(self.world));
        identities.enumerate().find_map(|(place, identity)| Some((place, identity?)))
    }

    /// Waits until another process leads than the one with this identity.
    async fn until_leader(&mut self, other_than: &str) -> Result<usize> {
        let begin = Instant::now();
        loop {
            if let Some((place, identity)) = self.leader()
                && identity != other_than
            {
                return Ok(place);
            }
            if begin.elapsed() > TAKEOVER_TIMEOUT {
                return Err(Failure(format!("nobody leads after {TAKEOVER_TIMEOUT:?}")).into());
            }
            self.wait(POLL_INTERVAL).await?;
        }
    }

    async fn kill(&mut self) -> Result<()> {
        let leader = self.leader().filter(|_| self.random.u32(..100) < LEADER_KILLS);
        let victim = leader.as_ref().map_or_else(|| self.random.usize(..2), |(place, _)| *place);
        let identity = self.replicas[victim].identity(self.world);
        self.replicas[victim].kill();
        self.figures.kills += 1;
        if let Some(identity) = identity {
            self.figures.leader_kills += 1;
            let expires = self.random.u32(..100) < EXPIRED_LEASES;
            if !expires {
                self.release(&identity).await;
            }
            self.replicas[victim].start(self.world).await?;
            if expires {
                self.until_leader(&identity).await?;
            }
            return Ok(());
        }
        self.replicas[victim].start(self.world).await
    }

    /// Releases the lease of a dead process.
    async fn release(&self, identity: &str) {
        let Ok(client) = self.world.cluster.client(User::Admin).await else { return };
        let leases: Api<Lease> = Api::namespaced(client, "flyte");
        let patch = json!([
            {"op": "test", "path": "/spec/holderIdentity", "value": identity},
            {"op": "replace", "path": "/spec/holderIdentity", "value": ""},
        ]);
        let Ok(patch) = serde_json::from_value(patch) else { return };
        let released = leases.patch(LEASE_NAME, &PatchParams::default(), &Patch::<()>::Json(patch)).await;
        // Without an API server, the standby waits until the lease expires.
        let text = released.map_or_else(|error| error.to_string(), |_| "done".to_owned());
        self.world.recorder.note(format!("the lease of {identity} is released: {text}"));
    }

    async fn incident(&mut self) -> Result<()> {
        let (kills, incidents) = (self.figures.kills, self.options.incidents);
        let is_due = |every: u32| every > 0 && kills % every == 0;
        if is_due(incidents.short_pause) {
            let place = self.until_leader("").await?;
            let pause = self.random_time(SHORT_PAUSE_MS);
            self.replicas[place].pause()?;
            self.wait(pause).await?;
            self.replicas[place].go_on()?;
            self.figures.short_pauses += 1;
        }
        if is_due(incidents.long_pause) {
            let place = self.until_leader("").await?;
            let identity = self.replicas[place].identity(self.world).context("the leader has no identity")?;
            self.replicas[place].pause()?;
            let taken = self.until_leader(&identity).await;
            // The standby has begun to work.
            let pause = self.random_time(SHORT_PAUSE_MS);
            self.wait(pause).await?;
            self.replicas[place].go_on()?;
            taken?;
            self.figures.long_pauses += 1;
        }
        if is_due(incidents.apiserver_restart) {
            self.world.recorder.note("the API server is restarted");
            self.world.cluster.restart_apiserver().await?;
            self.figures.apiserver_restarts += 1;
        }
        if is_due(incidents.etcd_restart) {
            self.world.recorder.note("etcd is restarted");
            self.world.cluster.restart_etcd().await?;
            self.figures.etcd_restarts += 1;
        }
        Ok(())
    }

    /// Without faults, everything must end.
    async fn settle(&mut self) -> Result<()> {
        let (world, replicas, figures) = (self.world, &mut self.replicas, &mut self.figures);
        world
            .settle(SETTLES_WITHIN, async || {
                for replica in replicas.iter_mut() {
                    figures.lost_leases += u32::from(replica.keep_alive(world).await?);
                }
                Ok(())
            })
            .await
    }

    fn random_time(&mut self, (from, to): (u64, u64)) -> Duration {
        Duration::from_millis(self.random.u64(from..to))
    }

    fn show(&self) {
        if std::io::stderr().is_terminal() {
            let (Figures { kills, leaders, .. }, (submitted, checked)) = (&self.figures, self.world.counts());
            let all = self.options.kills;
            eprint!("\r{kills} of {all} kills, {leaders} leaders, {checked} of {submitted} tasks checked ");
            let _ = std::io::stderr().flush();
        }
    }
}

/// Copies the logs out of the directory of the cluster, which is removed with it.
pub(super) fn keep_logs(from: &Path, out: &Path, failure: &str) -> Result<()> {
    fs::create_dir_all(out).with_context(|| format!("creating {}", out.display()))?;
    for entry in fs::read_dir(from)?.flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|end| end == "log") {
            fs::copy(&path, out.join(entry.file_name()))?;
        }
    }
    fs::write(out.join("failure.txt"), failure).context("writing the failure")
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { kills, leader_kills, leaders, short_pauses, long_pauses, lost_leases, .. } = self;
        let Self { apiserver_restarts, etcd_restarts, service_faults, storage_faults, api_faults, .. } = self;
        let Self { tasks_submitted, tasks_checked, seconds, seed, failure, .. } = self;
        writeln!(f, "kills               {kills}, {leader_kills} of them of the leader; {leaders} processes led")?;
        writeln!(f, "pauses              {short_pauses} short, {long_pauses} beyond the lease")?;
        writeln!(f, "lost leases         {lost_leases}")?;
        writeln!(f, "restarts            {apiserver_restarts} of the API server, {etcd_restarts} of etcd")?;
        writeln!(f, "faults              {service_faults} services, {storage_faults} storage, {api_faults} API")?;
        writeln!(f, "tasks               {tasks_submitted} submitted, {tasks_checked} ended and checked")?;
        let broken = failure.as_ref().map_or(0, |text| text.matches("BROKEN").count().max(1));
        write!(f, "violations          {broken}\ntime                {seconds} s, seed {seed}")
    }
}
