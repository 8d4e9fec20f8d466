//! A stand-in for the Go executor in flyte-binary, for suites in which executors change. It follows the Go executor's
//! leader election exactly, and drives tasks with one pod that succeeds. It is no complete executor.
//!
//! ```text
//!   start --- leaderElect ---> standby --- the lease is free or has expired ---> leads --- the lease is lost ---> ended
//!     |                                                                            ^
//!     +--- without leaderElect: no lease -----------------------------------------+
//! ```

mod election;
mod rounds;

use std::sync::Arc;
use std::time::Instant;

use aileron_executor::services::connect::{ConnectClient, ConnectOptions};
use aileron_executor::services::events::EventsClient;
use anyhow::{Context, Result, bail};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::Api;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use self::election::Election;
use self::rounds::{Rounds, is_transient};
use super::{Bench, POLL_INTERVAL, WAIT_TIMEOUT};
use crate::cluster::User;
use crate::events_stub::Listener;
use crate::recorder::Recorder;

/// A running stand-in. It ends when it is dropped, as a process that is killed: it does not release the lease.
#[derive(Debug)]
pub struct GoExecutor {
    name: String,
    state: watch::Receiver<GoState>,
    task: JoinHandle<Result<()>>,
    recorder: Option<Arc<Recorder>>,
    _listener: Listener,
}

/// What a stand-in does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoState {
    /// It waits for the lease and writes nothing else.
    Standby,
    /// It works on actions.
    Leads,
    /// It has lost the lease, and the process has ended. In a cluster, the kubelet starts it again.
    LostTheLease,
}

/// Whether the stand-in takes part in leader election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaderElect {
    /// The default of Flyte: it works without a lease.
    Off,
    /// `executor.leaderElect: true`.
    On,
}

impl GoExecutor {
    /// Starts a stand-in that acts as `user`. `host` is the name of its pod, and must be new for a recorder.
    ///
    /// # Errors
    /// There is no client for the user.
    pub async fn start(
        bench: &Bench,
        recorder: Option<&Arc<Recorder>>,
        user: User,
        host: &str,
        leader_elect: LeaderElect,
    ) -> Result<Self> {
        let listener = bench.stub.listen_for(host).await?;
        let client = bench.cluster.client(user).await?;
        let events = EventsClient::new(ConnectClient::new(&listener.url(), ConnectOptions::default())?);
        let rounds = Rounds { client: client.clone(), config: bench.settings().config()?, events };
        let election =
            (leader_elect == LeaderElect::On).then(|| Election::new(Api::<Lease>::namespaced(client, "flyte"), host));
        if let Some(recorder) = recorder {
            recorder.started(user, host);
        }
        let (send_state, state) = watch::channel(GoState::Standby);
        let task = tokio::spawn(run(rounds, election, send_state));
        Ok(Self { name: host.to_owned(), state, task, recorder: recorder.cloned(), _listener: listener })
    }

    /// What it does now.
    #[must_use]
    pub fn state(&self) -> GoState {
        *self.state.borrow()
    }

    /// Waits until it is in this state.
    ///
    /// # Errors
    /// The wait timed out, or the stand-in has ended with an error.
    pub async fn until(&mut self, wanted: GoState) -> Result<()> {
        let begin = Instant::now();
        while self.state() != wanted {
            self.check().await?;
            if begin.elapsed() > WAIT_TIMEOUT {
                bail!("{} is {:?} and not {wanted:?}", self.name, self.state());
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }

    /// Fails if a round has failed.
    ///
    /// # Errors
    /// A round has failed.
    pub async fn check(&mut self) -> Result<()> {
        if self.task.is_finished() && self.state() != GoState::LostTheLease {
            return (&mut self.task).await?.with_context(|| format!("{} has ended", self.name));
        }
        Ok(())
    }

    /// Ends the process. The lease stays as it is.
    pub fn stop(self) {}
}

impl Drop for GoExecutor {
    fn drop(&mut self) {
        self.task.abort();
        if let Some(recorder) = &self.recorder {
            recorder.ended(&self.name, "has ended");
        }
    }
}

async fn run(rounds: Rounds, election: Option<Election>, state: watch::Sender<GoState>) -> Result<()> {
    let work = async {
        loop {
            match rounds.all().await {
                Err(error) if is_transient(&error) => {}
                outcome => outcome?,
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    let Some(mut election) = election else {
        state.send_replace(GoState::Leads);
        return work.await;
    };
    election.acquire().await;
    state.send_replace(GoState::Leads);
    // The manager of controller-runtime ends without waiting for its rounds when the lease is lost.
    tokio::select! {
        outcome = work => outcome,
        () = election.renew_until_lost() => {
            state.send_replace(GoState::LostTheLease);
            Ok(())
        }
    }
}
