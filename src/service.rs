//! The composition root: builds the edges, starts the tasks, watches them, and drains in order. A task that ends before it
//! is told to is an error, also when it ends quietly; a panic in one ends the process with a reason.

mod http;
mod instance;
mod loops;
mod mirror;
mod once;
mod tasks;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::desk::topology::{left_over_queues, take_virtual_host};
use crate::domain::ids::TenantId;
use crate::faults::mutants::{self, mutant};
use crate::intake::publishers::Publishers;
use crate::intake::roads::{Road, Strays, roads};
use crate::intake::tenant_queues::{TenantQueue, TenantQueues};
use crate::journal::books::{BooksError, BooksShelf, Shelved};
use crate::outbox::{self, Handover, Relay, TenantKeys};
use crate::parking::{Parking, TenantDay};
use crate::pipeline::{Edges, Pipeline};
use crate::platform::amqp::management::Management;
use crate::platform::amqp::topology::{APPLY, Finding, Severity, Topology, TopologyError, is_lossy, report};
use crate::platform::amqp::{AmqpError, Connection, address};
use crate::platform::config::Config;
use crate::platform::health::{Health, Part, Servers};
use crate::platform::metrics;
use crate::platform::postgres::{self, Postgres, PostgresError, Work};
use crate::platform::redis::{Redis, RedisError};
use crate::platform::telemetry;
use crate::platform::time::Backoff;
use crate::store::guards;
use crate::store::journal::write::drop_unique;
use crate::store::ledger;
use crate::store::schema::{self, SchemaError};
use tasks::Tasks;

