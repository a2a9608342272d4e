//! The feed from its readers' side: the stream can be watched and proven, a range can be had again, and what is wrong is told
//! with its place.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::broker::{FINANCE, Publisher, Received};
use crate::support::events::{Message, books, cancellation, order, order_of, payment};
use crate::support::load::{QUICK_RETRIES, TENANTS, mix};
use crate::support::process::{FIS, Said};
use crate::support::servers::Servers;
use crate::support::wait::{same, wait_until};
use crate::support::world::{Setup, World};

const STREAM: &str = "fis.journal.stream";

/// Five entries of acme, one a reversal; two of bolt; a rejection between them.
async fn world_with_a_feed(name: &str) -> World {
    let setup = Setup { tenants: &["acme", "bolt"], servers: Servers::shared().clone(), ..Setup::default() };
    let world = World::with(name, setup).await;
    let mut run = world.run().await;
    let traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let messages = [
        order("a1").header("traceparent", traceparent),
        order_of("bolt", "b1", "USD", "10.00", "0"),
        order("a2"),
        payment("bad", "9999", "1.00").rejected("unknown_account").header("traceparent", traceparent),
        cancellation("a3", "a1"),
        order("a4"),
        order_of("bolt", "b2", "EUR", "1.00", "0"),
        order("a5"),
    ];
    world.publish(&messages).await;
    world.rest(&mut run).await;
    world
}

/// Puts a message into a queue as it is.
async fn put(world: &World, queue: &str, body: &[u8], like: &Received) {
    let publisher = Publisher::open(world).await.unwrap();
    let mut message = Message::new(queue, body);
    message.exchange = "";
    message.properties = like.properties.clone();
    assert_eq!(publisher.send(&[message]).await.unwrap(), [true]);
    publisher.close().await;
}

