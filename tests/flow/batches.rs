//! Publishers' batches: counted in the posting transaction, told to be complete once, mirrored in Redis.

use std::collections::BTreeMap;

use deadpool_redis::redis;
use serde_json::{Value, json};

use crate::support::events::{BACKFILL, Expect, Message, URGENT, books, cart, order, order_of, refund_of, rewritten};
use crate::support::wait::{same, wait_until};
use crate::support::world::World;

fn in_batch(message: &Message, batch: Value) -> Message {
    let mut body = message.value();
    body["batch"] = batch;
    Message { body: body.to_string().into_bytes(), ..message.clone() }
}

async fn mirror(world: &World, batch: &str) -> BTreeMap<String, String> {
    let mut redis = world.redis().await;
    let key = format!("fis:batch:acme:{batch}");
    let mut hash: BTreeMap<String, String> = redis::cmd("HGETALL").arg(&key).query_async(&mut redis).await.unwrap();
    // Asked second: the key may be made in between.
    let life: i64 = redis::cmd("TTL").arg(&key).query_async(&mut redis).await.unwrap();
    assert!(hash.is_empty() || (604_700..=604_800).contains(&life), "{life}");
    hash.retain(|name, _| ["status", "total", "done", "errors"].contains(&name.as_str()));
    hash
}