#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    #[error("setting `{name}`: {reason}")]
    Setting { name: &'static str, reason: String },
    #[error("setting `http.addr`: cannot listen on {addr}")]
    Listen { addr: String, source: std::io::Error },
    #[error("the broker's topology can lose messages\n{0}")]
    Topology(String),
    #[error("the virtual host belongs to another ledger\n\n{0}")]
    OtherLedger(String),
    #[error("the table fis_ledger is empty: this database has lost its identity; restore the row from a backup")]
    NoIdentity,
    #[error(transparent)]
    Postgres(#[from] PostgresError),
    #[error(transparent)]
    Schema(#[from] SchemaError),
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
    let servers = servers(&config)?;
    say_start(&config, &servers);
    let health = Health::of(servers);
    let mut tasks = Tasks::default();
    if !once {
        let addr = config.http.addr.clone();
        let listener = tokio::net::TcpListener::bind(&addr).await;
        let listener = listener.map_err(|source| ServiceError::Listen { addr, source })?;
        let metrics = metrics::install().map_err(|reason| ServiceError::Setting { name: "http.addr", reason })?;
        let (health, stop) = (health.clone(), tasks.last.clone());
        tasks.spawn("http", async move { http::serve(listener, metrics, health, &stop).await });
    }
    let tenants = tenant_queues(&config)?;
    let topology = tenants.laid_over(embedded()?);
    let mirror = mirror::settings(&config, &topology)?;
    let Some(parts) = prepare(&config, &tenants, &topology, &health, &stop).await? else { return Ok(()) };
    if let Some(settings) = mirror {
        mirror::start(settings, &config, &parts.edges, &mut tasks).await;
    }
    start(&config, &parts, &mut tasks);
    if once {
        let (config, parts, stop) = (config.clone(), parts.clone(), stop.clone());
        tasks.spawn_ending("once", async move {
            once::drained(&config, &parts, &stop).await;
        });
    }
    let ended = tasks.watch(&stop).await;
    tasks.drain(Duration::from_secs(config.service.stop_seconds)).await;
    ended
}

/// Refuses every setting that the start would refuse, and asks no server.
///
/// # Errors
/// The first setting that cannot be used.
pub fn check_settings(config: &Config) -> Result<(), ServiceError> {
    telemetry::check(&config.log).map_err(|reason| ServiceError::Setting { name: "log.filter", reason })?;
    servers(config)?;
    Management::of(&config.amqp)?;
    let port = config.http.addr.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
    if port.is_none() {
        let reason = format!("`{}` is no address such as 127.0.0.1:8080", config.http.addr);
        return Err(ServiceError::Setting { name: "http.addr", reason });
    }
    let topology = tenant_queues(config)?.laid_over(embedded()?);
    mirror::settings(config, &topology)?;
    default_tenant(config)?;
    publishers(config)?;
    Ok(())
}

fn tenant_queues(config: &Config) -> Result<TenantQueues, ServiceError> {
    TenantQueues::parse(&config.intake.tenant_queues)
        .map_err(|reason| ServiceError::Setting { name: "intake.tenant_queues", reason })
}

fn embedded() -> Result<Topology, ServiceError> {
    Topology::embedded().map_err(|error| ServiceError::Topology(error.to_string()))
}

fn default_tenant(config: &Config) -> Result<Option<TenantId>, ServiceError> {
    match config.intake.default_tenant.as_str() {
        "" => Ok(None),
        name => TenantId::parse(name)
            .map(Some)
            .map_err(|error| ServiceError::Setting { name: "intake.default_tenant", reason: error.to_string() }),
    }
}

fn publishers(config: &Config) -> Result<Publishers, ServiceError> {
    Publishers::parse(&config.intake.publishers)
        .map_err(|reason| ServiceError::Setting { name: "intake.publishers", reason })
}

/// The servers of a configuration, as people know them.
fn servers(config: &Config) -> Result<Servers, ServiceError> {
    Ok(Servers {
        postgres: Postgres::new(&config.database)?.address,
        redis: Redis::new(&config.redis)?.address,
        broker: address::server(&config.amqp, &address::parse(&config.amqp)?),
    })
}

/// The first lines of a log: what runs, with which settings, against which servers. No value of a setting is among them but addresses.
fn say_start(config: &Config, servers: &Servers) {
    let version = env!("CARGO_PKG_VERSION");
    tracing::info!(version, "fis {version} starts; {}", config.sources);
    let Servers { postgres, redis, broker } = servers;
    let http = &config.http.addr;
    tracing::info!(
        postgres.address = postgres.place,
        rabbitmq.address = broker.place,
        redis.address = redis.place,
        http.address = http,
        "{postgres}, {broker}, {redis}; HTTP on {http}"
    );
}

/// The parts that the tasks share.
#[derive(Clone)]
struct Parts {
    edges: Edges,
    pipeline: Arc<Pipeline>,
    roads: Arc<[Arc<Road>]>,
}

/// Fails fast on what an operator must mend; waits for servers that are merely away. `None`: told to stop.
async fn prepare(
    config: &Config,
    tenants: &TenantQueues,
    topology: &Topology,
    health: &Health,
    stop: &CancellationToken,
) -> Result<Option<Parts>, ServiceError> {
    let postgres = Postgres::serving(&config.database)?;
    let redis = Redis::new(&config.redis)?;
    address::parse(&config.amqp)?;
    let (default_tenant, publishers) = (default_tenant(config)?, publishers(config)?);
    let books = BooksShelf::default();
    let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(2));
    let ledger = loop {
        match check_database(&postgres, &books).await {
            Ok(ledger) => break ledger,
            Err(
                ServiceError::Postgres(PostgresError::Sql(error) | PostgresError::Unreachable { error, .. })
                | ServiceError::Schema(SchemaError::Sql(error))
                | ServiceError::Books(BooksError::Sql(error)),
            ) if !postgres::needs_a_person(&error) => {
                health.away(Part::Postgres, &postgres::error_text(&error));
            }
            Err(error) => return Err(error),
        }
        if wait(backoff.delay(), stop).await {
            return Ok(None);
        }
    };
    health.back(Part::Postgres);
    backoff.reset();
    let left_over = loop {
        // It only asks; nothing is held that could be dropped.
        let checked = tokio::select! {
            checked = check_broker(config, tenants, topology, &ledger) => checked,
            () = stop.cancelled() => return Ok(None),
        };
        match checked {
            Ok(left_over) => break left_over,
            Err(ServiceError::Amqp(error)) if !error.needs_a_person() => {
                health.away(Part::BrokerIn, &error.why());
            }
            Err(error) => return Err(error),
        }
        if wait(backoff.delay(), stop).await {
            return Ok(None);
        }
    };
    let edges = Edges {
        postgres,
        redis,
        books,
        default_tenant,
        publishers,
        strays: Arc::new(Strays::new(tenants)),
        handover: Arc::new(Handover::default()),
        health: health.clone(),
    };
    let pipeline = Arc::new(Pipeline::new(config, edges.clone()));
    let roads = roads(tenants, left_over, Instant::now()).into();
    Ok(Some(Parts { edges, pipeline, roads }))
}

/// Refuses a database of another version; warns of one that may forget what it has committed. Returns which ledger it is.
async fn check_database(postgres: &Postgres, books: &BooksShelf) -> Result<String, ServiceError> {
    postgres.reach().await?;
    schema::check_version(postgres).await?;
    for setting in postgres.unsafe_settings().await.map_err(PostgresError::from)? {
        tracing::warn!(
            "PostgreSQL runs with {setting} off: after a crash of its machine, commits that were acknowledged may be gone"
        );
    }
    for fault in guards::faults(&postgres.pool).await.map_err(PostgresError::from)? {
        tracing::warn!(
            "{fault}: PostgreSQL no longer refuses what it should; compare with the migrations, and run `fis verify`"
        );
    }
    if guards::may_alter_journal(&postgres.pool).await.map_err(PostgresError::from)? {
        tracing::warn!("the role of `database.url` may alter the journal; run fis as `fis_service` of ops/roles.sql");
    }
    books.refresh(postgres).await?;
    if books.view().is_empty() {
        tracing::warn!(
            "no books are applied: every event is rejected as `unknown_tenant`; apply books with `fis books apply FILE`"
        );
    }
    if mutant(mutants::UNIQUE_DROPPED) {
        drop_unique(&postgres.pool).await.map_err(PostgresError::from)?;
    }
    let identity = postgres.run(Work::of("service.ledger"), ledger::identity).await.map_err(PostgresError::from)?;
    identity.ok_or(ServiceError::NoIdentity)
}

/// Returns the queues that are left over of tenants who have none any more.
async fn check_broker(
    config: &Config,
    tenants: &TenantQueues,
    topology: &Topology,
    ledger: &str,
) -> Result<Vec<TenantQueue>, ServiceError> {
    let management = Management::of(&config.amqp)?;
    let connection = Connection::open(&config.amqp, "fis topology").await?;
    let checked = check_topology(topology, &management, &connection, ledger).await;
    connection.close().await;
    checked?;
    let left_over = left_over_queues(&management, tenants).await.unwrap_or_else(|error| {
        tracing::warn!(%error, "it cannot be seen whether a queue of a tenant is left over; one would not be drained");
        Vec::new()
    });
    for queue in &left_over {
        let (queue, tenant) = (queue.name(), &queue.tenant);
        tracing::warn!(%queue, %tenant, "{queue} is left over: its tenant is not in `intake.tenant_queues`; what is in it is posted");
    }
    Ok(left_over)
}

/// Refuses a topology that can lose messages, and a virtual host of another ledger: the two would share its events out between them.
async fn check_topology(
    topology: &Topology,
    management: &Management,
    connection: &Connection,
    ledger: &str,
) -> Result<(), ServiceError> {
    let refused = |what: &'static str| {
        move |error: TopologyError| AmqpError::Broker { what, code: error.code(), reason: error.to_string() }
    };
    let findings = connection.check_topology(topology, Some(management)).await;
    let findings = findings.map_err(refused("look at the topology"))?;
    if is_lossy(&findings) {
        return Err(ServiceError::Topology(lossy_text(&findings)));
    }
    for finding in findings {
        tracing::warn!(object = %finding.object, expected = %finding.expected, found = %finding.found, "{}", finding.remedy);
    }
    let other = take_virtual_host(connection, ledger).await.map_err(refused("make the virtual host this ledger's"))?;
    other.map_or(Ok(()), |other| Err(ServiceError::OtherLedger(report(&[other]))))
}

