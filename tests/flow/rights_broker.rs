//! Rights in the broker: each user of `topology/README.md` can do its work with the rights that stand there, and nothing else.

use fis::platform::amqp::management::encode;
use lapin::options::{
    BasicConsumeOptions, BasicGetOptions, BasicQosOptions, ExchangeDeclareOptions, QueueBindOptions,
    QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Connection, ConnectionProperties, ExchangeKind};
use serde_json::json;

use crate::support::broker::{DLQ, Guest, LANES, Publisher};
use crate::support::events::{BACKFILL, LIVE, Message, URGENT, order, payment};
use crate::support::world::World;

const README: &str = include_str!("../../topology/README.md");
const STREAM: &str = "fis.journal.stream";
const FEED: &str = "fis.domain.exchange";

/// A user with the three rights that the README gives to one of that name.
async fn guest(world: &World, user: &str) -> Guest {
    let start = format!("rabbitmqctl set_permissions --vhost /fis {user} ");
    let line = README.lines().find_map(|line| line.strip_prefix(&start)).expect("the README names its rights");
    let rights: Vec<&str> = line.split('\'').skip(1).step_by(2).collect();
    world.guest(user, rights.try_into().unwrap()).await
}

async fn connect(guest: &Guest) -> Connection {
    Connection::connect(&guest.url, ConnectionProperties::default()).await.unwrap()
}

/// What a user may do, each on a channel of its own, for a refusal closes it.
struct May<'c>(&'c Connection);

