//! Everything that was received on a day is accounted for, wherever it went and however often it moved; and where a row is
//! gone or altered, `fis tie-out` says which.

use chrono::{NaiveDate, Utc};
use serde_json::{Value, json};

use crate::support::events::{Expect, Message, books, cart, order, order_of, payment, refund_of, rewritten};
use crate::support::load::QUICK_RETRIES;
use crate::support::process::Said;
use crate::support::wait::{same, wait_until};
use crate::support::world::World;

const HELD: &str = "select count(*) from fis_held";
const PARKED: &str = "select count(*) from fis_dead_letter where status = 'parked'";
const ENTRIES: &str = "select count(*) from fis_journal_entry";

/// Kiritimati is fourteen hours ahead: its day of receipt is mostly not that of UTC.
const ZONE: (&str, &str) = ("Europe/Berlin", "Pacific/Kiritimati");

fn local(instant: chrono::DateTime<Utc>) -> NaiveDate {
    instant.with_timezone(&chrono_tz::Pacific::Kiritimati).date_naive()
}

fn zoned() -> String {
    books("acme").replace(ZONE.0, ZONE.1)
}

fn mended() -> String {
    zoned() + "\n[[accounts]]\ncode = \"9999\"\nname = \"New\"\ntype = \"income\"\n"
}

/// The day on which everything was received. A test that runs over the tenant's midnight has two: then the first is told.
async fn day(world: &World) -> String {
    let day: NaiveDate =
        sqlx::query_scalar("select min(received_on) from fis_received").fetch_one(&world.pool).await.unwrap();
    day.to_string()
}

async fn tie_out(world: &World) -> Said {
    let day = day(world).await;
    world.fis(&["tie-out", "--tenant", "acme", "--date", &day, "--json"]).await
}

/// Events by outcome, in the order of the identity.
fn events(said: &Value) -> [i64; 7] {
    let of = |sum: &Value| sum["events"].as_i64().unwrap();
    let outcomes =
        ["posted", "duplicate", "ignored", "held", "parked", "discarded"].map(|name| of(&said["outcomes"][name]));
    let [posted, duplicate, ignored, held, parked, discarded] = outcomes;
    [of(&said["received"]), posted, duplicate, ignored, held, parked, discarded]
}

fn money(sum: &Value) -> &Value {
    &sum["money"]
}

