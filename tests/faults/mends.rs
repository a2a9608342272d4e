//! The deliberate bugs that take back what was mended against a hostile publisher, each met once beside the same steps without it.

use deadpool_redis::redis;
use fis::domain::event::{RawMessage, decode};
use fis::faults::mutants;
use lapin::types::{AMQPValue, FieldArray, FieldTable};
use serde_json::{Value, json};

use crate::support::events::{Message, order, payment, refund_of};
use crate::support::world::World;

const LETTERS: &str = "select count(*) from fis_dead_letter";
/// On a busy machine Redis is to be heard all the same.
const PATIENT: (&str, &str) = ("FIS__REDIS__TIMEOUT_MS", "10000");

/// Two rounds of messages, each brought to its end; how many are there then, without the mutant and with it.
async fn counts(mutant: &'static str, rounds: [Vec<Message>; 2], count: &'static str) -> [i64; 2] {
    let mut counts = [0; 2];
    for (place, mutant) in ["", mutant].into_iter().enumerate() {
        let world = World::new("mend").await;
        for messages in &rounds {
            world.publish(messages).await;
            world.fis_with(&["run", "--once"], &[("FIS_MUTANT", mutant)]).await.expect(0, &[]);
        }
        counts[place] = world.count(count).await;
    }
    counts
}

fn payload_hash(message: &Message) -> String {
    let header = |_: &str| None;
    let (body, routing_key) = (message.body.as_slice(), message.routing_key.as_str());
    decode(RawMessage { body, routing_key, content_type: None, header: &header }, None).unwrap().payload_hash
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forged_key_that_is_believed_loses_its_event() {
    let mut posted = [0; 2];
    for (place, mutant) in ["", mutants::FORGED_KEY_BELIEVED].into_iter().enumerate() {
        let world = World::new("mend_key").await;
        world.publish(&[order("read")]).await;
        world.fis_with(&["run", "--once"], &[PATIENT]).await.expect(0, &[]);
        // Whoever reads a key knows the ledger's name; the code in it is right for another event.
        let mut redis = world.redis().await;
        let read: String = redis::cmd("GET").arg("fis:ik:acme:read").query_async(&mut redis).await.unwrap();
        let mut forged: Value = serde_json::from_str(&read).unwrap();
        forged["payloadHash"] = json!(payload_hash(&order("evt")));
        let set = redis::cmd("SET").arg("fis:ik:acme:evt").arg(forged.to_string()).to_owned();
        let () = set.query_async(&mut redis).await.unwrap();
        world.publish(&[order("evt")]).await;
        world.fis_with(&["run", "--once"], &[("FIS_MUTANT", mutant), PATIENT]).await.expect(0, &[]);
        posted[place] = world.count("select count(*) from fis_journal_entry where event_id = 'evt'").await;
    }
    assert_eq!(posted, [1, 0]);
}

/// By its type the second one is an event of a tenant; the first one names none.
#[tokio::test(flavor = "multi_thread")]
async fn without_the_content_type_two_events_are_one_letter() {
    let body = json!({
        "id": "ce-7", "source": "/shop", "type": "shop.voucher.sold", "time": "2026-02-25T10:00:00Z", "tenantid": "acme",
        "data": {"currency": "EUR", "amount": "9000.00"},
    });
    let plain = Message::json("shop.voucher.sold", &body);
    let mut typed = plain.clone();
    typed.properties = typed.properties.with_content_type("application/cloudevents+json".into());
    let counts = counts(mutants::CONTENT_TYPE_IGNORED, [vec![plain], vec![typed]], LETTERS);
    assert_eq!(counts.await, [2, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_that_is_known_by_its_id_is_ended_by_other_content() {
    let rounds = [vec![refund_of("acme", "evt", "never")], vec![payment("evt", "9999", "1.50")]];
    let counts = counts(mutants::HOLD_KNOWN_BY_ID, rounds, "select count(*) from fis_held");
    assert_eq!(counts.await, [1, 0]);
}

/// RabbitMQ 3.x keeps the routing key that stands in a death that a publisher wrote.
#[tokio::test(flavor = "multi_thread")]
async fn a_forged_death_that_is_believed_makes_a_second_letter() {
    let text = |text: &str| AMQPValue::LongString(text.into());
    let mut death = FieldTable::default();
    death.insert("queue".into(), text("fis.ingestion.queue"));
    death.insert("reason".into(), text("rejected"));
    death.insert("exchange".into(), text("fis.events.exchange"));
    death.insert("count".into(), AMQPValue::LongLongInt(1));
    death.insert("routing-keys".into(), AMQPValue::FieldArray(FieldArray::from(vec![text("another.routing.key")])));
    let deaths = AMQPValue::FieldArray(FieldArray::from(vec![AMQPValue::FieldTable(death)]));
    let mut forged = payment("evt", "9999", "1.50");
    let mut headers = forged.properties.headers().clone().unwrap_or_default();
    headers.insert("x-death".into(), deaths);
    forged.properties = forged.properties.with_headers(headers);
    let counts = counts(mutants::FORGED_DEATH_BELIEVED, [vec![forged], Vec::new()], LETTERS);
    assert_eq!(counts.await, [1, 2]);
}