impl May<'_> {
    async fn publish(&self, exchange: &'static str) -> bool {
        let publisher = Publisher::on(self.0.create_channel().await.unwrap()).await.unwrap();
        publisher.send(&[Message::new("a.b.c", "{}").on(exchange)]).await.is_ok_and(|taken| taken[0])
    }

    async fn take(&self, queue: &str) -> bool {
        let channel = self.0.create_channel().await.unwrap();
        channel.basic_get(queue.into(), BasicGetOptions::default()).await.is_ok()
    }

    async fn read_stream(&self) -> bool {
        let channel = self.0.create_channel().await.unwrap();
        channel.basic_qos(10, BasicQosOptions::default()).await.unwrap();
        let mut from = FieldTable::default();
        from.insert("x-stream-offset".into(), AMQPValue::LongString("first".into()));
        channel.basic_consume(STREAM.into(), "".into(), BasicConsumeOptions::default(), from).await.is_ok()
    }

    async fn make_queue(&self, name: &str) -> bool {
        let channel = self.0.create_channel().await.unwrap();
        let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        channel.queue_declare(name.into(), durable, FieldTable::default()).await.is_ok()
    }

    async fn delete(&self, queue: &str) -> bool {
        let channel = self.0.create_channel().await.unwrap();
        channel.queue_delete(queue.into(), Default::default()).await.is_ok()
    }

    async fn purge(&self, queue: &str) -> bool {
        let channel = self.0.create_channel().await.unwrap();
        channel.queue_purge(queue.into(), Default::default()).await.is_ok()
    }

    async fn make_exchange(&self, name: &str) -> bool {
        let channel = self.0.create_channel().await.unwrap();
        let options = ExchangeDeclareOptions::default();
        channel.exchange_declare(name.into(), ExchangeKind::Fanout, options, FieldTable::default()).await.is_ok()
    }

    async fn bind(&self, queue: &str, exchange: &str) -> bool {
        self.bind_by(queue, exchange, "#").await
    }

    async fn bind_by(&self, queue: &str, exchange: &str, key: &str) -> bool {
        let channel = self.0.create_channel().await.unwrap();
        let (options, none) = (QueueBindOptions::default(), FieldTable::default());
        channel.queue_bind(queue.into(), exchange.into(), key.into(), options, none).await.is_ok()
    }

    /// Everything that none of them but the owner of the topology may do.
    async fn harms_nothing(&self) {
        for queue in LANES.into_iter().chain([DLQ, STREAM]) {
            assert!(!self.delete(queue).await, "{queue} was deleted");
            assert!(!self.bind(queue, "fis.events.exchange").await, "{queue} was bound");
        }
        assert!(!self.make_exchange("fis.x").await && !self.make_queue("fis.x").await);
        assert!(!self.publish("fis.dlx.exchange").await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_publisher_publishes_to_the_lanes_and_does_nothing_else() {
    let world = World::new("publisher_rights").await;
    let guest = guest(&world, "fis_publisher").await;
    let connection = connect(&guest).await;
    let may = May(&connection);
    for lane in [LIVE, URGENT, BACKFILL] {
        assert!(may.publish(lane).await, "{lane}");
    }
    may.harms_nothing().await;
    for exchange in ["fis.domain.exchange", "", "amq.topic"] {
        assert!(!may.publish(exchange).await, "{exchange}");
    }
    for queue in LANES.into_iter().chain([DLQ]) {
        assert!(!may.take(queue).await && !may.purge(queue).await, "{queue}");
    }
    assert!(!may.read_stream().await && !may.make_queue("x").await && !may.make_queue("fis.relay.owner").await);
    world.forget(guest).await;
}

/// It sees what was rejected, of its tenant or of all, and nothing of what was booked.
#[tokio::test(flavor = "multi_thread")]
async fn a_publisher_that_hears_its_rejections_hears_nothing_else() {
    let world = World::new("shop_rights").await;
    let guest = guest(&world, "shop").await;
    let start = "rabbitmqctl set_topic_permissions --vhost /fis shop fis.domain.exchange ";
    let line = README.lines().find_map(|line| line.strip_prefix(start)).expect("the README names its topics");
    let topics: Vec<&str> = line.split('\'').skip(1).step_by(2).collect();
    let path = format!("topic-permissions/{}/{}", encode(&world.vhost), guest.name);
    let body = json!({"exchange": FEED, "write": topics[0], "read": topics[1]});
    world.management.put_json(&path, &body).await.unwrap();
    let connection = connect(&guest).await;
    let may = May(&connection);
    for lane in [LIVE, URGENT, BACKFILL] {
        assert!(may.publish(lane).await, "{lane}");
    }
    assert!(may.make_queue("shop.rejections").await && may.take("shop.rejections").await);
    for key in ["fis.event.rejected", "fis.event.rejected.acme"] {
        assert!(may.bind_by("shop.rejections", FEED, key).await, "{key}");
    }
    for key in ["#", "fis.#", "fis.*.*", "fis.journal.posted", "fis.event.rejected.globex", "fis.journal.posted.acme"] {
        assert!(!may.bind_by("shop.rejections", FEED, key).await, "{key}");
    }
    may.harms_nothing().await;
    assert!(!may.publish(FEED).await && !may.publish("").await && !may.read_stream().await);
    assert!(!may.take(LANES[0]).await && !may.make_queue("x").await);
    world.forget(guest).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_reads_the_stream_and_does_nothing_else() {
    let world = World::new("reader_rights").await;
    let guest = guest(&world, "fis_reader").await;
    let connection = connect(&guest).await;
    let may = May(&connection);
    assert!(may.read_stream().await);
    may.harms_nothing().await;
    for exchange in [LIVE, URGENT, BACKFILL, "fis.domain.exchange", ""] {
        assert!(!may.publish(exchange).await, "{exchange}");
    }
    for queue in LANES.into_iter().chain([DLQ]) {
        assert!(!may.take(queue).await && !may.purge(queue).await, "{queue}");
    }
    assert!(!may.make_queue("x").await && !may.make_queue("fis.relay.owner").await);
    world.forget(guest).await;
}

/// A queue of one's own is bound to the feed, and takes nothing of others.
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_with_queues_of_its_own_makes_and_binds_them() {
    let world = World::new("finance_rights").await;
    let guest = guest(&world, "finance").await;
    let connection = connect(&guest).await;
    let may = May(&connection);
    assert!(may.make_queue("finance.postings").await && may.bind("finance.postings", "fis.domain.exchange").await);
    assert!(may.take("finance.postings").await);
    may.harms_nothing().await;
    assert!(!may.bind("finance.postings", "fis.events.exchange").await);
    assert!(!may.publish("fis.domain.exchange").await && !may.publish("").await && !may.publish(LIVE).await);
    assert!(!may.take(LANES[0]).await && !may.make_queue("x").await);
    world.forget(guest).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_services_rights_suffice_for_a_run_and_it_cannot_forge_an_event() {
    let world = World::new("service_rights").await;
    let guest = guest(&world, "fis_service").await;
    world.publish(&[order("evt"), payment("bad", "9999", "1.50").rejected("unknown_account")]).await;
    let environment = [("FIS_AMQP_URL", guest.url.as_str())];
    let mut run = world.run_with(&environment).await;
    world.fis_with(&["topology", "check"], &environment).await.expect(0, &[]);
    world.fis_with(&["status"], &environment).await.expect(0, &[]);
    world.rest(&mut run).await;
    world.fis_with(&["feed", "verify"], &environment).await.expect(0, &[]);
    world
        .fis_with(&["feed", "resend", "--tenant", "acme", "--from", "1", "--to", "1"], &environment)
        .await
        .expect(0, &[]);
    let connection = connect(&guest).await;
    let may = May(&connection);
    may.harms_nothing().await;
    for exchange in [LIVE, URGENT, BACKFILL] {
        assert!(!may.publish(exchange).await, "{exchange}");
    }
    world.forget(guest).await;
}
