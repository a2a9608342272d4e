//! Messages that no library would send, and that the broker takes all the same. None may stop what comes behind it.

use lapin::types::{AMQPValue, FieldTable};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::events::order;
use crate::support::wait::{same, wait_until};
use crate::support::world::World;

/// Just enough of AMQP 0-9-1 to publish bytes where text belongs.
struct Raw {
    stream: TcpStream,
}

impl Raw {
    async fn open(world: &World) -> Self {
        let address = world.servers.amqp.rsplit('@').next().unwrap().split('/').next().unwrap().to_owned();
        let mut raw = Self { stream: TcpStream::connect(address).await.unwrap() };
        raw.stream.write_all(b"AMQP\x00\x00\x09\x01").await.unwrap();
        raw.expect(10, 10).await;
        let credentials = b"\x00fis_service\x00secret";
        let start_ok = [&[0, 0, 0, 0][..], &short(b"PLAIN"), &long(credentials), &short(b"en_US")].concat();
        raw.method(0, 10, 11, &start_ok).await;
        raw.expect(10, 30).await;
        raw.method(0, 10, 31, &[0, 1, 0, 2, 0, 0, 0, 0]).await;
        raw.method(0, 10, 40, &[&short(world.vhost.as_bytes())[..], &short(b""), &[0]].concat()).await;
        raw.expect(10, 41).await;
        raw.method(1, 20, 10, &short(b"")).await;
        raw.expect(20, 11).await;
        raw
    }

    async fn frame(&mut self, kind: u8, channel: u16, payload: &[u8]) {
        let size = u32::try_from(payload.len()).unwrap();
        let frame = [&[kind][..], &channel.to_be_bytes(), &size.to_be_bytes(), payload, &[0xce]].concat();
        self.stream.write_all(&frame).await.unwrap();
    }

    async fn method(&mut self, channel: u16, class: u16, method: u16, arguments: &[u8]) {
        self.frame(1, channel, &[&class.to_be_bytes()[..], &method.to_be_bytes(), arguments].concat()).await;
    }

    /// Reads frames until this method comes.
    async fn expect(&mut self, class: u16, method: u16) {
        loop {
            let mut head = [0; 7];
            self.stream.read_exact(&mut head).await.unwrap();
            let size = u32::from_be_bytes([head[3], head[4], head[5], head[6]]) as usize;
            let mut rest = vec![0; size + 1];
            self.stream.read_exact(&mut rest).await.unwrap();
            if head[0] == 1 && rest[..2] == class.to_be_bytes() && rest[2..4] == method.to_be_bytes() {
                return;
            }
        }
    }

    /// Publishes with a message id, and waits for the broker's confirm.
    async fn publish(&mut self, routing_key: &[u8], message_id: &[u8], body: &[u8]) {
        self.method(1, 85, 10, &[0]).await;
        self.expect(85, 11).await;
        self.method(1, 60, 40, &[&[0, 0][..], &short(b"fis.events.exchange"), &short(routing_key), &[0]].concat())
            .await;
        let size = u64::try_from(body.len()).unwrap();
        // Class, weight, size, the flag of the message id, and the id itself.
        let header =
            [&60u16.to_be_bytes()[..], &[0, 0], &size.to_be_bytes(), &0x0080u16.to_be_bytes(), &short(message_id)]
                .concat();
        self.frame(2, 1, &header).await;
        self.frame(3, 1, body).await;
        self.expect(60, 80).await;
    }
}

fn short(bytes: &[u8]) -> Vec<u8> {
    [&[u8::try_from(bytes.len()).unwrap()][..], bytes].concat()
}

fn long(bytes: &[u8]) -> Vec<u8> {
    [&u32::try_from(bytes.len()).unwrap().to_be_bytes()[..], bytes].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn text_that_is_not_utf8_stops_neither_the_lane_nor_the_dead_letters() {
    let world = World::new("not_utf8").await;
    let mut run = world.run().await;
    let mut raw = Raw::open(&world).await;
    let body = br#"{"eventId":"x","tenantId":"acme","payload":{}}"#;
    raw.publish(b"ecommerce.\xff\xfe.completed", b"m1", body).await;
    let mut raw = Raw::open(&world).await;
    raw.publish(&[0xff; 255], &[0xfe; 255], br#"{"eventId":"y","tenantId":"acme","payload":{}}"#).await;
    world.publish(&[order("behind")]).await;
    wait_until("the order behind them is posted", async || {
        same(world.count("select count(*) from fis_journal_entry where event_id = 'behind'").await, 1)
    })
    .await;
    wait_until("both are dead letters, and their queue is empty", async || {
        same(world.count("select count(*) from fis_dead_letter where reason = 'rule_not_found'").await, 2)?;
        same(world.ready_count("fis.ingestion.dlq.queue").await, 0)
    })
    .await;
    run.terminate().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_too_large_for_a_retry_are_refused_and_stop_nothing() {
    let world = World::new("headers").await;
    let mut run = world.run().await;
    let mut large = order("large");
    let mut headers = FieldTable::default();
    headers.insert("x-much".into(), AMQPValue::LongString("h".repeat(60_000).into()));
    large.properties = large.properties.with_headers(headers);
    world.publish(&[large.rejected("too_large"), order("behind")]).await;
    world.rest(&mut run).await;
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_without_a_routing_key_is_one_letter() {
    let world = World::new("no_key").await;
    let mut run = world.run().await;
    let mut message = order("nameless");
    message.routing_key = String::new();
    message.body = b"{".to_vec();
    world.publish(&[message.rejected("malformed_json")]).await;
    world.rest(&mut run).await;
    assert_eq!(world.count("select count(*) from fis_dead_letter").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_publishers_own_delivery_count_and_attempts_are_not_believed() {
    let world = World::new("counts").await;
    let mut run = world.run().await;
    let mut message = order("counted");
    let mut headers = FieldTable::default();
    headers.insert("x-delivery-count".into(), AMQPValue::LongLongInt(500));
    headers.insert("x-fis-attempt".into(), AMQPValue::LongLongInt(4_294_967_295));
    message.properties = message.properties.with_headers(headers);
    world.publish(&[message]).await;
    world.rest(&mut run).await;
    assert_eq!(world.count("select count(*) from fis_journal_entry").await, 1);
    world.invariants().await;
}