fn lines(said: &Said) -> Vec<Value> {
    said.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Everything in the finance team's queue.
async fn finance(world: &World) -> Vec<Received> {
    let mut reader = world.finance().await;
    reader.drain().await;
    reader.messages.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_feed_is_proven_from_the_stream_and_from_a_queue_which_loses_nothing() {
    let world = world_with_a_feed("feed_proven").await;
    let said = world.fis(&["feed", "verify", "--against-ledger", "--json"]).await.expect(0, &[]).json();
    assert_eq!((&said["fault"], &said["ledger"], &said["messages"]), (&Value::Null, &json!([]), &json!(8)));
    let seen: Vec<_> = said["tenants"].as_array().unwrap().iter().map(|t| (&t["tenantId"], &t["last"])).collect();
    assert_eq!(json!(seen), json!([["acme", 5], ["bolt", 2]]));
    world.fis(&["feed", "verify", "--tenant", "bolt"]).await.expect(0, &["bolt", "no gap"]);

    for _ in 0..2 {
        let said = world.fis(&["feed", "verify", "--queue", FINANCE, "--json"]).await.expect(0, &[]).json();
        assert_eq!((&said["messages"], &said["tenants"][0]["last"]), (&json!(8), &json!(5)));
        wait_until("the queue has everything again", async || same(world.ready_count(FINANCE).await, 8)).await;
    }
    world.fis(&["feed", "verify", "--queue", "no.such.queue"]).await.expect(1, &["NOT_FOUND"]);

    // An entry that the ledger has announced and the feed does not have.
    world.sql("update fis_chain_head set seq = 6 where tenant_id = 'acme'").await;
    let words = ["tenant acme", "announced sequence 6", "ends at 5"];
    world.fis(&["feed", "verify", "--against-ledger"]).await.expect(1, &words);
    world.fis(&["feed", "verify", "--against-ledger", "--tenant", "bolt"]).await.expect(0, &[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_fault_of_a_feed_is_told_exactly() {
    let world = world_with_a_feed("feed_faults").await;
    let messages = finance(&world).await;
    let acme = |n: usize| {
        messages
            .iter()
            .filter(|m| m.json()["source"] == "/fis/acme" && m.data()["sequence"].is_i64())
            .nth(n - 1)
            .unwrap()
    };

    // A repetition is no fault; a gap is.
    for place in [1, 2, 2, 4] {
        put(&world, FINANCE, &acme(place).body, acme(place)).await;
    }
    let words = ["message 4, tenant acme, sequence 4", "expected sequence 3, found 4"];
    world.fis(&["feed", "verify", "--queue", FINANCE]).await.expect(1, &words);
    finance(&world).await;

    // A changed amount, in the stream itself.
    let mut event = acme(5).json();
    let right = event["data"]["hash"].as_str().unwrap().to_owned();
    event["data"]["lines"][0]["amount"] = json!("119.01");
    put(&world, STREAM, event.to_string().as_bytes(), acme(5)).await;
    let said = world.fis(&["feed", "verify", "--json"]).await.expect(1, &[]).json();
    assert_eq!((&said["fault"]["offset"], &said["fault"]["tenantId"]), (&json!(8), &json!("acme")));
    assert_eq!(said["fault"]["sequence"], 5);
    world.fis(&["feed", "verify"]).await.expect(1, &["offset 8, tenant acme, sequence 5", "changed", &right]);
    world.fis(&["feed", "verify", "--from", "8"]).await.expect(1, &["offset 8"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resend_is_identical_and_goes_to_one_queue_or_to_everybody() {
    let world = world_with_a_feed("feed_resend").await;
    let first = finance(&world).await;
    let range = ["feed", "resend", "--tenant", "acme", "--from", "2", "--to", "4"];
    let to_finance = [&range[..], &["--queue", FINANCE, "--json"]].concat();
    let said = world.fis(&to_finance).await.expect(0, &[]).json();
    assert_eq!((&said["confirmed"], &said["queue"]), (&json!(3), &json!(FINANCE)));
    let again = finance(&world).await;
    assert_eq!(again.iter().map(|m| m.data()["sequence"].as_i64().unwrap()).collect::<Vec<_>>(), [2, 3, 4]);
    for message in &again {
        let before = first.iter().find(|known| known.message_id() == message.message_id()).unwrap();
        assert_eq!((&before.body, &before.properties), (&message.body, &message.properties));
    }
    let said = world.fis(&["feed", "verify", "--json"]).await.expect(0, &[]).json();
    assert_eq!(said["messages"], 8, "the stream got nothing of it");

    // To the exchange: everybody gets it, the stream too, and the proof counts the repetitions.
    world.fis(&range).await.expect(0, &["sent 3 events", "fis.domain.exchange"]);
    assert_eq!(finance(&world).await.len(), 3);
    let said = world.fis(&["feed", "verify", "--json"]).await.expect(0, &[]).json();
    assert_eq!((&said["messages"], &said["tenants"][0]["repeats"]), (&json!(11), &json!(3)));
}

/// The relay is handed what its process has just committed (ADR 21); a resend reads the journal.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_announced_from_memory_has_the_bytes_of_what_is_read_back() {
    let setup = Setup { tenants: TENANTS, servers: Servers::shared().clone(), ..Setup::default() };
    let world = World::with("feed_memory", setup).await;
    // So little that nothing is left of it in the base currency.
    let rate = "\n[[rates]]\nfrom = \"JPY\"\nto = \"EUR\"\ndate = 2026-01-01\nrate = \"0.0001\"\n";
    world.apply_books(&format!("{}{rate}", books("acme"))).await;
    let mut run = world.run_with(&QUICK_RETRIES).await;
    world.publish(&[order_of("acme", "little", "JPY", "1", "0")]).await;
    world.publish(&mix("memory", 300)).await;
    world.rest(&mut run).await;
    let first = finance(&world).await;
    for tenant in TENANTS {
        let of = |m: &&Received| m.json()["source"] == format!("/fis/{tenant}") && m.data()["sequence"].is_i64();
        let announced: Vec<&Received> = first.iter().filter(of).collect();
        let last = announced.len().to_string();
        let all = ["feed", "resend", "--tenant", tenant, "--from", "1", "--to", &last, "--queue", FINANCE];
        world.fis(&all).await.expect(0, &[]);
        let again = finance(&world).await;
        assert_eq!(announced.len(), again.len());
        for (announced, again) in announced.into_iter().zip(&again) {
            assert_eq!((&announced.body, &announced.properties), (&again.body, &again.properties));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resend_of_what_does_not_exist_is_refused() {
    let world = world_with_a_feed("feed_refused").await;
    let resend = async |from: &str, to: &str, more: &[&str]| {
        let args = [&["feed", "resend", "--tenant", "acme", "--from", from, "--to", to], more].concat();
        world.fis(&args).await
    };
    resend("4", "6", &[]).await.expect(1, &["ends at sequence 5", "nothing was sent"]);
    resend("6", "6", &[]).await.expect(1, &["ends at sequence 5"]);
    resend("3", "2", &[]).await.expect(2, &["--from 3", "--to 2"]);
    resend("0", "2", &[]).await.expect(2, &["--from"]);
    resend("1", "2", &["--queue", "no.such.queue"]).await.expect(1, &["came back", "no.such.queue"]);
    resend("1", "2", &["--queue", "fis.ingestion.queue"]).await.expect(2, &["fis takes events from"]);
    let nobody = ["feed", "resend", "--tenant", "nobody", "--from", "1", "--to", "1"];
    world.fis(&nobody).await.expect(2, &["no tenant `nobody`"]);
    let said = world.fis(&["feed", "verify", "--json"]).await.expect(0, &[]).json();
    assert_eq!(said["messages"], 8, "nothing was sent");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stream_is_shown_from_any_offset() {
    let world = world_with_a_feed("feed_tail").await;
    let tail = async |more: &[&str]| {
        let args = [&["feed", "tail", "--once"], more].concat();
        world.fis(&args).await.expect(0, &[])
    };
    let all = lines(&tail(&["--from", "first", "--json"]).await);
    assert_eq!(all.iter().map(|line| line["offset"].as_u64().unwrap()).collect::<Vec<_>>(), (0..8).collect::<Vec<_>>());
    assert_eq!(all[0]["routingKey"], all[0]["event"]["type"]);
    let late = lines(&tail(&["--from", "5", "--json"]).await);
    assert_eq!(late, all[5..]);
    assert_eq!(lines(&tail(&["--from", "2026-01-01", "--json"]).await), all);
    assert_eq!(lines(&tail(&["--from", "last", "--json"]).await).last(), all.last());
    assert_eq!(lines(&tail(&["--from", "last", "--limit", "3", "--json"]).await), all[5..], "the last three");
    let of_bolt = tail(&["--from", "last", "--limit", "5", "--tenant", "bolt", "--json"]).await;
    assert_eq!(lines(&of_bolt), lines(&tail(&["--from", "first", "--tenant", "bolt", "--json"]).await));
    let live = world.fis(&["feed", "tail", "--from", "last", "--limit", "2", "--json"]).await.expect(0, &[]);
    assert_eq!(lines(&live), all[6..], "it ends by itself");
    assert!(tail(&["--from", "8"]).await.stdout.is_empty());
    assert!(tail(&["--from", "next"]).await.stdout.is_empty());
    assert_eq!(lines(&tail(&["--from", "first", "--tenant", "bolt", "--json"]).await).len(), 2);
    let two = tail(&["--from", "first", "--tenant", "acme", "--limit", "2"]).await;
    assert_eq!(two.stdout.lines().count(), 2, "{two:?}");
    two.expect(0, &["acme", "fis.journal.posted", "a1", "119.00 EUR", "2026-02-25"]);
    tail(&["--from", "first"]).await.expect(0, &["fis.event.rejected", "unknown_account", "dl_"]);

    // What somebody else wrote into the stream does not drive the terminal.
    let like = finance(&world).await.remove(0);
    let hostile = json!({"type": "fis.journal.posted", "time": "\u{1b}[31m", "data": {"eventId": "\u{1b}]0;x\u{7}"}});
    put(&world, STREAM, hostile.to_string().as_bytes(), &like).await;
    let shown = tail(&["--from", "8"]).await;
    assert!(!shown.stdout.contains('\u{1b}') && shown.stdout.contains("\\u{1b}"), "{shown:?}");
    world.fis(&["feed", "tail", "--from", "yesterday"]).await.expect(2, &["an offset"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stream_is_shown_live() {
    let world = World::new("feed_live").await;
    world.fis(&["feed", "tail", "--from", "first", "--once"]).await.expect(0, &[]);
    world.fis(&["feed", "verify"]).await.expect(0, &["read 0 messages"]);
    let mut tail = tokio::process::Command::new(FIS);
    tail.args(["feed", "tail", "--from", "first", "--limit", "2", "--json"]).current_dir(&world.dir);
    tail.envs(world.environment()).kill_on_drop(true).stdout(std::process::Stdio::piped());
    let tail = tail.spawn().unwrap();
    let mut run = world.run().await;
    world.publish(&[order("first"), order("second")]).await;
    let output = tokio::time::timeout(Duration::from_secs(60), tail.wait_with_output()).await.unwrap().unwrap();
    let shown: Vec<Value> =
        String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((output.status.code(), shown.len()), (Some(0), 2));
    assert_eq!(shown[1]["event"]["data"]["sequence"], 2);
    world.rest(&mut run).await;
}
