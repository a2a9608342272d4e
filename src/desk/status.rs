//! The state of the house at a glance. A configuration enters; the three servers, the running instances, queues, tables, a verdict and what to do leave.
//! The servers are asked side by side, each within a short limit, and every part that answers is told although another does not. Looking changes
//! nothing and spends no delivery.

mod verdict;

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::time::timeout;

use super::letters::LetterMoney;
use super::{DeskError, maps, topology};
use crate::domain::names::DEAD_LETTER_QUEUE;
use crate::intake::Lane;
use crate::platform::amqp::management::Management;
use crate::platform::amqp::{AmqpError, Connection, ReplyCode, address};
use crate::platform::config::Config;
use crate::platform::postgres::Postgres;
use crate::platform::redis::Redis;
use crate::platform::server_address::ServerAddress;
use crate::platform::{http, time};
use crate::store::dead_letters::{self, OpenLetters};
use crate::store::instances::{self, InstanceRow};
use crate::store::overview::{self, Overview};
use crate::store::schema::{self, SchemaError};
use crate::store::{StoreError, outbox};

/// The longest wait for a server to let us in.
const ANSWER_MAX: Duration = Duration::from_secs(3);
/// The longest wait for the counts of PostgreSQL: a million dead letters take a second.
const COUNT_MAX: Duration = Duration::from_secs(10);
/// The silence after which an instance is no longer believed to live: three heartbeats.
const SILENT_SECONDS: i64 = 15;

/// The servers, the instances, the queues and the tables of one ledger.
#[derive(Debug, Clone, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// One sentence: all is well, or what is not.
    pub verdict: String,
    /// The next step of the person who asks.
    pub advice: String,
    /// Something does not work as it should: the exit code is 1.
    pub degraded: bool,
    pub at: DateTime<Utc>,
    pub servers: [ServerStatus; 3],
    /// None where PostgreSQL cannot tell.
    pub instances: Option<Vec<InstanceStatus>>,
    /// The lanes' queues, those of tenants, then the dead letters'; None where RabbitMQ cannot tell.
    #[serde(serialize_with = "queue_map")]
    pub queues: Option<Vec<(String, QueueDepth)>>,
    pub outbox: Option<OutboxBacklog>,
    pub inbox: Option<InboxBacklog>,
    pub dead_letters: Option<OpenDeadLetters>,
    pub held: Option<i64>,
    pub entries: Option<i64>,
    /// The number of tenants that have books.
    pub tenants: Option<i64>,
    pub breaker: Breaker,
}

/// One of the three servers.
#[derive(Debug, Clone, serde::Serialize)]
pub struct ServerStatus {
    pub name: &'static str,
    pub address: String,
    pub state: ServerState,
    /// The reason of a state that is not `ok`.
    pub why: Option<String>,
    /// The time since when the running service misses it, where it knows.
    pub since: Option<DateTime<Utc>>,
}

/// The answer of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerState {
    Ok,
    /// It does not answer; it may come back by itself.
    Silent,
    /// It answers and does not let us in: a setting is wrong, or a user, a database or a virtual host is missing.
    Refuses,
    /// It lets us in, and lacks what `fis setup` makes.
    NotSetUp,
}

/// A running instance of fis.
#[derive(Debug, Clone, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InstanceStatus {
    pub host: String,
    pub pid: i64,
    pub version: String,
    pub http_addr: String,
    pub ready: bool,
    pub relays: bool,
    pub running_seconds: i64,
    pub silent_seconds: i64,
    /// It was heard of within three heartbeats.
    pub alive: bool,
}

/// The messages in one queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct QueueDepth {
    pub ready: u64,
    /// None where the management API does not say.
    pub unacked: Option<u64>,
}

/// Announcements that are due and have not left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OutboxBacklog {
    pub pending: i64,
    pub oldest_seconds: i64,
}

/// Events that wait in PostgreSQL and are posted from there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InboxBacklog {
    /// Held events whose time has come.
    pub held_due: i64,
    pub replays: i64,
    /// Letters that running replays have before them.
    pub replay_letters: i64,
}

/// Dead letters that wait for a person.
#[derive(Debug, Clone, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenDeadLetters {
    pub open: i64,
    #[serde(serialize_with = "maps::pairs")]
    pub by_reason: Vec<(String, i64)>,
    pub money: LetterMoney,
    pub oldest_seconds: Option<i64>,
}

/// The breaker of the running service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Breaker {
    /// PostgreSQL answers the service.
    Closed,
    /// The service holds its deliveries until PostgreSQL is back.
    Open,
    /// No service answers at `http.addr`.
    Unknown,
}

impl Breaker {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::Unknown => "unknown",
        }
    }
}