/// Where one command mends everything, the objects by name and that command; else all that is to be known of each.
fn lossy_text(findings: &[Finding]) -> String {
    if findings.iter().any(|finding| finding.remedy != APPLY || finding.severity != Severity::Lossy) {
        return report(findings);
    }
    let missing: Vec<&str> = findings.iter().map(|finding| finding.object.as_str()).collect();
    format!(
        "missing: {}\nrun `fis setup`, or `fis topology apply`; `fis topology check` tells more",
        missing.join(", ")
    )
}

fn start(config: &Config, parts: &Parts, tasks: &mut Tasks) {
    let Parts { edges, pipeline, .. } = parts.clone();
    let relay = Relay {
        postgres: edges.postgres.clone(),
        amqp: config.amqp.clone(),
        window: usize::from(config.outbox.window),
        poll: Duration::from_millis(config.outbox.poll_ms),
        tenant_keys: TenantKeys(config.outbox.tenant_keys),
        health: edges.health.clone(),
        handover: Arc::clone(&edges.handover),
    };
    let parking = Parking {
        postgres: edges.postgres.clone(),
        amqp: config.amqp.clone(),
        intake: config.intake.clone(),
        default_tenant: edges.default_tenant.clone(),
        health: edges.health.clone(),
        properties: outbox::properties_text,
        day: tenant_day(edges.books.clone()),
    };
    let stop = tasks.then.clone();
    tasks.spawn("relay", async move { relay.run(&stop).await });
    let (stop, own, told) = (tasks.then.clone(), config.clone(), edges.clone());
    tasks.spawn("instance", async move { instance::beat(&own, &told, &stop).await });
    let stop = tasks.first.clone();
    tasks.spawn("parking", async move { parking.run(&stop).await });
    let (stop, watched) = (tasks.first.clone(), edges.clone());
    tasks.spawn("books", async move { loops::watch_books(&watched, &stop).await });
    let (stop, probed) = (tasks.first.clone(), edges.clone());
    tasks.spawn("probe", async move { loops::probe(&probed, &stop).await });
    let (stop, watched) = (tasks.first.clone(), edges.clone());
    tasks.spawn("letters", async move { loops::watch_letters(&watched, &stop).await });
    let (stop, forgetting) = (tasks.first.clone(), edges.clone());
    tasks.spawn("forget", async move { loops::forget_ignored(&forgetting, &stop).await });
    // Behind whatever still writes to the log when it is told to stop.
    let (stop, sealed, busy) = (tasks.then.clone(), edges.clone(), Arc::clone(&pipeline));
    tasks.spawn("seal", async move { loops::seal_log(&sealed, &busy, &stop).await });
    // Behind whatever still rejects when it is told to stop.
    let (stop, told) = (tasks.then.clone(), Arc::clone(&pipeline));
    tasks.spawn("rejections", async move { loops::tell_rejections(&told, &stop).await });
    let (stop, posted, road) = (tasks.first.clone(), edges, pipeline);
    tasks.spawn("inbox", async move { loops::inbox(&posted, &road, &stop).await });
    let (stop, config, parts) = (tasks.first.clone(), config.clone(), parts.clone());
    tasks.spawn("intake", async move { loops::intake(&config, &parts, &stop).await });
}

/// The tenants' days, by the zones of their books; a tenant without books has UTC.
fn tenant_day(books: BooksShelf) -> TenantDay {
    Box::new(move |tenant, instant| {
        let view = books.view();
        let books = view.get(tenant).and_then(Shelved::books);
        books.map_or_else(|| instant.date_naive(), |books| books.calendar.local_date(instant))
    })
}

/// True: told to stop.
async fn wait(duration: Duration, stop: &CancellationToken) -> bool {
    tokio::select! {
        () = tokio::time::sleep(duration) => false,
        () = stop.cancelled() => true,
    }
}
