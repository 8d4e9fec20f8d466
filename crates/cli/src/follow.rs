//! Actions on their way: a table that is redrawn in place on a terminal, a line for every change elsewhere.

mod board;
mod changes;
mod screen;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::bail;
use futures::StreamExt;
use jiff::Timestamp;
use kube::Client;

use crate::output;
use crate::signals::Stop;
pub use crate::summary::Outcome;
use crate::summary::Summary;

pub use board::Sighting;
use board::{Board, Key};
use changes::{Change, Scope};
use screen::Screen;
pub use screen::Stream;

/// How often durations in a live table move on.
const TICK: Duration = Duration::from_millis(200);

/// A cluster that does not answer for this long is gone; watches mend themselves after shorter breaks.
const SILENCE: Duration = Duration::from_secs(15);

/// How to follow.
#[derive(Clone, Debug, Default)]
pub struct FollowOptions {
    /// Where progress is shown.
    pub stream: Stream,
    /// How long at most; without it until all have ended.
    pub timeout: Option<Duration>,
    /// A signal ends the looking and not the tasks. Otherwise signals are somebody else's to take.
    pub may_leave: bool,
    /// Actions that are not there are still to come; otherwise they have gone.
    pub to_come: bool,
}

/// What became of an action; in the order in which they were asked for.
#[derive(Clone, Debug)]
pub struct Followed {
    /// How it ended; nothing if it is still under way.
    pub outcome: Option<Outcome>,
    pub phase: String,
    pub attempts: u32,
    /// Code of its error, or what it waits for.
    pub reason: String,
    pub message: String,
    pub duration: Duration,
    /// Everything that was seen of it.
    pub seen: Vec<Sighting>,
}

/// Which actions `get --watch` shows, and how.
pub struct Watched {
    /// One namespace, or all.
    pub namespace: Option<String>,
    /// Only those with these labels.
    pub selector: Option<String>,
    /// Only these; all if empty.
    pub names: Vec<String>,
    /// An object on each line instead of a table.
    pub json: bool,
}

/// Follows actions, given by namespace and name, until all have ended, the time is over, or a signal comes.
///
/// A signal leaves the actions alone; those under way have no outcome in the answer.
pub async fn follow(
    client: &Client,
    actions: &[(String, String)],
    options: FollowOptions,
) -> anyhow::Result<Vec<Followed>> {
    let mut board = Board::of(actions, options.to_come);
    let mut screen = Screen::new(options.stream);
    let namespaces: BTreeSet<_> = actions.iter().map(|(namespace, _)| namespace.clone()).collect();
    let scopes = namespaces.into_iter().map(|namespace| Scope { namespace: Some(namespace), selector: None });
    let mut changes = changes::watch(client, scopes.collect());
    let deadline = options.timeout.and_then(|limit| Instant::now().checked_add(limit));
    let mut silent = None;
    let mut tick = tokio::time::interval(TICK);
    let mut stop = options.may_leave.then(Stop::new).transpose()?;
    let mut interrupted = false;
    while !board.have_all_ended() {
        tokio::select! {
            change = changes.next() => match change {
                Some(change) => apply(change, &mut board, &mut screen, &mut silent)?,
                None => bail!("the watch of actions has ended"),
            },
            _ = tick.tick() => screen.draw(&board),
            () = asked(&mut stop) => {
                interrupted = true;
                break;
            }
        }
        if deadline.is_some_and(|deadline| Instant::now() > deadline) {
            break;
        }
    }
    screen.draw(&board);
    screen.finish();
    if interrupted && !board.have_all_ended() {
        output::note("the tasks go on; `aileron get -w` shows them, `aileron abort NAME` stops them");
    }
    Ok(board.followed())
}

/// Shows actions and their changes until Ctrl-C.
pub async fn watch(client: &Client, watched: Watched) -> anyhow::Result<()> {
    let Watched { namespace, selector, names, json } = watched;
    let mut board = Board::of_all(names);
    let mut screen = if json { Screen::json() } else { Screen::new(Stream::Out) };
    let mut changes = changes::watch(client, vec![Scope { namespace, selector }]);
    let mut silent = None;
    let mut tick = tokio::time::interval(TICK);
    let mut stop = Some(Stop::new()?);
    loop {
        tokio::select! {
            change = changes.next() => match change {
                Some(change) => apply(change, &mut board, &mut screen, &mut silent)?,
                None => bail!("the watch of actions has ended"),
            },
            _ = tick.tick() => screen.draw(&board),
            () = asked(&mut stop) => break,
        }
    }
    screen.finish();
    Ok(())
}

/// Waits for a signal, for ever if none is taken.
async fn asked(stop: &mut Option<Stop>) {
    match stop {
        Some(stop) => _ = stop.asked().await,
        None => std::future::pending().await,
    }
}

fn apply(change: Change, board: &mut Board, screen: &mut Screen, silent: &mut Option<Instant>) -> anyhow::Result<()> {
    let (now, wall) = (Instant::now(), Timestamp::now());
    let changed: Vec<Key> = match change {
        Change::Seen(action) => board.see(Summary::new(&action), now, wall).into_iter().collect(),
        Change::Gone(key) => board.lose(&key, now, wall).into_iter().collect(),
        Change::Listed { namespace, keys } => board.keep(namespace.as_deref(), &keys, now, wall),
        Change::Broken { error, for_good: true } => return Err(error),
        Change::Broken { error, .. } => {
            if silent.get_or_insert(now).elapsed() > SILENCE {
                return Err(error.context("the cluster does not answer any more"));
            }
            return Ok(());
        }
    };
    *silent = None;
    for key in &changed {
        screen.tell(board, key);
    }
    Ok(())
}
