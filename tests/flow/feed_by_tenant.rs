//! The feed of one tenant: whoever binds by the tenant's key gets its events and no others, the broker can hold a reader to it, and nobody else notices.

use fis::platform::amqp::management::encode;
use lapin::options::{BasicAckOptions, BasicGetOptions, BasicQosOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use serde_json::json;

use crate::support::broker::{Guest, Received};
use crate::support::events::{order_of, payment};
use crate::support::wait::wait_until;
use crate::support::world::{Setup, World};

const README: &str = include_str!("../../topology/README.md");
const FEED: &str = "fis.domain.exchange";
/// Names that would be one another's if a key were read carelessly.
const TENANTS: &[&str] = &["acme", "acme.eu", "eu.acme", "acme-eu"];

/// The setting under which the second key is there.
const ON: [(&str, &str); 1] = [("FIS__OUTBOX__TENANT_KEYS", "true")];

/// The patterns in quotes of the README's line that begins so.
fn rights(start: &str) -> Vec<&'static str> {
    let line = README.lines().find_map(|line| line.strip_prefix(start)).expect("the README names its rights");
    line.split('\'').skip(1).step_by(2).collect()
}

/// The reader of `acme`, with the rights that the README gives.
async fn reader_of_acme(world: &World) -> Guest {
    let plain = rights("rabbitmqctl set_permissions --vhost /fis acme_reader ");
    let guest = world.guest("acme_reader", plain.try_into().unwrap()).await;
    let [write, read] =
        rights("rabbitmqctl set_topic_permissions --vhost /fis acme_reader fis.domain.exchange ").try_into().unwrap();
    topic_rights(world, &guest, write, read).await;
    guest
}

async fn topic_rights(world: &World, guest: &Guest, write: &str, read: &str) {
    let path = format!("topic-permissions/{}/{}", encode(&world.vhost), guest.name);
    let body = json!({"exchange": FEED, "write": write, "read": read});
    world.management.put_json(&path, &body).await.unwrap();
}

async fn bind(channel: &Channel, queue: &str, key: &str) -> bool {
    let (options, none) = (QueueBindOptions::default(), FieldTable::default());
    channel.queue_bind(queue.into(), FEED.into(), key.into(), options, none).await.is_ok()
}

async fn declare(channel: &Channel, queue: &str) {
    let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    let mut quorum = FieldTable::default();
    quorum.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
    channel.queue_declare(queue.into(), durable, quorum).await.unwrap();
}

/// Everything in a queue, when nothing comes any more.
async fn all(channel: &Channel, queue: &str, expected: usize) -> Vec<Received> {
    let mut messages = Vec::new();
    wait_until("the messages are there", async || {
        while let Some(got) = channel.basic_get(queue.into(), BasicGetOptions::default()).await.unwrap() {
            got.delivery.ack(BasicAckOptions::default()).await.unwrap();
            messages.push(Received::new(got.delivery));
        }
        if messages.len() >= expected { Ok(()) } else { Err(format!("{} of {expected} in {queue}", messages.len())) }
    })
    .await;
    messages
}

fn tenants(messages: &[Received]) -> Vec<String> {
    messages.iter().map(|message| message.data()["tenantId"].as_str().unwrap().to_owned()).collect()
}

/// The properties that a reader sees, without the broker's own headers.
fn seen(message: &Received) -> (String, BasicProperties, Vec<u8>) {
    let mut own = FieldTable::default();
    for (name, value) in message.properties.headers().iter().flatten() {
        if !BROKERS.contains(&name.as_str()) {
            own.insert(name.clone(), value.clone());
        }
    }
    (message.routing_key.clone(), message.properties.clone().with_headers(own), message.body.clone())
}

const BROKERS: [&str; 2] = ["x-stream-offset", "x-delivery-count"];

