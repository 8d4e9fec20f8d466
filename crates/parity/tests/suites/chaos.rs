//! A short form of `make chaos`.

use std::path::Path;
use std::time::SystemTime;

use aileron_parity::chaos::campaign::{Incidents, Options, run};
use aileron_parity::suite::Server;
use anyhow::{Context, Result, ensure};

aileron_parity::on_both!(executors_keep_their_promises_while_they_are_killed);

async fn executors_keep_their_promises_while_they_are_killed(server: Server) -> Result<()> {
    const KILLS: u32 = 8;
    let seed = match std::env::var("SUITE_SEED") {
        Ok(text) => text.parse().context("SUITE_SEED")?,
        Err(_) => SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs(),
    };
    println!("SUITE_SEED={seed}");
    let incidents = Incidents { short_pause: 3, long_pause: 0, apiserver_restart: 5, etcd_restart: 7 };
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("chaos-{server:?}"));
    let figures = run(&Options { server, seed, kills: KILLS, open_tasks: 8, incidents, out: out.clone() }).await?;
    println!("{figures}");
    ensure!(figures.failure.is_none(), "{}\nThe logs are in {}.", figures.failure.unwrap_or_default(), out.display());
    ensure!(figures.kills == KILLS && figures.short_pauses == 2, "{figures}");
    ensure!(figures.apiserver_restarts == 1 && figures.etcd_restarts == 1, "{figures}");
    ensure!(figures.tasks_checked == figures.tasks_submitted && figures.tasks_checked > 8, "{figures}");
    Ok(())
}
