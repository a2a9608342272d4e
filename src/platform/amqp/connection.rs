//! A connection to the broker, made within a deadline. Where several addresses are given, any that answers is taken, and the
//! search begins at another one each time: connections spread over the nodes, and nothing is remembered that could be
//! stale by the next loss. Credentials never appear in an error.

use std::sync::Arc;
use std::time::Duration;

use lapin::options::{ExchangeDeclareOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use lapin::uri::AMQPUri;
use lapin::{ConnectionProperties, ExchangeKind};

use super::AmqpError;
use super::address;
use super::link::Link;
use super::management::Management;
use super::message::short;
use super::reply::{self, ReplyCode};
use super::topology::{Applied, Belongs, Finding, Topology, TopologyError, apply, check, sweep, take};
use super::transport;
use super::within;
use crate::platform::config;

/// Loss is noticed after twice this time, and posting is to go on within 15 s of a broken wire. The broker's default of 60 s would
/// mean two silent minutes.
const HEARTBEAT_SECONDS: u16 = 6;
/// On a connection whose loss must move its work to another instance, however it was lost: the broker notices a stopped process
/// after twice this time. RabbitMQ warns of false alarms below 5 s.
const OWNER_HEARTBEAT_SECONDS: u16 = 5;

/// lapin keeps 64 frames of buffer for each connection: 8 MiB with these, which are the broker's default. A broker that offers more
/// is asked for this: what is larger all the same, because a message's headers come in one frame, `wire` cuts.
const FRAME_BYTES_MAX: u32 = 128 * 1024;
/// A connection that only publishes knows its messages, and saves the memory. RabbitMQ 4.1 takes nothing below 8 KiB.
const PUBLISHER_FRAME_BYTES_MAX: u32 = 32 * 1024;

/// The reason why one address does not take us, as the predicate of a sentence about it.
struct Refusal {
    why: String,
    /// Waiting will not mend it.
    is_hopeless: bool,
}

impl Refusal {
    fn of(error: &lapin::Error, user: &str, vhost: &str) -> Self {
        let code = reply::code_of(error);
        let why = match code {
            Some(ReplyCode::AccessRefused) => {
                format!("refuses user `{user}` (ACCESS_REFUSED): no such user, or a wrong password")
            }
            Some(ReplyCode::NotAllowed) => {
                format!(
                    "does not let user `{user}` into virtual host `{vhost}` (NOT_ALLOWED): it does not exist, or the user has no right"
                )
            }
            _ => reply::text_of(error),
        };
        Self { why, is_hopeless: matches!(code, Some(ReplyCode::AccessRefused | ReplyCode::NotAllowed)) }
    }
}

pub struct Connection {
    link: Arc<Link>,
    timeout: Duration,
}

impl Connection {
    /// # Errors
    /// No address answers, or none is an AMQP URL.
    pub async fn open(config: &config::Amqp, name: &str) -> Result<Self, AmqpError> {
        Self::open_with(config, name, FRAME_BYTES_MAX, false).await
    }

    /// For a connection that only publishes, and only what was bounded before: with small frames, and small buffers.
    ///
    /// # Errors
    /// No address answers, or none is an AMQP URL.
    pub async fn open_to_publish(config: &config::Amqp, name: &str) -> Result<Self, AmqpError> {
        Self::open_with(config, name, PUBLISHER_FRAME_BYTES_MAX, false).await
    }

    /// Opens a connection that only publishes, for work that only one may do at a time (`try_own`): the broker notices soon when it is left.
    ///
    /// # Errors
    /// No address answers, or none is an AMQP URL.
    pub async fn open_to_own(config: &config::Amqp, name: &str) -> Result<Self, AmqpError> {
        Self::open_with(config, name, PUBLISHER_FRAME_BYTES_MAX, true).await
    }

    async fn open_with(
        config: &config::Amqp,
        name: &str,
        frame_bytes_max: u32,
        owner: bool,
    ) -> Result<Self, AmqpError> {
        let addresses = address::parse(config)?;
        let (later, sooner) = addresses.split_at(fastrand::usize(..addresses.len().max(1)));
        let mut tried = Vec::new();
        for address in sooner.iter().chain(later) {
            let mut uri = address.uri();
            // An owner takes nothing longer, and not zero, which is none at all: a stopped one would stay the owner for ever.
            let asked = uri.query.heartbeat.filter(|asked| !owner || (1..=OWNER_HEARTBEAT_SECONDS).contains(asked));
            uri.query.heartbeat = asked.or(Some(if owner { OWNER_HEARTBEAT_SECONDS } else { HEARTBEAT_SECONDS }));
            uri.query.frame_max = uri.query.frame_max.or(Some(frame_bytes_max));
            match Self::connect(uri, config.timeout_ms, name).await {
                Ok(connection) => return Ok(connection),
                Err(refusal) => {
                    if addresses.len() > 1 {
                        let (place, why) = (address.place(), &refusal.why);
                        tracing::debug!(server.address = place, "RabbitMQ at {place} {why}, trying the next");
                    }
                    tried.push((address.place(), refusal));
                }
            }
        }
        let why = match tried.as_slice() {
            [(_, only)] => only.why.clone(),
            all => {
                let said: Vec<String> = all.iter().map(|(place, said)| format!("{place} {}", said.why)).collect();
                format!("does not take us: {}", said.join("; "))
            }
        };
        Err(AmqpError::Unreachable {
            address: Box::new(address::server(config, &addresses)),
            why,
            // One node may be starting or shut out; as long as another merely does not answer, waiting may help.
            is_hopeless: tried.iter().all(|(_, refusal)| refusal.is_hopeless),
        })
    }

    async fn connect(uri: AMQPUri, milliseconds: u64, name: &str) -> Result<Self, Refusal> {
        let (user, vhost) = (uri.authority.userinfo.username.clone(), uri.vhost.clone());
        let timeout = Duration::from_millis(milliseconds);
        let properties = ConnectionProperties::default().with_connection_name(name.into());
        // lapin has no connect timeout of its own on the asynchronous path.
        match tokio::time::timeout(timeout, transport::connect(uri, properties)).await {
            Ok(Ok(inner)) => Ok(Self { link: Arc::new(Link::new(inner)), timeout }),
            Ok(Err(error)) => Err(Refusal::of(&error, &user, &vhost)),
            Err(_) => Err(Refusal { why: format!("does not answer within {milliseconds} ms"), is_hopeless: false }),
        }
    }

    /// The broker has raised an alarm and takes no publishes for now. A connection that is lost is not blocked: lapin would say
    /// so for ever, because nobody is left to take the alarm back.
    #[must_use]
    pub fn is_blocked(&self) -> bool {
        self.link.status().blocked() && self.is_connected()
    }

    /// The user who is logged in.
    #[must_use]
    pub fn user(&self) -> String {
        self.link.status().username()
    }

    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.link.status().connected()
    }

    pub(super) async fn channel(&self) -> Result<Arc<lapin::Channel>, AmqpError> {
        self.within("open a channel", self.link.channel()).await
    }

    pub(super) fn link(&self) -> Arc<Link> {
        Arc::clone(&self.link)
    }

    /// Waits for an answer of the broker, but not for ever. After a timeout the state is unknown and the session must be
    /// dropped.
    pub(super) async fn within<T>(
        &self,
        what: &'static str,
        answer: impl Future<Output = lapin::Result<T>>,
    ) -> Result<T, AmqpError> {
        within(self.timeout, what, answer).await
    }

    /// The longest time that an answer may take.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Declares the topology; see `topology::apply`.
    ///
    /// # Errors
    /// The broker is away or refuses.
    pub async fn apply_topology(&self, topology: &Topology) -> Result<Vec<Applied>, TopologyError> {
        apply(topology, &self.link).await
    }

    /// Takes bindings away that are left over; see `topology::sweep`.
    ///
    /// # Errors
    /// The broker is away or refuses.
    pub async fn sweep_topology(
        &self,
        topology: &Topology,
        management: &Management,
    ) -> Result<Vec<Applied>, TopologyError> {
        sweep(topology, &self.link, management).await
    }

    /// Compares the broker with the topology; see `topology::check`.
    ///
    /// # Errors
    /// The broker is away or refuses to be asked.
    pub async fn check_topology(
        &self,
        topology: &Topology,
        management: Option<&Management>,
    ) -> Result<Vec<Finding>, TopologyError> {
        check(topology, &self.link, management).await
    }

    /// Takes the virtual host for an owner, by an exchange that names it; see `topology::take`.
    ///
    /// # Errors
    /// The broker is away or refuses to be asked.
    pub async fn take_virtual_host(&self, marker: &str, owner: &str) -> Result<Belongs, TopologyError> {
        take(&self.link, marker, owner).await
    }

    /// Messages ready in a queue, as the queue itself says.
    ///
    /// # Errors
    /// There is no such queue, or the broker is away.
    pub async fn ready_count(&self, queue: &str) -> Result<u32, AmqpError> {
        Ok(self.look_at(queue).await?.message_count())
    }

    /// Consumers of a queue.
    ///
    /// # Errors
    /// There is no such queue, or the broker is away.
    pub async fn consumer_count(&self, queue: &str) -> Result<u32, AmqpError> {
        Ok(self.look_at(queue).await?.consumer_count())
    }

    async fn look_at(&self, queue: &str) -> Result<lapin::Queue, AmqpError> {
        let channel = self.channel().await?;
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        self.within("look at a queue", channel.queue_declare(short(queue), options, FieldTable::default())).await
    }

    /// Asks whether there is such an exchange, of whatever kind, and creates nothing.
    ///
    /// # Errors
    /// There is none, or the broker is away.
    pub async fn find_exchange(&self, name: &str) -> Result<(), AmqpError> {
        // On a channel of its own: a refusal closes it.
        let channel = self.channel().await?;
        let options = ExchangeDeclareOptions { passive: true, ..ExchangeDeclareOptions::default() };
        let asked = channel.exchange_declare(short(name), ExchangeKind::Direct, options, FieldTable::default());
        self.within("find an exchange", asked).await
    }

    /// Says goodbye; what is unsettled goes back to its queue. A broker that does not answer within a second is left alone.
    pub async fn close(self) {
        self.link.close().await;
    }
}