/// One order of each tenant, one event that is rejected, one that names no tenant.
async fn announce(world: &World) {
    let mut messages: Vec<_> =
        TENANTS.iter().map(|tenant| order_of(tenant, &format!("order-{tenant}"), "EUR", "119.00", "19.00")).collect();
    messages.push(payment("bad", "9999", "1.50").rejected("unknown_account"));
    messages.push(crate::support::events::Message::new("a.b.c", "{").rejected("malformed_json"));
    world.publish(&messages).await;
    world.fis_with(&["run", "--once"], &ON).await.expect(0, &[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_of_one_tenant_gets_its_events_and_may_bind_nothing_else() {
    let world = World::with("tenant_reader", Setup { tenants: TENANTS, ..Setup::default() }).await;
    let guest = reader_of_acme(&world).await;
    let connection = Connection::connect(&guest.url, ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    declare(&channel, "acme.postings").await;
    declare(&channel, "acme.all").await;
    assert!(bind(&channel, "acme.postings", "fis.journal.posted.acme").await);
    // By several keys, and yet one copy.
    for key in ["fis.*.*.acme", "fis.journal.*.acme", "fis.event.rejected.acme", "fis.journal.posted.acme"] {
        assert!(bind(&channel, "acme.all", key).await, "{key}");
    }
    let refused = [
        "#",
        "fis.#",
        "*.*.*",
        "fis.journal.*",
        "fis.journal.posted",
        "fis.event.rejected",
        "fis.journal.posted.#",
        "fis.journal.posted.*",
        "fis.journal.posted.acme.eu",
        "fis.journal.posted.eu.acme",
        "fis.*.*.acme.eu",
        "fis.*.*.*.acme",
        "fis.#.acme",
        "#.acme",
        "fis.journal.posted.acme-eu",
        "fis.journal.posted.acme.#",
        "fis.journal.posted.acme.*",
        "",
    ];
    for key in refused {
        // A refusal closes its channel.
        let channel = connection.create_channel().await.unwrap();
        assert!(!bind(&channel, "acme.postings", key).await, "{key:?} was bound");
    }
    let stream = connection.create_channel().await.unwrap();
    stream.basic_qos(10, BasicQosOptions::default()).await.unwrap();
    assert!(
        stream
            .basic_consume("fis.journal.stream".into(), "".into(), Default::default(), FieldTable::default())
            .await
            .is_err()
    );

    announce(&world).await;
    let mut finance = world.finance().await;
    finance.read(6).await;
    let postings = all(&channel, "acme.postings", 1).await;
    assert_eq!(tenants(&postings), ["acme"]);
    let everything = all(&channel, "acme.all", 2).await;
    assert_eq!(tenants(&everything), ["acme", "acme"], "each once");
    let kinds: Vec<&str> = everything.iter().map(|message| message.routing_key.as_str()).collect();
    assert!(kinds.contains(&"fis.journal.posted") && kinds.contains(&"fis.event.rejected"), "{kinds:?}");
    // It is the message that everybody else gets.
    for message in &everything {
        let same = finance.messages.iter().find(|other| other.message_id() == message.message_id()).unwrap();
        assert_eq!(seen(message), seen(same));
    }
    // What is sent again to everybody comes by the same keys.
    let again = ["feed", "resend", "--tenant", "acme", "--from", "1", "--to", "1"];
    world.fis_with(&again, &ON).await.expect(0, &[]);
    assert_eq!(all(&channel, "acme.postings", 1).await[0].message_id(), postings[0].message_id());
    world.forget(guest).await;
    world.invariants().await;
}

/// The second key costs the broker work, so nobody has it who has not asked for it.
#[tokio::test(flavor = "multi_thread")]
async fn without_the_setting_there_is_no_second_key() {
    let world = World::new("no_tenant_keys").await;
    let connection = world.connect().await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    declare(&channel, "by.tenant").await;
    assert!(bind(&channel, "by.tenant", "fis.*.*.acme").await);
    world.publish(&[order_of("acme", "evt", "EUR", "119.00", "19.00")]).await;
    world.fis(&["run", "--once"]).await.expect(0, &[]);
    world.finance().await.read(1).await;
    assert_eq!(world.ready_count("by.tenant").await, 0);
}

/// Bindings of before get each message once; neither a queue nor the stream shows a second key, and what is sent again is what was sent.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_else_notices_the_second_key() {
    let world = World::with("hidden_key", Setup { tenants: TENANTS, ..Setup::default() }).await;
    let connection = world.connect().await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    let queues = [
        ("old.hash", &["#"][..], 6),
        ("old.journal", &["fis.journal.*"], 4),
        ("old.several", &["#", "fis.#", "fis.journal.*", "fis.journal.posted.acme", "fis.*.*.acme"], 6),
        ("old.dotted", &["fis.*.*.acme.eu"], 1),
        ("again", &[], 4),
    ];
    for (queue, keys, _) in queues {
        declare(&channel, queue).await;
        for key in keys {
            assert!(bind(&channel, queue, key).await);
        }
    }
    announce(&world).await;
    for tenant in TENANTS {
        let again = ["feed", "resend", "--tenant", tenant, "--from", "1", "--to", "1", "--queue", "again"];
        world.fis_with(&again, &ON).await.expect(0, &[]);
    }
    let mut read = Vec::new();
    for (queue, _, expected) in queues {
        let messages = all(&channel, queue, expected).await;
        assert_eq!(messages.len(), expected, "{queue}");
        assert_eq!(world.ready_count(queue).await, 0, "{queue}");
        for message in &messages {
            let headers: Vec<String> =
                message.properties.headers().iter().flatten().map(|(name, _)| name.to_string()).collect();
            assert!(!headers.iter().any(|name| name == "BCC" || name == "CC"), "{queue}: {headers:?}");
        }
        read.push(messages);
    }
    let [whole, journal, several, dotted, again] = read.try_into().unwrap();
    assert_eq!(tenants(&dotted), ["acme.eu"]);
    // What went straight to one queue never had a second key: its properties and bytes are those of the others.
    for message in &again {
        let same = journal.iter().find(|other| other.message_id() == message.message_id()).unwrap();
        let (_, properties, body) = seen(same);
        assert_eq!(seen(message), ("again".to_owned(), properties, body));
    }
    let sorted = |messages: &[Received]| {
        let mut ids: Vec<String> = messages.iter().map(Received::message_id).collect();
        ids.sort();
        ids
    };
    assert_eq!(sorted(&whole), sorted(&several));
    let streamed = stream(&connection, 6).await;
    assert_eq!(sorted(&streamed), sorted(&whole));
    for message in &streamed {
        let same = whole.iter().find(|other| other.message_id() == message.message_id()).unwrap();
        assert_eq!(seen(message), seen(same));
    }
    world.fis(&["feed", "verify", "--against-ledger"]).await.expect(0, &[]);
}

async fn stream(connection: &Connection, count: usize) -> Vec<Received> {
    use futures::StreamExt;
    let channel = connection.create_channel().await.unwrap();
    channel.basic_qos(100, BasicQosOptions::default()).await.unwrap();
    let mut first = FieldTable::default();
    first.insert("x-stream-offset".into(), AMQPValue::LongString("first".into()));
    let mut consumer =
        channel.basic_consume("fis.journal.stream".into(), "".into(), Default::default(), first).await.unwrap();
    let mut messages = Vec::new();
    while messages.len() < count {
        let next = tokio::time::timeout(std::time::Duration::from_secs(30), consumer.next()).await.unwrap();
        messages.push(Received::new(next.unwrap().unwrap()));
    }
    messages
}

/// A service whose rights are narrowed to topics needs those of both keys on brokers that compare both.
#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_may_write_the_documented_topics_announces() {
    let world = World::new("service_topics").await;
    let plain = rights("rabbitmqctl set_permissions --vhost /fis fis_service ");
    let guest = world.guest("fis_service", plain.try_into().unwrap()).await;
    topic_rights(&world, &guest, r"^fis\.", "^$").await;
    world.publish(&[order_of("acme", "evt", "EUR", "119.00", "19.00")]).await;
    let environment = [("FIS_AMQP_URL", guest.url.as_str()), ON[0]];
    world.fis_with(&["run", "--once"], &environment).await.expect(0, &[]);
    world.finance().await.read(1).await;
    world.forget(guest).await;
}
