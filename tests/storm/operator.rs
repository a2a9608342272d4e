//! The admin in a storm: replays whatever is parked, with and without a canary, pauses, resumes and stops replays, and is killed in the middle
//! of a command now and then. None of it may change what becomes of an event: what was rejected for good is rejected again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use fastrand::Rng;

use crate::check::Breach;
use crate::instances::Instances;
use crate::world::World;

/// Acts follow each other after so many milliseconds.
const GAP: std::ops::Range<u64> = 300..4_000;
/// A command that is to be killed lives for so many milliseconds.
const LIFE: std::ops::Range<u64> = 20..900;
/// A whole replay at the end, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// Acts until it is dropped.
pub async fn run(instances: Arc<Instances>, seed: u64) {
    let mut rng = Rng::with_seed(seed ^ 0x0b5e_55ed);
    loop {
        tokio::time::sleep(Duration::from_millis(rng.u64(GAP))).await;
        let number = rng.u32(1..8).to_string();
        let rate = rng.u32(1..400).to_string();
        let failures = rng.u32(..20).to_string();
        let args: &[&str] = match rng.u8(..9) {
            0..3 => &["dlq", "replay", "--all", "--yes", "--no-wait", "--why", "storm"],
            3 => &["dlq", "replay", "--all", "--yes", "--no-wait", "--canary", "--why", "storm"],
            4 => &["dlq", "replay", "--all", "--yes", "--no-wait", "--rate", &rate, "--why", "storm"],
            5 => &["dlq", "replay", "--all", "--yes", "--no-wait", "--max-failures", &failures, "--why", "storm"],
            6 => &["dlq", "replay", "--pause", &number, "--no-wait"],
            7 => &["dlq", "replay", "--resume", &number, "--no-wait"],
            _ => &["dlq", "replay", "--stop", &number, "--yes"],
        };
        // A command that is refused, because a server is away or the replay is elsewhere by now, has done nothing.
        if rng.u8(..3) == 0 {
            let life = Duration::from_millis(rng.u64(LIFE));
            let _ = tokio::time::timeout(life, instances.fis(args)).await;
        } else {
            let _ = instances.fis(args).await;
        }
    }
}

/// When everything is well again: ends what is paused, and replays every letter once more, to its end.
pub async fn finish(world: &World) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    let mut session = world.servers.sql(&world.database).await?;
    let paused: Vec<i64> =
        sqlx::query_scalar("select id from fis_replay where state = 'paused'").fetch_all(&mut session).await?;
    for id in paused {
        world.instances.fis(&["dlq", "replay", "--stop", &id.to_string(), "--yes"]).await?;
    }
    world.instances.fis(&["dlq", "replay", "--all", "--yes", "--no-wait", "--why", "storm, the last"]).await?;
    loop {
        let running = "select count(*) from fis_replay where state = 'running'";
        let running: i64 = sqlx::query_scalar(running).fetch_one(&mut session).await?;
        if running == 0 {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{running} replays do not come to their end");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Every place of a replay has one verdict, and the numbers of a replay are those of its verdicts.
pub async fn check(world: &World) -> Result<Vec<Breach>> {
    let questions = [
        (
            "replays whose numbers do not add up",
            "select count(*) from fis_replay
              where skipped + failed > decided or decided > letters or (state = 'done' and decided <> letters)",
        ),
        (
            "letters that failed twice in one replay",
            "select count(*) from (select from fis_operator_log where act = 'fail' and replay_id is not null
                                    group by replay_id, letter_id having count(*) > 1) twice",
        ),
        (
            "letters that wait without a held event, or held events without their letter",
            "select (select count(*) from fis_dead_letter d
                      where d.status = 'replaying' and not exists (select from fis_held h where h.letter_id = d.id))
                  + (select count(*) from fis_held h
                      where h.letter_id is not null
                        and not exists (select from fis_dead_letter d where d.id = h.letter_id and d.status = 'replaying'))",
        ),
    ];
    let mut session = world.servers.sql(&world.database).await?;
    let mut breaches = Vec::new();
    for (what, sql) in questions {
        let count: i64 = sqlx::query_scalar(sql).fetch_one(&mut session).await?;
        if count > 0 {
            breaches.push(Breach::new(1, format!("{what}: {count}")));
        }
    }
    Ok(breaches)
}