async fn wait_mirror(world: &World, batch: &str, [status, total, done, errors]: [&str; 4]) {
    let expected = [("done", done), ("errors", errors), ("status", status), ("total", total)];
    let expected: BTreeMap<_, _> = expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    wait_until("the mirror", async || same(mirror(world, batch).await, expected.clone())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_complete_once_with_rejected_ignored_repeated_and_late_members() {
    let world = World::new("batch").await;
    let mut runs = [world.run().await, world.run().await];
    // 24 orders over all lanes, each twice; only one of them knows the size.
    let mut members: Vec<Message> = Vec::new();
    for n in 0..24 {
        let lane = [crate::support::events::LIVE, URGENT, BACKFILL][n % 3];
        let batch = if n == 17 { json!({"id": "run", "size": 29}) } else { json!({"id": "run"}) };
        let message = in_batch(&order(&format!("o-{n}")), batch).on(lane);
        members.extend([rewritten(&message), message]);
    }
    let member = |message: &Message| in_batch(message, json!({"id": "run"}));
    let mut unreadable = member(&order("unreadable")).value();
    unreadable["occurredAt"] = json!("yesterday");
    // Without an id of its own it goes by that of its letter, however often it comes.
    let mut nameless = member(&order("nameless")).value();
    nameless.as_object_mut().unwrap().remove("eventId");
    let nameless = Message::json("ecommerce.order.completed", &nameless).rejected("missing_field");
    members.extend([
        nameless.clone(),
        nameless,
        member(&order_of("acme", "fine", "EUR", "1.001", "0")).rejected("bad_amount"),
        member(&cart("acme", "cart")),
        Message::json("ecommerce.order.completed", &unreadable).rejected("bad_field"),
        // Its original comes later, and is no member.
        member(&refund_of("acme", "refund", "sale")).expect(Expect::Posted),
        // Nobody counts these: another tenant's batch, a tenant without books, a batch that is none.
        in_batch(&order_of("nobody", "lost", "EUR", "1.00", "0"), json!({"id": "run"})).rejected("unknown_tenant"),
        in_batch(&order("bad"), json!({"id": "run", "size": "many"})).rejected("bad_field"),
    ]);
    world.publish(&members).await;
    wait_mirror(&world, "run", ["RUNNING", "29", "28", "3"]).await;
    assert_eq!(world.count("select count(*) from fis_batch where completed_at is not null").await, 0);

    world.publish(&[order("sale")]).await;
    wait_mirror(&world, "run", ["COMPLETED", "29", "29", "3"]).await;
    let shown = world.fis(&["batch", "show", "--tenant", "acme", "run", "--json"]).await.expect(0, &[]).json();
    let numbers = ["status", "total", "posted", "rejected", "ignored"].map(|name| shown[name].clone());
    assert_eq!(numbers, [json!("COMPLETED"), json!(29), json!(25), json!(3), json!(1)]);
    world.fis(&["batch", "show", "--tenant", "acme", "other"]).await.expect(1, &["no member"]);

    // Members again, one more than were told, and a greater size: nothing is told again.
    let more = in_batch(&order("more"), json!({"id": "run", "size": 40}));
    world.publish(&[members[0].clone(), members[47].clone(), more]).await;
    wait_mirror(&world, "run", ["COMPLETED", "40", "30", "3"]).await;
    world.quiet().await;
    for run in &mut runs {
        run.terminate().await;
    }
    let feed = world.invariants().await;
    let complete = feed.of("fis.batch.completed");
    let [event] = complete[..] else { panic!("told {} times", complete.len()) };
    assert_eq!(
        event.data(),
        json!({"tenantId": "acme", "batchId": "run", "total": 29, "posted": 25, "rejected": 3, "ignored": 1})
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_member_that_is_posted_later_moves_and_nothing_is_told_again() {
    let world = World::new("batch_moves").await;
    let mut run = world.run().await;
    let of = json!({"id": "one", "size": 1});
    let payload = json!({"amount": "5.00"});
    let body = crate::support::events::envelope("acme", "new", "shop.fee.charged", payload);
    let message = in_batch(&Message::json("shop.fee.charged", &body), of);
    world.publish(&[message.clone().rejected("rule_not_found")]).await;
    wait_mirror(&world, "one", ["COMPLETED", "1", "1", "1"]).await;
    world.quiet().await;
    world.published.lock().unwrap().clear();

    world.apply_books(&books("acme").replace("short.#", "shop.fee.charged")).await;
    world.publish(&[message]).await;
    wait_mirror(&world, "one", ["COMPLETED", "1", "1", "0"]).await;
    world.quiet().await;
    world.published.lock().unwrap().clear();
    world.rest(&mut run).await;
    let feed = world.invariants().await;
    let complete = feed.of("fis.batch.completed");
    let [event] = complete[..] else { panic!("told {} times", complete.len()) };
    assert_eq!((&event.data()["posted"], &event.data()["rejected"]), (&json!(0), &json!(1)));
    assert_eq!(world.count("select posted from fis_batch").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_counted_without_redis_and_a_late_mirror_takes_nothing_back() {
    let world = World::new("batch_no_redis").await;
    let mut run = world.run_with(&[("FIS_REDIS_URL", "redis://127.0.0.1:1"), ("FIS__REDIS__TIMEOUT_MS", "100")]).await;
    let member = |id: &str| in_batch(&order(id), json!({"id": "run", "size": 3}));
    world.publish(&[member("a"), member("b")]).await;
    world.rest(&mut run).await;
    assert_eq!(world.count("select posted from fis_batch").await, 2);
    assert_eq!(mirror(&world, "run").await, BTreeMap::new());

    // A copy of a member is enough to write the mirror, and the last one completes it.
    let mut run = world.run().await;
    world.publish(&[member("a")]).await;
    wait_mirror(&world, "run", ["RUNNING", "3", "2", "0"]).await;
    world.publish(&[member("c")]).await;
    wait_mirror(&world, "run", ["COMPLETED", "3", "3", "0"]).await;
    world.rest(&mut run).await;

    // A writer that was overtaken: an older revision of the same ledger says something else.
    let config = fis::platform::config::Redis { url: world.redis_url.as_str().into(), timeout_ms: 5000 };
    let redis = fis::platform::redis::Redis::new(&config).unwrap();
    let hash: BTreeMap<String, String> =
        redis::cmd("HGETALL").arg("fis:batch:acme:run").query_async(&mut world.redis().await).await.unwrap();
    let (tenant_id, batch_id) =
        (&fis::domain::ids::TenantId::parse("acme").unwrap(), &fis::domain::ids::EventId::parse("run").unwrap());
    let late = |revision| fis::intake::progress::Numbers {
        tenant_id,
        batch_id,
        completed: false,
        total: 3,
        done: 1,
        errors: 0,
        revision,
    };
    let newest: i64 = hash["revision"].parse().unwrap();
    fis::intake::progress::mirror(&redis, &hash["ledger"], &[late(newest - 1)]).await;
    wait_mirror(&world, "run", ["COMPLETED", "3", "3", "0"]).await;
    // A restored ledger counts from what it has.
    fis::intake::progress::mirror(&redis, "another ledger", &[late(1)]).await;
    wait_mirror(&world, "run", ["RUNNING", "3", "1", "0"]).await;
}

/// Redis knows the copy as posted; only PostgreSQL knows that the size is news.
#[tokio::test(flavor = "multi_thread")]
async fn the_size_may_come_with_a_copy_of_a_member() {
    let world = World::new("batch_copy").await;
    let mut run = world.run().await;
    world.publish(&[in_batch(&order("a"), json!({"id": "run"})), in_batch(&order("b"), json!({"id": "run"}))]).await;
    wait_mirror(&world, "run", ["RUNNING", "0", "2", "0"]).await;
    world.quiet().await;
    world.publish(&[in_batch(&order("b"), json!({"id": "run", "size": 2}))]).await;
    wait_mirror(&world, "run", ["COMPLETED", "2", "2", "0"]).await;
    world.rest(&mut run).await;
    assert_eq!(world.invariants().await.of("fis.batch.completed").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_of_a_wrong_size_is_closed_by_hand_and_told_once() {
    let world = World::new("batch_close").await;
    let mut run = world.run().await;
    let vast = json!({"id": "vast", "size": 100_000_000});
    let waits = in_batch(&refund_of("acme", "refund", "never"), json!({"id": "waits", "size": 3}));
    world.publish(&[in_batch(&order("a"), vast.clone()), in_batch(&order("b"), vast.clone()), waits]).await;
    wait_mirror(&world, "vast", ["RUNNING", "100000000", "2", "0"]).await;
    wait_mirror(&world, "waits", ["RUNNING", "3", "0", "0"]).await;
    let close = |id: &'static str| ["batch", "close", "--tenant", "acme", id, "--why", "size of another run"];
    world.fis(&close("vast")).await.expect(2, &["2 of 100000000 done", "--yes closes it"]);
    let silent = ["batch", "close", "--tenant", "acme", "vast", "--why", " ", "--yes"];
    world.fis(&silent).await.expect(2, &["--why must say something"]);
    let yes = |id: &'static str| [&close(id)[..], &["--yes"]].concat();
    world.fis(&yes("vast")).await.expect(0, &["COMPLETED, 2 of 2 done", "posted    2"]);
    world.fis(&yes("vast")).await.expect(1, &["batch `vast` is complete"]);
    world.fis(&yes("waits")).await.expect(1, &["no member of batch `waits` has come to an end yet"]);
    world.fis(&yes("nothing")).await.expect(1, &["no member of batch `nothing` has come"]);
    // A member that comes later is booked, and tells nobody.
    world.publish(&[in_batch(&order("c"), vast)]).await;
    wait_mirror(&world, "vast", ["COMPLETED", "100000000", "3", "0"]).await;
    let logged = "select count(*) from fis_operator_log where act = 'close' and why = 'size of another run'
                     and detail = 'closed batch vast of acme with 2 members, of 100000000 that were told'";
    assert_eq!(world.count(logged).await, 1);
    world.rest(&mut run).await;
    let feed = world.invariants().await;
    let complete = feed.of("fis.batch.completed");
    let [event] = complete[..] else { panic!("told {} times", complete.len()) };
    assert_eq!((&event.data()["batchId"], &event.data()["total"]), (&json!("vast"), &json!(2)));
}
