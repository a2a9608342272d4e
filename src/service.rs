//! The composition root: builds the edges, starts the tasks, watches them, and drains in order. A task that ends before it
//! is told to is an error, also when it ends quietly; a panic in one ends the process with a reason.

mod http;
mod once;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::domain::chain::ChainedEntry;
use crate::domain::ids::TenantId;
use crate::domain::retry::RetryPolicy;
use crate::intake::Lane;
use crate::journal;
use crate::journal::books::{BooksError, BooksShelf};
use crate::journal::read::Place;
use crate::outbox::{Entries, Relay};
use crate::parking::Parking;
use crate::pipeline::{Pipeline, PipelineError};
use crate::platform::amqp::management::Management;
use crate::platform::amqp::topology::{Topology, is_lossy, report};
use crate::platform::amqp::{AmqpError, Connection, Consumer, Limits, Receiver};
use crate::platform::config::Config;
use crate::platform::health::{Health, Part};
use crate::platform::metrics;
use crate::platform::postgres::{Fault, Postgres, PostgresError};
use crate::platform::redis::{Redis, RedisError};
use crate::platform::time::Backoff;

/// How often running instances look for newer books, well within the promised two seconds.
const BOOKS_POLL: Duration = Duration::from_secs(1);
/// How often the parts that nobody talks to are asked whether they are there.
const PROBE: Duration = Duration::from_secs(2);

