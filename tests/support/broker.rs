//! The other people at the broker: publishers that count only what was confirmed, the finance team that reads the feed, and
//! an observer of the queues.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fis::platform::amqp::management::encode;
use fis::platform::amqp::topology::DEFINITIONS;
use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties};
use serde_json::{Value, json};

use super::events::Message;
use super::servers::with_path;
use super::wait::{SOON, wait_until, wait_within};
use super::world::World;

pub const LANES: [&str; 3] = ["fis.ingestion.queue", "fis.urgent.queue", "fis.backfill.queue"];
pub const DLQ: &str = "fis.ingestion.dlq.queue";
pub const FINANCE: &str = "finance.queue";
/// Gets what the finance team gets, and is read only by the invariants.
pub const AUDIT: &str = "audit.queue";

/// How long a publisher tries: a node of a cluster that hangs is given up by its clients and by the other nodes one after the other.
const TROUBLE: Duration = Duration::from_secs(120);

/// A user of the broker with rights of its own in the world's virtual host.
pub struct Guest {
    pub name: String,
    pub url: String,
}

impl World {
    /// Makes a user who may configure, write and read what these patterns name, and may ask the management API.
    pub async fn guest(&self, who: &str, [configure, write, read]: [&str; 3]) -> Guest {
        let name = format!("{who}-{}", self.name);
        let body = json!({"password": "pw", "tags": "management"});
        self.management.put_json(&format!("users/{name}"), &body).await.unwrap();
        let path = format!("permissions/{}/{name}", encode(&self.vhost));
        let rights = json!({"configure": configure, "write": write, "read": read});
        self.management.put_json(&path, &rights).await.unwrap();
        let uri: lapin::uri::AMQPUri = self.amqp_url.split(',').next().unwrap().parse().unwrap();
        let address = format!("amqp://{name}:pw@{}:{}", uri.authority.host, uri.authority.port);
        Guest { name, url: with_path(&address, &encode(&self.vhost)) }
    }

    pub async fn forget(&self, guest: Guest) {
        self.management.delete(&format!("users/{}", guest.name)).await.unwrap();
    }

    /// To the broker, or to any node of a cluster that answers.
    pub async fn connect(&self) -> lapin::Result<Connection> {
        let mut urls: Vec<&str> = self.amqp_url.split(',').collect();
        fastrand::shuffle(&mut urls);
        let mut last = None;
        for url in urls {
            let connecting = Connection::connect(url, ConnectionProperties::default());
            match tokio::time::timeout(Duration::from_secs(10), connecting).await {
                Ok(Ok(connected)) => return Ok(connected),
                Ok(Err(error)) => last = Some(error),
                Err(_) => last = Some(std::io::Error::from(std::io::ErrorKind::TimedOut).into()),
            }
        }
        Err(last.unwrap())
    }

    /// Publishes with confirms; every message must be confirmed and routed.
    pub async fn publish(&self, messages: &[Message]) {
        let publisher = Publisher::open(self).await.unwrap();
        for window in messages.chunks(500) {
            let confirmed = publisher.send(window).await.unwrap();
            assert!(confirmed.iter().all(|confirmed| *confirmed), "a message was not taken");
            self.published.lock().unwrap().extend_from_slice(window);
        }
        publisher.close().await;
    }

    /// Publishes through any trouble: what was not confirmed is sent again, as a good publisher does.
    pub async fn publish_through_trouble(&self, messages: &[Message], window: usize) {
        let mut publisher = None;
        for window in messages.chunks(window) {
            let mut left: Vec<Message> = window.to_vec();
            wait_within("all messages are confirmed", TROUBLE, async || {
                let open = match publisher.take() {
                    Some(open) => open,
                    None => Publisher::open(self).await.map_err(|error| error.to_string())?,
                };
                let confirmed = open.send(&left).await.map_err(|error| error.to_string())?;
                // A channel that refuses may go on doing so for as long as a dead leader is away.
                match confirmed.iter().all(|confirmed| *confirmed) {
                    true => publisher = Some(open),
                    false => open.close().await,
                }
                let mut verdicts = confirmed.iter();
                left.retain(|_| !verdicts.next().is_some_and(|confirmed| *confirmed));
                if left.is_empty() { Ok(()) } else { Err(format!("{} messages were refused", left.len())) }
            })
            .await;
            self.published.lock().unwrap().extend_from_slice(window);
        }
        if let Some(publisher) = publisher {
            publisher.close().await;
        }
    }