/// The state of everything that an operator watches.
///
/// # Errors
/// A setting is wrong. A server that does not answer is no error: that is what the status tells.
pub async fn status(config: &Config) -> Result<Status, DeskError> {
    let postgres = Postgres::new(&config.database)?;
    let redis = Redis::new(&config.redis).map_err(|error| DeskError::Setting { why: error.to_string() })?;
    let broker = address::server(&config.amqp, &address::parse(&config.amqp)?);
    let management = Management::of(&config.amqp)?;
    let tenants = topology::tenant_queues(config)?;
    let (tables, queues, pinged, ready) = tokio::join!(
        tables(&postgres),
        queues(config, &management, &tenants),
        redis.ping(),
        http::get(&config.http.addr, "/readyz"),
    );
    let ready = ready.ok().and_then(|(_, body)| serde_json::from_str::<serde_json::Value>(&body).ok());
    let pinged = pinged.map_err(|error| {
        let state = if error.needs_a_person() { ServerState::Refuses } else { ServerState::Silent };
        Trouble { state, why: error.to_string() }
    });
    let since = |parts: &[&str]| since(ready.as_ref(), parts);
    let servers = [
        server(&postgres.address, tables.as_ref().err(), since(&["postgres"])),
        server(&broker, queues.as_ref().err(), since(&["broker-in", "broker-out"])),
        server(&redis.address, pinged.as_ref().err(), since(&["redis"])),
    ];
    let tables = tables.ok();
    let overview = tables.as_ref().map(|tables| tables.overview);
    let mut status = Status {
        verdict: String::new(),
        advice: String::new(),
        degraded: false,
        at: time::now(),
        servers,
        instances: tables.as_ref().map(|tables| tables.instances.iter().map(instance).collect()),
        queues: queues.ok(),
        outbox: tables.as_ref().map(|tables| tables.outbox),
        inbox: overview.map(|all| InboxBacklog {
            held_due: all.held_due,
            replays: all.replays,
            replay_letters: all.replay_letters,
        }),
        dead_letters: tables.as_ref().map(|tables| open_letters(&tables.letters)),
        held: overview.map(|all| all.held),
        entries: overview.map(|all| all.entries),
        tenants: overview.map(|all| all.tenants),
        breaker: breaker(ready.as_ref()),
    };
    let here = ready.as_ref().map(|ready| ready.get("ready").is_some_and(|ready| ready == true));
    verdict::judge(&mut status, here);
    Ok(status)
}

/// The reason why a server has nothing to tell.
struct Trouble {
    state: ServerState,
    why: String,
}

fn server(address: &ServerAddress, trouble: Option<&Trouble>, since: Option<DateTime<Utc>>) -> ServerStatus {
    ServerStatus {
        name: address.name,
        address: address.place.clone(),
        state: trouble.map_or(ServerState::Ok, |trouble| trouble.state),
        why: trouble.map(|trouble| match trouble.state {
            // A wrong address is the likeliest reason of both, and its setting is where to look.
            ServerState::Silent | ServerState::Refuses => format!("{} ({})", trouble.why, address.origin),
            ServerState::Ok | ServerState::NotSetUp => trouble.why.clone(),
        }),
        since: since.filter(|_| trouble.is_some()),
    }
}

/// The answers of PostgreSQL.
struct Tables {
    instances: Vec<InstanceRow>,
    outbox: OutboxBacklog,
    letters: Vec<OpenLetters>,
    overview: Overview,
}

async fn tables(postgres: &Postgres) -> Result<Tables, Trouble> {
    let silent = |why: String| Trouble { state: ServerState::Silent, why };
    postgres.reach().await.map_err(|error| {
        let state = if error.needs_a_person() { ServerState::Refuses } else { ServerState::Silent };
        Trouble { state, why: error.why() }
    })?;
    let counted = timeout(COUNT_MAX, async {
        schema::check_version(postgres).await.map_err(|error| match error {
            SchemaError::Sql(error) => trouble(&error.into()),
            SchemaError::Behind { .. } => Trouble { state: ServerState::NotSetUp, why: error.to_string() },
            error => Trouble { state: ServerState::Refuses, why: error.to_string() },
        })?;
        count(postgres).await.map_err(|error| trouble(&error))
    });
    counted.await.unwrap_or_else(|_| Err(silent(format!("has not answered within {} s", COUNT_MAX.as_secs()))))
}

/// A refusal by PostgreSQL itself is no silence.
fn trouble(error: &DeskError) -> Trouble {
    let state = if matches!(error, DeskError::Away { .. }) { ServerState::Silent } else { ServerState::Refuses };
    let why = error.to_string();
    Trouble { state, why: why.strip_prefix("PostgreSQL ").unwrap_or(&why).to_owned() }
}

async fn count(postgres: &Postgres) -> Result<Tables, DeskError> {
    let mut db = postgres.pool.acquire().await?;
    let backlog = outbox::backlog(&mut db).await?;
    Ok(Tables {
        instances: instances::list(&mut db).await?,
        outbox: OutboxBacklog { pending: backlog.pending, oldest_seconds: backlog.oldest_seconds },
        letters: dead_letters::open_letters(&mut db).await?,
        overview: overview::read(&mut db).await.map_err(StoreError::from)?,
    })
}

