//! The admin in a storm: replays whatever is parked, with and without a canary, pauses, resumes and stops replays, mends and discards letters, calls held
//! events back, and dies in the middle of a command now and then. None of it may change what becomes of an event but where that was the intention: what was
//! rejected for good is rejected again, and what was mended is posted.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use fastrand::Rng;

use crate::books::TENANTS;
use crate::check::Breach;
use crate::entangled::MENDED_TOTAL;
use crate::instances::Instances;
use crate::model::Script;
use crate::servers::Servers;
use crate::world::World;

/// Acts follow each other after so many milliseconds.
const GAP: std::ops::Range<u64> = 300..4_000;
/// A command that is to be killed lives for so many milliseconds.
const LIFE: std::ops::Range<u64> = 20..900;
/// A whole replay at the end, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);
/// Letters that nothing is ever made of, so that it does not matter which of them are given up.
const DISCARDABLE: &str = "select id from fis_dead_letter
                            where status = 'parked' and reason in ('malformed_json', 'not_utf8', 'rule_failed', 'too_large')
                            order by random() limit 2";
const MENDABLE: &str =
    "select id from fis_dead_letter where status = 'parked' and reason = 'bad_amount' and event_id = any($1)";
/// Places inside of a command.
const CRASH_POINTS: [&str; 11] = [
    "after_choose",
    "before_start",
    "after_start",
    "before_pause",
    "after_pause",
    "before_edit",
    "after_edit",
    "before_discard",
    "after_discard",
    "before_release",
    "after_release",
];

pub struct Operator {
    servers: Servers,
    database: String,
    instances: Arc<Instances>,
    /// The events whose letters can be mended.
    mendable: Vec<String>,
    /// Letters that were given up, or nearly.
    pub discarded: Mutex<HashSet<String>>,
}

impl Operator {
    pub fn new(servers: &Servers, database: &str, instances: Arc<Instances>, script: &Script) -> Arc<Self> {
        let cases = script.cases.iter().filter(|case| case.edited.is_some());
        let mendable = cases.map(|case| case.event_id.clone()).collect();
        let (servers, database) = (servers.clone(), database.to_owned());
        Arc::new(Self { servers, database, instances, mendable, discarded: Mutex::default() })
    }

    /// Acts until it is dropped.
    pub async fn run(self: Arc<Self>, seed: u64) {
        let mut rng = Rng::with_seed(seed ^ 0x0b5e_55ed);
        loop {
            tokio::time::sleep(Duration::from_millis(rng.u64(GAP))).await;
            let Ok(args) = self.act(&mut rng).await else { continue };
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            // A command that is refused, because a server is away or the replay is elsewhere by now, has done nothing.
            match rng.u8(..6) {
                0 | 1 => {
                    let life = Duration::from_millis(rng.u64(LIFE));
                    let _ = tokio::time::timeout(life, self.instances.fis(&args)).await;
                }
                2 => {
                    let point = CRASH_POINTS[rng.usize(..CRASH_POINTS.len())];
                    let _ = self.instances.fis_with(&args, &[("FIS_FAILPOINT", point)]).await;
                }
                _ => drop(self.instances.fis(&args).await),
            }
        }
    }

    /// The words of the next command.
    async fn act(&self, rng: &mut Rng) -> Result<Vec<String>> {
        let number = rng.u32(1..8);
        let tenant = TENANTS[rng.usize(..TENANTS.len())].name;
        let words = match rng.u8(..14) {
            0..3 => "dlq replay --all --yes --no-wait --why storm".to_owned(),
            3 => "dlq replay --all --yes --no-wait --canary --why storm".to_owned(),
            4 => format!("dlq replay --all --yes --no-wait --rate {} --why storm", rng.u32(1..400)),
            5 => format!("dlq replay --all --yes --no-wait --max-failures {} --why storm", rng.u32(..20)),
            6 => format!("dlq replay --pause {number} --no-wait"),
            7 => format!("dlq replay --resume {number} --no-wait"),
            8 => format!("dlq replay --stop {number} --yes"),
            9 => format!("held release --tenant={tenant} --yes"),
            10 | 11 => {
                let ids = self.some(DISCARDABLE).await?;
                self.discarded.lock().unwrap().extend(ids.iter().cloned());
                format!("dlq discard {} --yes --why storm", ids.join(" "))
            }
            _ => {
                let ids = self.some(MENDABLE).await?;
                let count = rng.usize(..ids.len().min(3)) + 1;
                return Ok(edit(&ids[..count]));
            }
        };
        Ok(words.split(' ').map(ToOwned::to_owned).collect())
    }

    async fn some(&self, sql: &'static str) -> Result<Vec<String>> {
        let mut session = self.servers.sql(&self.database).await?;
        let asking = sqlx::query_scalar(sql).bind(&self.mendable).fetch_all(&mut session);
        let ids: Vec<String> = tokio::time::timeout(Duration::from_secs(2), asking).await??;
        ensure!(!ids.is_empty(), "there are none");
        Ok(ids)
    }
}

fn edit(ids: &[String]) -> Vec<String> {
    let set = format!("/payload/total:=\"{MENDED_TOTAL}\"");
    let words = ["dlq", "edit", "--yes", "--no-wait", "--why", "storm", "--set", &set];
    words.into_iter().map(ToOwned::to_owned).chain(ids.iter().cloned()).collect()
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
    let parked = "select count(*) from fis_dead_letter where status = 'parked'";
    // A selection of nothing is a failure.
    if sqlx::query_scalar::<_, i64>(parked).fetch_one(&mut session).await? > 0 {
        world.instances.fis(&["dlq", "replay", "--all", "--yes", "--no-wait", "--why", "storm, the last"]).await?;
    }
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

/// Mends whatever can be and is not yet. A letter that a replay has in hand is mended the next time.
pub async fn mend(world: &World) {
    if let Ok(ids) = world.operator.some(MENDABLE).await {
        let words = edit(&ids);
        let _ = world.instances.fis(&words.iter().map(String::as_str).collect::<Vec<_>>()).await;
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