    /// Publishes one load after the other, a few messages at a time at the pace of a busy shop, for as long as `until`
    /// takes; a load that was begun is published whole.
    pub async fn publish_during<T>(&self, load: impl Fn(usize) -> Vec<Message>, until: impl Future<Output = T>) -> T {
        let done = AtomicBool::new(false);
        let until = async {
            let value = until.await;
            done.store(true, Ordering::Relaxed);
            value
        };
        let publishing = async {
            let mut pace = tokio::time::interval(Duration::from_millis(30));
            for number in 0.. {
                for window in load(number).chunks(10) {
                    pace.tick().await;
                    self.publish_through_trouble(window, 10).await;
                }
                if done.load(Ordering::Relaxed) {
                    break;
                }
            }
        };
        tokio::join!(until, publishing).0
    }

    /// Messages ready in a queue, as the queue itself says.
    pub async fn ready_count(&self, queue: &str) -> u32 {
        let connection = self.connect().await.unwrap();
        let count = ready_count(&connection, queue).await.unwrap();
        let _ = connection.close(200, "bye".into()).await;
        count
    }

    /// The channels of a connection of fis, as the broker tells them; none while it does not know the connection.
    async fn channels_of(&self, connection: &str) -> BTreeSet<String> {
        let of_kind = async |kind: &str| -> Vec<Value> {
            let path = format!("{}/{kind}", self.management.list_path("vhosts"));
            self.management.get_json(&path).await.unwrap_or_default()
        };
        let connections = of_kind("connections").await;
        let ours = connections.iter().find(|one| one["client_properties"]["connection_name"] == connection);
        let Some(name) = ours.and_then(|one| one["name"].as_str()) else { return BTreeSet::new() };
        let channels = of_kind("channels").await;
        let names = channels.iter().filter_map(|channel| channel["name"].as_str());
        names.filter(|channel| channel.starts_with(&format!("{name} ("))).map(ToOwned::to_owned).collect()
    }

    /// Waits until a connection that lives on has a new channel instead of an old one. The broker's list is some seconds late
    /// and may know another channel of the connection only: whatever it has shown so far counts as old.
    pub async fn until_a_channel_is_renewed(&self, connection: &str) {
        let mut seen = BTreeSet::new();
        wait_until("there is a new one instead of an old one", async || {
            let now = self.channels_of(connection).await;
            let of = |channel: &String| channel.split_once(" (").map(|(connection, _)| connection.to_owned());
            let lives_on = now.first().and_then(of);
            let gone = seen.difference(&now).any(|channel| of(channel) == lives_on);
            let new = now.difference(&seen).count() > 0;
            let told = format!("{seen:?}, then {now:?}");
            seen.extend(now);
            if new && gone { Ok(()) } else { Err(told) }
        })
        .await;
    }

    /// A queue that holds one message and takes no other, until the policy that is returned is deleted.
    pub async fn fill_up(&self, queue: &str) -> String {
        let policy = self.management.object_path("policies", "full");
        let definition = json!({"max-length": 1, "overflow": "reject-publish"});
        let full = json!({"pattern": queue, "apply-to": "queues", "definition": definition});
        self.management.put_json(&policy, &full).await.unwrap();
        policy
    }

    /// Queues of the finance team and of the auditors, bound to everything that fis says.
    pub async fn declare_readers(&self) {
        for queue in [FINANCE, AUDIT] {
            self.declare_queue(queue, "fis.domain.exchange", "fis.#").await;
        }
    }

    /// A reader's queue, bound.
    pub async fn declare_queue(&self, queue: &str, exchange: &str, key: &str) {
        let body = json!({"durable": true, "arguments": {"x-queue-type": "quorum"}});
        self.management.put_json(&self.management.object_path("queues", queue), &body).await.unwrap();
        self.bind(exchange, queue, key).await;
    }

    /// Deletes a queue of the topology and declares it again, within milliseconds.
    pub async fn declare_again(&self, queue: &str) {
        let definitions: Value = serde_json::from_str(DEFINITIONS).unwrap();
        let queues = definitions["queues"].as_array().unwrap();
        let body = queues.iter().find(|known| known["name"] == queue).unwrap();
        let body = json!({"durable": true, "arguments": body["arguments"]});
        let path = self.management.object_path("queues", queue);
        self.management.delete(&path).await.unwrap();
        self.management.put_json(&path, &body).await.unwrap();
        // The bindings.
        self.apply_topology().await;
    }

