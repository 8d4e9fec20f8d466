//! One executor of a run: started, killed, paused and started again.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};

use super::world::{Failure, World};
use crate::cluster::{Proxy, User};
use crate::suite::{Program, Recording};

/// What the log of an executor says that has lost the lease. It ends then, and Kubernetes starts it again.
const LOST_LEASE: &str = "leadership was lost";
/// A log that is larger is begun anew; its content is kept once.
const LARGEST_LOG: u64 = 32 << 20;
/// How much of the log of an executor that ended by itself is shown.
const SHOWN_BYTES: usize = 6_000;

/// An executor behind a proxy, with a user of its own.
#[derive(Debug)]
pub(super) struct Replica {
    letter: &'static str,
    user: User,
    pub proxy: Arc<Proxy>,
    program: Option<Program>,
    /// Starts so far. The name of a process has it, so that no two processes have the same name.
    starts: u32,
    log: PathBuf,
}

impl Replica {
    /// Starts both replicas.
    pub async fn pair(world: &World) -> Result<[Self; 2]> {
        let mut pair =
            [Self::new(world, "a", User::Executor).await?, Self::new(world, "b", User::OtherExecutor).await?];
        for replica in &mut pair {
            replica.start(world).await?;
        }
        Ok(pair)
    }

    async fn new(world: &World, letter: &'static str, user: User) -> Result<Self> {
        let proxy = Arc::new(Proxy::start_as(&world.cluster, user).await?);
        let log = world.cluster.dir().join(format!("{letter}.log"));
        Ok(Self { letter, user, proxy, program: None, starts: 0, log })
    }

    /// The name of the current process.
    pub fn name(&self) -> String {
        format!("{}-{}", self.letter, self.starts)
    }

    /// Starts a new process.
    pub async fn start(&mut self, world: &World) -> Result<()> {
        if fs::metadata(&self.log).is_ok_and(|meta| meta.len() > LARGEST_LOG) {
            fs::rename(&self.log, self.log.with_extension("old.log"))?;
        }
        self.proxy.forget_requests();
        self.starts += 1;
        let recording = Recording { recorder: &world.recorder, stub: &world.stub, user: self.user };
        let (name, kubeconfig) = (self.name(), self.proxy.kubeconfig());
        let names = (name.as_str(), self.letter);
        let program = Program::start_recorded(&world.cluster, kubeconfig, &world.settings(), names, &recording).await?;
        self.program = Some(program);
        Ok(())
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        if let Some(program) = self.program.take() {
            program.kill();
        }
    }

    /// SIGSTOP.
    pub fn pause(&self) -> Result<()> {
        self.program.as_ref().context("no process")?.pause()
    }

    /// SIGCONT.
    pub fn go_on(&self) -> Result<()> {
        self.program.as_ref().context("no process")?.go_on()
    }

    /// The number of the current process.
    pub fn id(&self) -> Option<u32> {
        self.program.as_ref().map(Program::id)
    }

    /// The identity in the leader lease, if it is that of the current process.
    pub fn identity(&self, world: &World) -> Option<String> {
        self.program.as_ref()?;
        world.recorder.leader().filter(|holder| holder.starts_with(&format!("{}_", self.name())))
    }

    /// Starts a process anew that has ended because it lost the lease. Returns whether it had.
    ///
    /// # Errors
    /// The process ended for another reason ([`Failure`]).
    pub async fn keep_alive(&mut self, world: &World) -> Result<bool> {
        let Some(program) = &mut self.program else { return Ok(false) };
        let Some(status) = program.exited()? else { return Ok(false) };
        let log = program.log();
        let shown = &log[log.floor_char_boundary(log.len().saturating_sub(SHOWN_BYTES))..];
        if !shown.contains(LOST_LEASE) {
            return Err(Failure(format!("{} ended by itself with {status}:\n{shown}", self.name())).into());
        }
        self.program = None;
        self.start(world).await?;
        Ok(true)
    }
}
