//! How much of everything: tenants, accounts, lines, dead letters at once, connections that come and go. On every run a part of
//! what is promised; with `FIS_TEST_FULL=1` all of it. Nothing here measures time: what is too slow misses the deadline.

use std::time::Duration;

use serde_json::json;

use crate::support::broker::DLQ;
use crate::support::events::{Message, books, envelope, order, order_of};
use crate::support::wait::{same, wait_within};
use crate::support::world::{Setup, World};

/// For the full figures, in a debug build on a busy machine.
const LONG: Duration = Duration::from_secs(300);

/// The full figure, or the part of it that every run can afford.
fn scaled(full: usize, part: usize) -> usize {
    if crate::support::wait::full() { full } else { part }
}

async fn posted(world: &World, count: usize) {
    wait_within("all are posted", LONG, async || {
        same(world.count("select count(*) from fis_journal_entry").await, i64::try_from(count).unwrap())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_tenants_have_their_books_at_hand() {
    let tenants = scaled(10_000, 500);
    let world = World::new("tenants").await;
    // Applying them one by one is not what is asked here.
    for copy in [
        "insert into fis_books (tenant_id, version, source, applied_by)
         select 't-' || n, 1, replace(source, 'tenant = \"acme\"', 'tenant = \"t-' || n || '\"'), 'test'
           from fis_books, generate_series(1, $1) as n where tenant_id = 'acme'",
        "insert into fis_chain_head (tenant_id, seq, hash, books_version)
         select 't-' || n, seq, hash, 1 from fis_chain_head, generate_series(1, $1) as n where tenant_id = 'acme'",
    ] {
        sqlx::query(copy).bind(i32::try_from(tenants).unwrap()).execute(&world.pool).await.unwrap();
    }
    let mut run = world.spawn(&[]);
    wait_within("it is ready", LONG, async || same(run.get("/readyz").await.0, 200)).await;
    let orders: Vec<Message> =
        (1..=tenants).map(|n| order_of(&format!("t-{n}"), &format!("evt-{n}"), "EUR", "119.00", "19.00")).collect();
    world.publish(&orders).await;
    posted(&world, tenants).await;
    world.rest(&mut run).await;
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_thousand_accounts_are_applied_and_posted_to() {
    let accounts = scaled(100_000, 5_000);
    let world = World::with("accounts", Setup { tenants: &[], ..Setup::default() }).await;
    let more = (1..=accounts)
        .map(|n| format!("[[accounts]]\ncode = \"9{n:06}\"\nname = \"Customer {n}\"\ntype = \"asset\"\n\n"));
    let source = books("acme").replacen("[[periods]]", &format!("{}[[periods]]", more.collect::<String>()), 1);
    let file = world.file("books.toml", source);
    world.fis(&["books", "check", &file]).await.expect(0, &[]);
    world.fis(&["books", "apply", &file, "--yes"]).await.expect(0, &[]);
    let mut run = world.spawn(&[]);
    wait_within("it is ready", LONG, async || same(run.get("/readyz").await.0, 200)).await;
    let payments: Vec<Message> = (1..=200)
        .map(|n| crate::support::events::payment(&format!("evt-{n}"), &format!("9{:06}", n * (accounts / 200)), "7.00"))
        .collect();
    world.publish(&payments).await;
    posted(&world, 200).await;
    // A small change is planned and applied against as many.
    let changed = std::fs::read_to_string(&file).unwrap().replacen("Customer 1\"", "The first customer\"", 1);
    let file = world.file("changed.toml", changed);
    world.fis(&["books", "apply", &file, "--yes"]).await.expect(0, &[]);
    world.rest(&mut run).await;
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_of_a_thousand_lines_is_posted_and_told_whole() {
    let world = World::new("lines").await;
    let mut run = world.run().await;
    let payslips: Vec<_> = (0..400)
        .map(|n| json!({"department": if n % 2 == 0 { "10" } else { "20" }, "gross": "3000.00", "withheld": "900.01"}))
        .collect();
    let payload = json!({"runId": "2026-02", "currency": "EUR", "payslips": payslips});
    let run_of_pay = envelope("acme", "pay", "payroll.salary.disbursed", payload);
    world.publish(&[Message::json("payroll.salary.disbursed", &run_of_pay)]).await;
    posted(&world, 1).await;
    let mut finance = world.finance().await;
    let lines = finance.read(1).await[0].data()["lines"].as_array().map(Vec::len);
    assert_eq!(lines, Some(1200));
    world.rest(&mut run).await;
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn five_thousand_dead_letters_at_once_are_parked() {
    let letters = scaled(5_000, 1_500);
    let world = World::new("letters").await;
    let poison: Vec<Message> = (0..letters)
        .map(|n| {
            Message::new("ecommerce.order.completed", format!("{{\"eventId\": \"evt-{n}\",")).rejected("malformed_json")
        })
        .collect();
    // They are there before the service is.
    world.publish(&poison).await;
    world.publish(&[order("behind")]).await;
    let mut run = world.run().await;
    wait_within("all are parked, and their queue is empty", LONG, async || {
        same(world.count("select count(*) from fis_dead_letter").await, i64::try_from(letters).unwrap())?;
        same(world.ready_count(DLQ).await, 0)
    })
    .await;
    posted(&world, 1).await;
    world.quiet_within(LONG).await;
    world.rest(&mut run).await;
    world.invariants().await;
}

/// Publishers that open a connection for each message, and some that open one and say nothing.
#[tokio::test(flavor = "multi_thread")]
async fn connections_that_come_and_go_disturb_nobody() {
    let connections = scaled(2_000, 100);
    let world = World::new("churn").await;
    let mut run = world.run().await;
    for n in 0..connections {
        let silent = world.connect().await.unwrap();
        if n % 2 == 0 {
            drop(silent);
        } else {
            let _ = silent.close(200, "bye".into()).await;
        }
        if n % 10 == 0 {
            world.publish(&[order(&format!("evt-{n}"))]).await;
        }
    }
    assert!(run.is_running());
    posted(&world, connections.div_ceil(10)).await;
    world.rest(&mut run).await;
    world.invariants().await;
}
