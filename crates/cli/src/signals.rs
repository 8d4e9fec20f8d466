//! Signals that ask the program to end.

use std::future::Future;

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;
use crate::output;

/// A signal that asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    pub name: &'static str,
    number: u8,
}

/// The signals that end a program of this kind; the last is what a terminal sends when it is closed.
const KINDS: [Asked; 3] =
    [Asked { name: "SIGINT", number: 2 }, Asked { name: "SIGTERM", number: 15 }, Asked { name: "SIGHUP", number: 1 }];

/// What a shell adds to the number of the signal that ended a program.
const BY_SIGNAL: u8 = 128;

/// Takes those signals for as long as the program lives: they do not end it by themselves any more.
pub struct Stop(Vec<(Signal, Asked)>);

impl Asked {
    /// The exit code that says so.
    pub fn exit_code(self) -> u8 {
        BY_SIGNAL + self.number
    }
}

impl Stop {
    /// Takes them from now on.
    pub fn new() -> anyhow::Result<Self> {
        let taken = KINDS.into_iter().map(|asked| Ok((signal(SignalKind::from_raw(asked.number.into()))?, asked)));
        taken.collect::<anyhow::Result<_>>().map(Self).context("cannot take signals")
    }

    /// Waits for one.
    pub async fn asked(&mut self) -> Asked {
        let all = self.0.iter_mut().map(|(signal, asked)| {
            Box::pin(async move {
                signal.recv().await;
                *asked
            })
        });
        futures::future::select_all(all).await.0
    }

    /// Does the work unless one comes before its end. The work is dropped then, and what it used is to be stopped.
    pub async fn or<T>(&mut self, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        tokio::select! {
            result = work => result,
            asked = self.asked() => {
                output::note(&format!("{}: stopping; a second signal stops at once", asked.name));
                Err(Failure::Told(asked.exit_code()))
            }
        }
    }

    /// From now on the next one ends the program at once.
    pub fn at_once(mut self) {
        tokio::spawn(async move {
            let asked = self.asked().await;
            std::process::exit(asked.exit_code().into());
        });
    }
}