fn instance(row: &InstanceRow) -> InstanceStatus {
    InstanceStatus {
        host: row.host.clone(),
        pid: row.pid,
        version: row.version.clone(),
        http_addr: row.http_addr.clone(),
        ready: row.is_ready,
        relays: row.is_relaying,
        running_seconds: row.running_seconds,
        silent_seconds: row.silent_seconds,
        alive: row.silent_seconds <= SILENT_SECONDS,
    }
}

fn open_letters(letters: &[OpenLetters]) -> OpenDeadLetters {
    let mut by_reason: BTreeMap<&str, i64> = BTreeMap::new();
    for line in letters {
        *by_reason.entry(&line.reason).or_default() += line.letters;
    }
    let money = |line: &OpenLetters| LetterMoney(vec![(line.currency.clone(), line.letters, line.amount)]);
    let money: Vec<LetterMoney> = letters.iter().map(money).collect();
    let oldest = letters.iter().map(|line| line.oldest).min();
    OpenDeadLetters {
        open: letters.iter().map(|line| line.letters).sum(),
        by_reason: by_reason.into_iter().map(|(reason, letters)| (reason.to_owned(), letters)).collect(),
        money: LetterMoney::total(money.iter()),
        oldest_seconds: oldest.map(|oldest| (time::now() - oldest).num_seconds().max(0)),
    }
}

/// Ready messages as the queues themselves say; unacknowledged ones only where the management API can be reached.
async fn queues(
    config: &Config,
    management: &Management,
    tenants: &crate::intake::tenant_queues::TenantQueues,
) -> Result<Vec<(String, QueueDepth)>, Trouble> {
    let opened = timeout(ANSWER_MAX, Connection::open(&config.amqp, "fis status")).await;
    let late =
        || Trouble { state: ServerState::Silent, why: format!("does not answer within {} s", ANSWER_MAX.as_secs()) };
    let connection = opened.map_err(|_| late())?.map_err(|error| Trouble {
        state: if error.needs_a_person() { ServerState::Refuses } else { ServerState::Silent },
        why: error.why(),
    })?;
    let left_over = timeout(ANSWER_MAX, topology::left_over_queues(management, tenants));
    let left_over = left_over.await.ok().and_then(Result::ok).unwrap_or_default();
    let own = tenants.iter().cloned().chain(left_over);
    let lanes = Lane::CONSUMED.into_iter().filter_map(Lane::queue).map(str::to_owned);
    let names: Vec<String> = lanes.chain(own.map(|queue| queue.name())).chain([DEAD_LETTER_QUEUE.to_owned()]).collect();
    let depths = timeout(ANSWER_MAX, depths(&connection, &names)).await;
    connection.close().await;
    let ready = depths.map_err(|_| late())??;
    let counts = timeout(ANSWER_MAX, async {
        let asked = names.iter().map(|queue| management.queue_counts(queue));
        futures::future::join_all(asked).await
    });
    let mut unacked: Vec<Option<u64>> = match counts.await {
        Ok(counts) => counts.into_iter().map(|counts| counts.ok().flatten().map(|counts| counts.unacked)).collect(),
        Err(_) => Vec::new(),
    };
    unacked.resize(names.len(), None);
    let depth = |((name, ready), unacked)| (name, QueueDepth { ready, unacked });
    Ok(names.into_iter().zip(ready).zip(unacked).map(depth).collect())
}

async fn depths(connection: &Connection, names: &[String]) -> Result<Vec<u64>, Trouble> {
    let mut depths = Vec::with_capacity(names.len());
    for queue in names {
        match connection.ready_count(queue).await {
            Ok(ready) => depths.push(u64::from(ready)),
            Err(AmqpError::Broker { code: Some(ReplyCode::NotFound), .. }) => {
                let why = format!("the queue {queue} is missing: run `fis topology apply`");
                return Err(Trouble { state: ServerState::NotSetUp, why });
            }
            Err(error) => {
                let state = if error.needs_a_person() { ServerState::Refuses } else { ServerState::Silent };
                return Err(Trouble { state, why: error.why() });
            }
        }
    }
    Ok(depths)
}

/// The earliest time since when the running service misses one of these parts.
fn since(ready: Option<&serde_json::Value>, parts: &[&str]) -> Option<DateTime<Utc>> {
    let since = ready?.get("since")?;
    parts.iter().filter_map(|part| since.get(part)?.as_str()?.parse::<DateTime<Utc>>().ok()).min()
}

/// The running service tells it at its `/readyz`.
fn breaker(ready: Option<&serde_json::Value>) -> Breaker {
    match ready.and_then(|ready| ready.pointer("/parts/postgres")) {
        None => Breaker::Unknown,
        Some(state) if state == "ok" => Breaker::Closed,
        Some(_) => Breaker::Open,
    }
}

/// The queues as an object, or null.
fn queue_map<S: serde::Serializer>(
    queues: &Option<Vec<(String, QueueDepth)>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match queues {
        Some(queues) => maps::pairs(queues, serializer),
        None => serializer.serialize_none(),
    }
}