#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    #[error("setting `{name}`: {reason}")]
    Setting { name: &'static str, reason: String },
    #[error("the broker's topology can lose messages\n\n{0}")]
    Topology(String),
    #[error(transparent)]
    Postgres(#[from] PostgresError),
    #[error(transparent)]
    Redis(#[from] RedisError),
    #[error(transparent)]
    Amqp(#[from] AmqpError),
    #[error(transparent)]
    Books(#[from] BooksError),
    #[error("the task `{task}` ended early: {reason}")]
    TaskEnded { task: &'static str, reason: String },
}

/// Runs until `stop`; with `once`, until everything that is there is posted and relayed.
///
/// # Errors
/// The start is refused, or a task ended early.
pub async fn run(config: Config, once: bool, stop: CancellationToken) -> Result<(), ServiceError> {
    let health = Health::default();
    let mut tasks = Tasks::default();
    if !once {
        let listener =
            tokio::net::TcpListener::bind(&config.http.addr).await.map_err(|error| ServiceError::Setting {
                name: "http.addr",
                reason: format!("cannot listen on {}: {error}", config.http.addr),
            })?;
        let metrics = metrics::install().map_err(|reason| ServiceError::Setting { name: "http.addr", reason })?;
        let (health, stop) = (health.clone(), tasks.last.clone());
        tasks.spawn("http", async move { http::serve(listener, metrics, health, &stop).await });
    }
    let Some(parts) = prepare(&config, &health, &stop).await? else { return Ok(()) };
    start(&config, &parts, &health, &mut tasks);
    if once {
        let (config, parts, stop) = (config.clone(), parts.clone(), stop.clone());
        tasks.spawn_ending("once", async move { once::drained(&config, &parts.pipeline, &stop).await });
    }
    let ended = tasks.watch(&stop).await;
    tasks.drain(Duration::from_secs(config.service.stop_seconds)).await;
    ended
}

/// What the tasks share.
#[derive(Clone)]
struct Parts {
    postgres: Postgres,
    pipeline: Arc<Pipeline>,
}

/// Fails fast on what an operator must mend; waits for servers that are merely away. `None`: told to stop.
async fn prepare(config: &Config, health: &Health, stop: &CancellationToken) -> Result<Option<Parts>, ServiceError> {
    let postgres = Postgres::new(&config.database)?;
    let redis = Redis::new(&config.redis)?;
    Connection::address(&config.amqp)?;
    let default_tenant = match config.intake.default_tenant.as_str() {
        "" => None,
        name => Some(
            TenantId::parse(name)
                .map_err(|error| ServiceError::Setting { name: "intake.default_tenant", reason: error.to_string() })?,
        ),
    };
    let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(5));
    loop {
        match check_database(&postgres).await {
            Ok(()) => break,
            Err(PostgresError::Sql(error)) if matches!(Fault::of(&error), Fault::Away(_)) => {
                health.away(Part::Postgres, &error.to_string());
            }
            Err(error) => return Err(error.into()),
        }
        if wait(backoff.delay(), stop).await {
            return Ok(None);
        }
    }
    health.back(Part::Postgres);
    let books = BooksShelf::default();
    books.refresh(&postgres.pool).await?;
    backoff.reset();
    loop {
        match check_topology(config).await {
            Ok(()) => break,
            Err(ServiceError::Amqp(error)) => health.away(Part::BrokerIn, &error.to_string()),
            Err(error) => return Err(error),
        }
        if wait(backoff.delay(), stop).await {
            return Ok(None);
        }
    }
    let retry = &config.retry;
    let pipeline = Arc::new(Pipeline {
        postgres: postgres.clone(),
        redis,
        books,
        policy: RetryPolicy {
            max_retries: retry.max_retries,
            base_delay_seconds: retry.base_delay_seconds,
            backoff_multiplier: retry.backoff_multiplier,
            max_delay_seconds: retry.max_delay_seconds,
            jitter_seconds: retry.jitter_seconds,
        },
        default_tenant,
        hold: Duration::from_secs(config.intake.hold_seconds),
        wake: Arc::new(Notify::new()),
        health: health.clone(),
        in_hand: std::sync::atomic::AtomicUsize::new(0),
    });
    Ok(Some(Parts { postgres, pipeline }))
}

async fn check_database(postgres: &Postgres) -> Result<(), PostgresError> {
    postgres.check_version().await?;
    for setting in postgres.unsafe_settings().await? {
        tracing::warn!(
            "PostgreSQL runs with {setting} off: after a crash of its machine, commits that were acknowledged may be gone"
        );
    }
    Ok(())
}

/// Refuses a topology that can lose messages.
async fn check_topology(config: &Config) -> Result<(), ServiceError> {
    let topology = Topology::embedded().map_err(|error| ServiceError::Topology(error.to_string()))?;
    let management = management(config)?;
    let connection = Connection::open(&config.amqp, "fis topology").await?;
    let findings = connection.check_topology(&topology, Some(&management)).await;
    connection.close().await;
    let findings =
        findings.map_err(|error| AmqpError::Broker { what: "look at the topology", reason: error.to_string() })?;
    if is_lossy(&findings) {
        return Err(ServiceError::Topology(report(&findings)));
    }
    for finding in findings {
        tracing::warn!(object = %finding.object, expected = %finding.expected, found = %finding.found, "{}", finding.remedy);
    }
    Ok(())
}

/// The management API: where the configuration says, else on the broker's host at its usual port.
///
/// # Errors
/// The address cannot be read.
pub fn management(config: &Config) -> Result<Management, ServiceError> {
    let address = Connection::address(&config.amqp)?;
    let url = match config.amqp.management_url.as_str() {
        "" => format!("http://{}:15672", address.host),
        url => url.to_owned(),
    };
    Management::new(&url, &address.user, address.password.expose(), &address.vhost)
        .map_err(|error| ServiceError::Setting { name: "amqp.management_url", reason: error.to_string() })
}

fn start(config: &Config, parts: &Parts, health: &Health, tasks: &mut Tasks) {
    let Parts { postgres, pipeline } = parts.clone();
    let relay = Relay {
        postgres: postgres.clone(),
        amqp: config.amqp.clone(),
        window: i64::from(config.outbox.window),
        poll: Duration::from_millis(config.outbox.poll_ms),
        wake: Arc::clone(&pipeline.wake),
        health: health.clone(),
        entries: Arc::new(Journal),
    };
    let parking = Parking {
        postgres,
        amqp: config.amqp.clone(),
        intake: config.intake.clone(),
        health: health.clone(),
    };
    let stop = tasks.then.clone();
    tasks.spawn("relay", async move { relay.run(&stop).await });
    let stop = tasks.first.clone();
    tasks.spawn("parking", async move { parking.run(&stop).await });
    let (stop, watched) = (tasks.first.clone(), Arc::clone(&pipeline));
    tasks.spawn("books", async move { watch_books(&watched, &stop).await });
    let (stop, probed) = (tasks.first.clone(), Arc::clone(&pipeline));
    tasks.spawn("probe", async move { probe(&probed, &stop).await });
    let (stop, config, health) = (tasks.first.clone(), config.clone(), health.clone());
    tasks.spawn("intake", async move { intake(&config, &pipeline, &health, &stop).await });
}

/// The journal, as the relay reads it.
struct Journal;

impl Entries for Journal {
    fn read<'a>(
        &'a self,
        db: &'a mut sqlx::PgConnection,
        places: &'a [Place],
    ) -> BoxFuture<'a, Result<HashMap<Place, ChainedEntry>, sqlx::Error>> {
        Box::pin(journal::read::entries(db, places))
    }
}

async fn watch_books(pipeline: &Pipeline, stop: &CancellationToken) {
    while !wait(BOOKS_POLL, stop).await {
        match pipeline.books.refresh(&pipeline.postgres.pool).await {
            Ok(_) => pipeline.health.back(Part::Postgres),
            Err(BooksError::Sql(error)) => pipeline.health.away(Part::Postgres, &error.to_string()),
            Err(error) => {
                tracing::error!(error = %error, "the books in the database cannot be used; the old ones stay in force");
            }
        }
    }
}

async fn probe(pipeline: &Pipeline, stop: &CancellationToken) {
    loop {
        match pipeline.redis.ping().await {
            Ok(()) => pipeline.health.back(Part::Redis),
            Err(error) => pipeline.health.away(Part::Redis, &error.to_string()),
        }
        if wait(PROBE, stop).await {
            return;
        }
    }
}

/// Consumes all lanes on one connection, apart from the one that publishes: an alarm that blocks publishing must not block
/// acknowledgements. Any loss ends the whole session, and a new one is built only when PostgreSQL answers.
async fn intake(config: &Config, pipeline: &Arc<Pipeline>, health: &Health, stop: &CancellationToken) {
    let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(5));
    loop {
        match sqlx::query("select 1").execute(&pipeline.postgres.pool).await {
            Ok(_) => match session(config, pipeline, health, stop).await {
                Ok(()) => return,
                Err(PipelineError::Stopped) => return,
                Err(error) => {
                    if let PipelineError::Amqp(error) = &error {
                        health.away(Part::BrokerIn, &error.to_string());
                    }
                    tracing::warn!(error = %error, "the intake lost its session, trying again");
                }
            },
            Err(error) => health.away(Part::Postgres, &error.to_string()),
        }
        if wait(backoff.delay(), stop).await {
            return;
        }
        if health.is_ready() {
            backoff.reset();
        }
    }
}

async fn session(
    config: &Config,
    pipeline: &Arc<Pipeline>,
    health: &Health,
    stop: &CancellationToken,
) -> Result<(), PipelineError> {
    let connection = Connection::open(&config.amqp, "fis intake").await?;
    // One lane's loss ends the others: they finish the batch in hand and find their channel gone.
    let session_stop = stop.child_token();
    let mut lanes = JoinSet::new();
    for lane in Lane::ALL {
        let consumer = Consumer::open(&connection, lane.queue(), config.intake.prefetch).await?;
        let mut receiver = Receiver::new(consumer, Limits::new(&config.intake));
        let (pipeline, stop) = (Arc::clone(pipeline), session_stop.clone());
        lanes.spawn(async move {
            let end = pipeline.follow(lane, &mut receiver, &stop).await;
            stop.cancel();
            end
        });
    }
    health.back(Part::BrokerIn);
    health.back(Part::Postgres);
    let mut end = Ok(());
    while let Some(lane) = lanes.join_next().await {
        match lane {
            Ok(Ok(())) => {}
            Ok(Err(error)) if end.is_ok() => end = Err(error),
            Ok(Err(_)) => {}
            Err(panic) => std::panic::resume_unwind(panic.try_into_panic().unwrap_or_else(|error| Box::new(error))),
        }
    }
    connection.close().await;
    end
}

/// True: told to stop.
async fn wait(duration: Duration, stop: &CancellationToken) -> bool {
    tokio::select! {
        () = tokio::time::sleep(duration) => false,
        () = stop.cancelled() => true,
    }
}

/// The long-lived tasks, by name, and the order in which they stop: what takes, then what relays, then what answers.
#[derive(Default)]
struct Tasks {
    set: JoinSet<(&'static str, bool)>,
    names: HashMap<tokio::task::Id, &'static str>,
    first: CancellationToken,
    then: CancellationToken,
    last: CancellationToken,
}

impl Tasks {
    fn spawn(&mut self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let handle = self.set.spawn(async move {
            task.await;
            (name, false)
        });
        self.names.insert(handle.id(), name);
    }

    /// A task whose end is the end of the run.
    fn spawn_ending(&mut self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let handle = self.set.spawn(async move {
            task.await;
            (name, true)
        });
        self.names.insert(handle.id(), name);
    }

    /// Waits for `stop`, or for a task to end.
    async fn watch(&mut self, stop: &CancellationToken) -> Result<(), ServiceError> {
        tokio::select! {
            () = stop.cancelled() => Ok(()),
            ended = self.set.join_next_with_id() => match ended {
                None => Ok(()),
                Some(Ok((id, (task, expected)))) => {
                    self.names.remove(&id);
                    if expected { Ok(()) } else { Err(ServiceError::TaskEnded { task, reason: "it returned".to_owned() }) }
                }
                Some(Err(error)) => {
                    let task = self.names.remove(&error.id()).unwrap_or("unknown");
                    Err(ServiceError::TaskEnded { task, reason: panic_text(error) })
                }
            },
        }
    }

    /// Stops in order. What is not done in time is left: nothing unsettled is lost, the broker delivers it again.
    async fn drain(&mut self, deadline: Duration) {
        let deadline = tokio::time::Instant::now() + deadline;
        for (step, token, waits_for) in [
            ("finishing what is held", self.first.clone(), &["intake", "parking", "books", "probe", "once"][..]),
            ("relaying what is left", self.then.clone(), &["relay"][..]),
            ("closing", self.last.clone(), &["http"][..]),
        ] {
            tracing::info!("stopping: {step}");
            token.cancel();
            while self.names.values().any(|name| waits_for.contains(name)) {
                match tokio::time::timeout_at(deadline, self.set.join_next_with_id()).await {
                    Ok(Some(Ok((id, _)))) => drop(self.names.remove(&id)),
                    Ok(Some(Err(error))) => drop(self.names.remove(&error.id())),
                    Ok(None) => break,
                    Err(_) => {
                        let left: Vec<_> = self.names.values().collect();
                        tracing::warn!(
                            "stopping: out of time, still waiting for {left:?}; what is unsettled will come again"
                        );
                        return;
                    }
                }
            }
        }
    }
}

fn panic_text(error: tokio::task::JoinError) -> String {
    match error.try_into_panic() {
        Ok(panic) => {
            let text =
                panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
            format!("it panicked: {}", text.unwrap_or("without a word"))
        }
        Err(error) => error.to_string(),
    }
}
