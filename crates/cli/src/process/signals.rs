//! Signals that ask the program to stop.

use std::future::Future;

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::display::output;
use crate::failure::Failure;

/// A signal that asks the program to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopSignal {
    pub name: &'static str,
    number: u8,
}

/// The signals that ask a program to stop. A terminal sends SIGHUP when it is closed.
const STOP_SIGNALS: [StopSignal; 3] = [
    StopSignal { name: "SIGINT", number: 2 },
    StopSignal { name: "SIGTERM", number: 15 },
    StopSignal { name: "SIGHUP", number: 1 },
];

/// A shell reports a program that a signal ended with the exit code 128 + the number of the signal.
const SIGNAL_EXIT_BASE: u8 = 128;

/// Receives the stop signals. From its creation on, these signals do not end the process by themselves.
pub struct SignalReceiver(Vec<(Signal, StopSignal)>);

impl StopSignal {
    /// The exit code of a program that stopped because of this signal.
    pub fn exit_code(self) -> u8 {
        SIGNAL_EXIT_BASE + self.number
    }
}

impl SignalReceiver {
    /// Starts to receive the stop signals.
    pub fn new() -> anyhow::Result<Self> {
        let receivers =
            STOP_SIGNALS.into_iter().map(|stop| Ok((signal(SignalKind::from_raw(stop.number.into()))?, stop)));
        receivers.collect::<anyhow::Result<_>>().map(Self).context("cannot receive signals")
    }

    /// Waits for the next stop signal.
    pub async fn receive(&mut self) -> StopSignal {
        let all = self.0.iter_mut().map(|(signal, stop)| {
            Box::pin(async move {
                signal.recv().await;
                *stop
            })
        });
        futures::future::select_all(all).await.0
    }

    /// Does `work` until it is complete or a stop signal arrives. After a signal `work` is dropped; the caller then stops
    /// everything that `work` has used.
    pub async fn run_until_stopped<T>(&mut self, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        tokio::select! {
            result = work => result,
            stop = self.receive() => {
                output::note(&format!("{}: stopping; a second signal stops at once", stop.name));
                Err(Failure::AlreadyReported(stop.exit_code()))
            }
        }
    }

    /// From now on the next stop signal ends the process at once.
    pub fn exit_on_next(mut self) {
        tokio::spawn(async move {
            let stop = self.receive().await;
            std::process::exit(stop.exit_code().into());
        });
    }
}