    pub async fn bind(&self, exchange: &str, queue: &str, key: &str) {
        let path = format!("bindings/{}/e/{exchange}/q/{queue}", encode(&self.vhost));
        self.management.post_json(&path, &json!({"routing_key": key})).await.unwrap();
    }

    pub async fn finance(&self) -> Reader {
        self.reader(FINANCE).await
    }

    pub async fn reader(&self, queue: &'static str) -> Reader {
        let connection = self.connect().await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        Reader { _connection: connection, channel, queue, messages: Vec::new() }
    }
}

pub async fn ready_count(connection: &Connection, queue: &str) -> lapin::Result<u32> {
    let channel = connection.create_channel().await?;
    let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    let queue = channel.queue_declare(queue.into(), passive, FieldTable::default()).await?;
    let _ = channel.close(200, "seen".into()).await;
    Ok(queue.message_count())
}

/// A channel in confirm mode.
pub struct Publisher {
    /// None where it is somebody else's.
    connection: Option<Connection>,
    channel: Channel,
}

impl Publisher {
    pub async fn open(world: &World) -> lapin::Result<Self> {
        let connection = world.connect().await?;
        let publisher = Self::on(connection.create_channel().await?).await?;
        Ok(Self { connection: Some(connection), ..publisher })
    }

    pub async fn on(channel: Channel) -> lapin::Result<Self> {
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        Ok(Self { connection: None, channel })
    }

    /// Publishes persistent and mandatory; true for each message that the broker has taken.
    pub async fn send(&self, messages: &[Message]) -> lapin::Result<Vec<bool>> {
        let all = async {
            let mut confirms = Vec::with_capacity(messages.len());
            for message in messages {
                let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
                let (exchange, key) = (message.exchange.into(), message.routing_key.as_str().into());
                let properties = message.properties.clone();
                confirms.push(self.channel.basic_publish(exchange, key, options, &message.body, properties).await?);
            }
            let mut confirmed = Vec::with_capacity(messages.len());
            for confirm in confirms {
                confirmed.push(match confirm.await? {
                    Confirmation::Ack(None) => true,
                    Confirmation::Ack(Some(_)) | Confirmation::Nack(_) | Confirmation::NotRequested => false,
                });
            }
            Ok(confirmed)
        };
        match tokio::time::timeout(SOON, all).await {
            Ok(sent) => sent,
            Err(_) => Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into()),
        }
    }

    pub async fn close(self) {
        if let Some(connection) = self.connection {
            let _ = connection.close(200, "bye".into()).await;
        }
    }
}

/// A message as the finance team got it.
#[derive(Debug, Clone)]
pub struct Received {
    pub routing_key: String,
    pub properties: BasicProperties,
    pub body: Vec<u8>,
}

impl Received {
    pub fn new(delivery: Delivery) -> Self {
        Self {
            routing_key: delivery.routing_key.as_str().to_owned(),
            properties: delivery.properties,
            body: delivery.data,
        }
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub fn data(&self) -> Value {
        self.json()["data"].clone()
    }

    pub fn message_id(&self) -> String {
        self.properties.message_id().as_ref().unwrap().as_str().to_owned()
    }

    pub fn header(&self, name: &str) -> Option<AMQPValue> {
        self.properties.headers().as_ref()?.inner().get(name).cloned()
    }
}

/// Somebody who reads the feed.
pub struct Reader {
    _connection: Connection,
    channel: Channel,
    queue: &'static str,
    /// Everything read so far, in order.
    pub messages: Vec<Received>,
}

impl Reader {
    /// Reads what is there.
    pub async fn drain(&mut self) {
        while let Some(got) = self.channel.basic_get(self.queue.into(), BasicGetOptions::default()).await.unwrap() {
            got.delivery.ack(BasicAckOptions::default()).await.unwrap();
            self.messages.push(Received::new(got.delivery));
        }
    }

    /// Reads until there are so many messages, and returns all of them.
    pub async fn read(&mut self, count: usize) -> &[Received] {
        wait_until("the feed", async || {
            self.drain().await;
            let kinds: Vec<&str> = self.messages.iter().map(|message| message.routing_key.as_str()).collect();
            if kinds.len() >= count { Ok(()) } else { Err(format!("{} of {count}: {kinds:?}", kinds.len())) }
        })
        .await;
        &self.messages
    }

    /// Messages of one kind.
    pub fn of(&self, routing_key: &str) -> Vec<&Received> {
        self.messages.iter().filter(|message| message.routing_key == routing_key).collect()
    }
}