async fn until(world: &World, what: &str, sql: &'static str, count: i64) {
    wait_until(what, async || same(world.count(sql).await, count)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_received_is_accounted_for_in_events_and_money_wherever_it_goes() {
    let world = World::new("tie_out").await;
    world.apply_books(&zoned()).await;
    let before = local(Utc::now());
    // No service: what comes twice is a duplicate that PostgreSQL sees, because both are in the first batch, which is small.
    let sale = order("sale");
    let refund = refund_of("acme", "refund", "missing").expect(Expect::Posted);
    let bad: Vec<Message> = (0..3).map(|n| payment(&format!("bad-{n}"), "9999", "1.50")).collect();
    let given_up = payment("given-up", "8888", "2.00").rejected("unknown_account");
    let dollars = order_of("acme", "dollars", "USD", "10.00", "0.00");
    let unread = Message::new("a.b.c", "{").rejected("malformed_json");
    let twice =
        [sale.clone(), rewritten(&sale), cart("acme", "cart"), refund, dollars, given_up.clone(), given_up, unread];
    world.publish(&[twice.to_vec(), bad].concat()).await;
    let mut run = world.run().await;
    until(&world, "parked", PARKED, 5).await;
    until(&world, "held", HELD, 1).await;
    until(&world, "posted", ENTRIES, 2).await;
    let said = tie_out(&world).await.expect(0, &[]).json();
    assert_eq!(events(&said), [10, 2, 2, 1, 1, 4, 0], "{said:#}");
    // 2 × 119.00 of the sale, 3 × 1.50 and 2 × 2.00 parked or sent again.
    assert_eq!(money(&said["received"]), &json!({"EUR": "246.50", "USD": "10.00"}));
    assert_eq!(money(&said["outcomes"]["parked"]), &json!({"EUR": "6.50"}));
    assert_eq!((&said["addsUp"], &said["withoutTenant"]), (&json!(true), &json!(1)));
    assert!((before..=local(Utc::now())).contains(&day(&world).await.parse().unwrap()), "the tenant's day");

    // Held and then posted, parked and then resolved, parked and then discarded: each keeps its day.
    world.apply_books(&mended()).await;
    world.sql("update fis_received set received_on = received_on - 3").await;
    world.sql("update fis_dead_letter set received_on = received_on - 3; update fis_held set received_on = received_on - 3").await;
    world.sql("alter table fis_journal_entry disable trigger all").await;
    world.sql("update fis_journal_entry set received_on = received_on - 3").await;
    world.sql("alter table fis_journal_entry enable trigger all").await;
    let replayed = world.fis(&["dlq", "replay", "--text", "9999", "--yes"]).await;
    replayed.expect(0, &["3 of 3 dead letters resolved"]);
    world.fis(&["dlq", "discard", "--text", "8888", "--why", "test", "--yes"]).await.expect(0, &["discarded 1"]);
    let missing = order_of("acme", "missing", "EUR", "7.00", "0.00");
    world.publish(&[missing]).await;
    until(&world, "all are posted", ENTRIES, 7).await;
    world.rest(&mut run).await;
    let said = tie_out(&world).await.expect(0, &[]).json();
    assert_eq!(events(&said), [10, 6, 2, 1, 0, 0, 1], "{said:#}");
    // The refund named no money while it was held; now it is what it reverses.
    assert_eq!(money(&said["received"]), &json!({"EUR": "253.50", "USD": "10.00"}));
    let later = "select count(*) from fis_received where received_on > (select min(received_on) from fis_received)";
    assert_eq!(world.count(later).await, 1, "only the order that came today is counted today");
    world.invariants().await;

    // What retention removes stays accounted for.
    world.fis(&["dlq", "prune", "--older-than", "0s", "--yes"]).await.expect(0, &["removed 4"]);
    let said = tie_out(&world).await.expect(0, &[]).json();
    assert_eq!(events(&said), [10, 6, 2, 1, 0, 0, 1], "{said:#}");
    let day = day(&world).await;
    let table = world.fis(&["tie-out", "--tenant", "acme", "--date", &day]).await;
    table.expect(0, &["Everything adds up.", "received", "253.50", "Pacific/Kiritimati"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_is_corrected_sent_again_or_given_up_is_accounted_for_once() {
    let world = World::new("tie_out_moves").await;
    let mut run = world.run_with(&[("FIS__RETRY__BASE_DELAY_SECONDS", "1"), ("FIS__RETRY__MAX_RETRIES", "1")]).await;
    let bad = |id: &str| payment(id, "9999", "1.50").expect(Expect::Any);
    world.publish(&[bad("corrected"), bad("edited"), bad("ten"), bad("again")]).await;
    until(&world, "parked", PARKED, 4).await;
    // Ten sendings are one letter with ten attempts: nine copies.
    world.publish(&vec![bad("ten"); 9]).await;
    until(&world, "ten attempts", "select attempts::bigint from fis_dead_letter where event_id = 'ten'", 10).await;
    // A corrected event is posted instead of its letter.
    world.publish(&[payment("corrected", "1100", "1.70")]).await;
    let id: String = sqlx::query_scalar("select id from fis_dead_letter where event_id = 'edited'")
        .fetch_one(&world.pool)
        .await
        .unwrap();
    world.fis(&["dlq", "edit", &id, "--set", "/payload/account=1100", "--why", "typo", "--yes"]).await.expect(0, &[]);
    until(&world, "posted", ENTRIES, 2).await;
    // Discarded, and then sent again: one letter still. Held until its attempts are used up: a letter of the same day.
    world.fis(&["dlq", "discard", "--text", "9999", "--why", "test", "--yes"]).await.expect(0, &["discarded 2"]);
    let cancel = crate::support::events::cancellation("cancel", "never").rejected("attempts_exhausted");
    world.publish(&[bad("again"), cancel]).await;
    until(&world, "parked again, and given up", PARKED, 2).await;
    // What was corrected has no place of its own any more.
    world.published.lock().unwrap().retain(|message| message.expect != Expect::Any);
    world.rest(&mut run).await;
    let said = tie_out(&world).await.expect(0, &[]).json();
    // 4 + 9 + 1 + 2 messages; the corrected letter, nine copies and the one sent again are duplicates.
    assert_eq!(events(&said), [16, 2, 11, 0, 0, 2, 1], "{said:#}");
    world.invariants().await;
}

/// Held, and then other content is posted under its id, in the same batch and in a later one: it comes back as a conflict.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_overtaken_by_other_content_under_its_id_is_accounted_for_once() {
    let world = World::new("tie_out_overtaken").await;
    let pounds = |id: &str| order_of("acme", id, "GBP", "119.00", "19.00").rejected("idempotency_conflict");
    let euros = |id: &str| order_of("acme", id, "EUR", "119.00", "19.00");
    world.publish(&[pounds("at-once"), pounds("at-once"), euros("at-once"), pounds("later")]).await;
    let mut run = world.run_with(&QUICK_RETRIES).await;
    until(&world, "held", HELD, 1).await;
    world.publish(&[euros("later")]).await;
    until(&world, "parked", PARKED, 2).await;
    world.rest(&mut run).await;
    let said = tie_out(&world).await.expect(0, &[]).json();
    assert_eq!(events(&said), [5, 2, 1, 0, 0, 2, 0], "{said:#}");
    assert_eq!(money(&said["received"]), &json!({"EUR": "238.00", "GBP": "357.00"}));
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_was_made_away_with_is_found_and_named() {
    let world = World::new("tie_out_tampered").await;
    let mut run = world.run().await;
    let bad = payment("bad", "9999", "1.50").rejected("unknown_account");
    world.publish(&[order("a"), order("b"), bad, refund_of("acme", "refund", "missing")]).await;
    until(&world, "parked", PARKED, 1).await;
    until(&world, "held", HELD, 1).await;
    until(&world, "posted", ENTRIES, 2).await;
    world.rest(&mut run).await;
    let day = day(&world).await;
    let tampered = async |sql: &'static str, words: &[&str]| {
        // One transaction that a superuser may do, with triggers off; taken back by the next.
        for table in ["fis_journal_entry", "fis_journal_line", "fis_dead_letter", "fis_held"] {
            let keep = format!("create table kept_{table} as table {table}");
            sqlx::raw_sql(&keep).execute(&world.pool).await.unwrap();
        }
        let mut superuser = world.pool.acquire().await.unwrap();
        sqlx::raw_sql("set session_replication_role = replica").execute(&mut *superuser).await.unwrap();
        sqlx::raw_sql(sql).execute(&mut *superuser).await.unwrap();
        world.fis(&["tie-out", "--tenant", "acme", "--date", &day]).await.expect(1, words);
        let said = world.fis(&["tie-out", "--tenant", "acme", "--date", &day, "--json"]).await.expect(1, &[]).json();
        assert_eq!(said["addsUp"], json!(false), "{sql}: {said:#}");
        for table in ["fis_journal_entry", "fis_journal_line", "fis_dead_letter", "fis_held"] {
            let columns: Vec<String> = sqlx::query_scalar("select column_name::text from information_schema.columns where table_name = $1 and is_generated = 'NEVER'")
                .bind(table).fetch_all(&mut *superuser).await.unwrap();
            let columns = columns.join(", ");
            let back = format!(
                "delete from {table}; insert into {table} ({columns}) select {columns} from kept_{table}; drop table kept_{table}"
            );
            sqlx::raw_sql(&back).execute(&mut *superuser).await.unwrap();
        }
        sqlx::raw_sql("set session_replication_role = origin").execute(&mut *superuser).await.unwrap();
        world.fis(&["tie-out", "--tenant", "acme", "--date", &day]).await.expect(0, &["Everything adds up."]);
    };
    tampered(
        "delete from fis_journal_entry where event_id = 'a'",
        &["posted: counted 2 events, 238.00 EUR, found 1 event, 119.00 EUR", "It does not add up."],
    )
    .await;
    tampered(
        "update fis_journal_line set amount = 118.99 where seq = 1 and line_no = 1",
        &["posted: counted 2 events, 238.00 EUR, found 2 events, 237.99 EUR"],
    )
    .await;
    tampered("delete from fis_dead_letter", &["parked or discarded: counted 1 event, 1.50 EUR, found 0 events"]).await;
    tampered(
        "update fis_dead_letter set status = 'resolved', resolved_as = 'posted', settled_at = now()",
        &["parked or discarded: counted 1 event"],
    )
    .await;
    tampered("delete from fis_held", &["held: counted 1 event, found 0 events"]).await;
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_day_on_which_nothing_was_counted_is_told_apart_from_one_that_is_not_known() {
    let world = World::new("tie_out_days").await;
    let tie_out =
        async |tenant: &'static str, date: &str| world.fis(&["tie-out", "--tenant", tenant, "--date", date]).await;
    tie_out("acme", "2026-02-25")
        .await
        .expect(1, &["fis has counted no events of acme yet, so 2026-02-25 cannot be checked"]);
    tie_out("nobody", "2026-02-25").await.expect(2, &["there is no tenant"]);
    tie_out("acme", "25.02.2026").await.expect(2, &[]);
    let mut run = world.run().await;
    world.publish(&[order("a")]).await;
    world.rest(&mut run).await;
    let day: NaiveDate = day(&world).await.parse().unwrap();
    tie_out("acme", &day.pred_opt().unwrap().to_string())
        .await
        .expect(1, &["fis has counted events of acme only since", "cannot be checked"]);
    tie_out("acme", "2999-01-01").await.expect(1, &["so 2999-01-01 cannot be checked"]);
    world.invariants().await;
}

/// A month's end is one call; of a day that was not counted nothing is shown that could be taken for a proof.
#[tokio::test(flavor = "multi_thread")]
async fn a_span_has_a_row_for_each_day_that_was_counted_and_the_total() {
    let world = World::new("tie_out_span").await;
    world.apply_books(&zoned()).await;
    let mut run = world.run().await;
    world.publish(&[order("a"), order("b")]).await;
    world.rest(&mut run).await;
    // One of them came the day before.
    for sql in [
        "alter table fis_journal_entry disable trigger all",
        "update fis_journal_entry set received_on = received_on - 1 where seq = 1",
        "alter table fis_journal_entry enable trigger all",
        "update fis_received set events = 1, amount = 119.00",
        "insert into fis_received (tenant_id, received_on, outcome, currency, events, amount)
         select tenant_id, received_on - 1, outcome, currency, events, amount from fis_received",
    ] {
        world.sql(sql).await;
    }
    let first: NaiveDate = day(&world).await.parse().unwrap();
    let (second, before) = (first.succ_opt().unwrap(), first.pred_opt().unwrap());
    let span = async |from: NaiveDate, to: NaiveDate, more: &[&str]| {
        let (from, to) = (from.to_string(), to.to_string());
        world.fis(&[&["tie-out", "--from", &from, "--to", &to], more].concat()).await
    };
    let says =
        "Everything adds up.\nDuplicates caught by Redis are not in this table; see fis_intake_deliveries_total.";
    world.fis(&["tie-out"]).await.expect(0, &[&format!("received on {second}"), says]);
    let days = [first.to_string(), second.to_string()];
    let table = span(first, second, &[]).await.expect(0, &[&days[0], &days[1], "total", "238.00", says]);
    assert_eq!(table.stdout.matches("119.00").count(), 2, "{table:?}");
    let json = span(first, second, &["--json"]).await.expect(0, &[]).json();
    assert_eq!(json["days"].as_array().unwrap().len(), 2, "{json:#}");
    assert_eq!(events(&json["total"])[..2], [2, 2], "{json:#}");

    // The day before was not counted: the others are shown, and the command fails.
    let sentence = format!("fis has counted events of acme only since {first}, so {before} cannot be checked.");
    let part = span(before, second, &[]).await.expect(1, &[&sentence, "total"]);
    assert!(!part.stdout.contains(&before.to_string()), "{part:?}");
    let none = world.fis(&["tie-out", "--date", &before.to_string()]).await.expect(1, &[&sentence]);
    assert!(none.stdout.is_empty(), "{none:?}");
    let none = span(before, before, &[]).await.expect(1, &[&sentence]);
    assert!(none.stdout.is_empty(), "{none:?}");
    assert_eq!(span(before, before, &["--json"]).await.expect(1, &[]).json()["addsUp"], json!(false));

    // A month, and a period of the books.
    let february = world.fis(&["tie-out", "--period", "2026-02"]).await;
    february.expect(1, &["so 2026-02-01 to 2026-02-28 cannot be checked."]);
    world.fis(&["tie-out", "--period", "since", "--date", "2026-02-25"]).await.expect(2, &["--period"]);
    world.fis(&["tie-out", "--period", "nonsense"]).await.expect(2, &["have no period `nonsense`"]);
    world.fis(&["tie-out", "--period", "since"]).await.expect(2, &["more than 400 days"]);
    span(second, first, &[]).await.expect(2, &["lies behind"]);
    world.fis(&["tie-out", "--from", "2026-02-25"]).await.expect(2, &["--to"]);

    let less =
        "update fis_received set amount = 118.00 where received_on = (select max(received_on) from fis_received)";
    world.sql(less).await;
    let differs = format!("{second}, posted: counted 1 event, 118.00 EUR, found 1 event, 119.00 EUR");
    span(first, second, &[]).await.expect(1, &["It does not add up.", &differs]);
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_a_period_warns_of_money_that_is_dated_in_it_and_of_no_other() {
    let world = World::new("closing").await;
    let periods = "[[periods]]\nname = \"since\"\nstarts = 2026-01-01\nends = 2099-12-31\nstatus = \"open\"\n";
    let split = "[[periods]]\nname = \"february\"\nstarts = 2026-02-01\nends = 2026-02-28\nstatus = \"open\"\n
[[periods]]\nname = \"later\"\nstarts = 2026-03-01\nends = 2099-12-31\nstatus = \"open\"\n";
    let open = books("acme").replace(periods, split);
    assert!(open.contains("february"));
    world.apply_books(&open).await;
    let mut run = world.run().await;
    // In February by its own date; the refund is held; the cart names no rule and no date, so it counts on the day it came.
    let dated = payment("february", "9999", "1.50").rejected("unknown_account");
    let undated = json!({"eventId": "undated", "tenantId": "acme", "payload": {"currency": "EUR", "total": "8.00"}});
    let undated = Message::json("x.y.z", &undated).rejected("rule_not_found");
    world.publish(&[dated, undated, refund_of("acme", "refund", "missing")]).await;
    until(&world, "parked", PARKED, 2).await;
    until(&world, "held", HELD, 1).await;
    world.rest(&mut run).await;
    let close = |name: &str| {
        let at = open.find(&format!("name = \"{name}\"")).unwrap();
        let (head, tail) = open.split_at(at);
        world.file("closed.toml", head.to_owned() + &tail.replacen("\"open\"", "\"closed\"", 1))
    };
    let february = close("february");
    let said = world.fis(&["books", "apply", &february]).await;
    said.expect(
        2,
        &["warning: period `february`", "1 dead letter (1.50 EUR)", "1 held event", "dlq groups --tenant acme"],
    );
    let later = close("later");
    let said = world.fis(&["books", "apply", &later]).await.expect(2, &["period `later`", "1 dead letter (8.00 EUR)"]);
    assert!(!said.all().contains("held event"), "{said:?}");
    world.fis(&["dlq", "discard", "--all", "--why", "test", "--yes"]).await.expect(0, &[]);
    let said = world.fis(&["books", "apply", &later]).await;
    assert!(!said.all().contains("warning"), "{said:?}");
    world.published.lock().unwrap().clear();
}
