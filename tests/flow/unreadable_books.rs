//! Books in force that cannot be read (by this version of the program, or by any) are the trouble of one tenant: its events wait, the others' are posted.

use serde_json::json;

use crate::support::events::{Expect, books, order, order_of};
use crate::support::load::TENANTS;
use crate::support::wait::{same, wait_until};
use crate::support::world::{Setup, World};

/// A stored version never changes; a superuser, and stricter checks after an upgrade, make it unreadable all the same.
const DAMAGE: &str = "
    alter table fis_books disable trigger user;
    update fis_books set source = replace(source, 'base_currency', 'base_curency') where tenant_id = 'globex' and version = 1;
    alter table fis_books enable trigger user;";
const MEND: &str = "
    alter table fis_books disable trigger user;
    update fis_books set source = replace(source, 'base_curency', 'base_currency') where tenant_id = 'globex' and version = 1;
    alter table fis_books enable trigger user;";
/// Nothing comes back by itself within a test.
const SLOW_RETRIES: [(&str, &str); 2] =
    [("FIS__RETRY__BASE_DELAY_SECONDS", "3600"), ("FIS__RETRY__JITTER_SECONDS", "0")];

const ENTRIES: &str = "select count(*) from fis_journal_entry";
const WAITING: &str = "select count(*) from fis_held where reason = 'books_unreadable' and waits_for = 'books:readable' and tenant_id = 'globex'";

async fn world(name: &str) -> World {
    World::with(name, Setup { tenants: TENANTS, ..Setup::default() }).await
}

fn globex(id: &str) -> crate::support::events::Message {
    order_of("globex", id, "EUR", "119.00", "19.00")
}

#[tokio::test(flavor = "multi_thread")]
async fn books_that_cannot_be_read_hold_their_tenants_events_and_nobody_elses() {
    let world = world("unreadable").await;
    // A letter from better days, to be replayed in worse ones.
    let mut run = world.run_with(&SLOW_RETRIES).await;
    let letter = order_of("globex", "letter", "EUR", "-1", "0").expect(Expect::Any);
    world.publish(&[globex("posted"), letter]).await;
    wait_until("a letter is parked", async || same(world.count("select count(*) from fis_dead_letter").await, 1)).await;
    world.quiet().await;
    run.terminate().await;
    world.sql(DAMAGE).await;
    // Both are in the queue before the service is: one batch has both.
    world.publish(&[globex("g"), order("a")]).await;
    let mut run = world.run_with(&SLOW_RETRIES).await;
    wait_until("one is posted, the other is held", async || {
        same(world.count(ENTRIES).await, 2)?;
        same(world.count(WAITING).await, 1)
    })
    .await;
    // What is posted stays posted, whatever becomes of its books; and the service is well.
    world.publish(&[globex("posted"), order("b")]).await;
    wait_until("the other tenant's is posted", async || same(world.count(ENTRIES).await, 3)).await;
    world.quiet().await;
    assert_eq!(world.count(WAITING).await, 1);
    assert_eq!(run.get("/readyz").await.0, 200);
    let (_, metrics) = run.get("/metrics").await;
    assert!(
        metrics.lines().any(|line| line.starts_with("fis_intake_held_total") && line.contains("books_unreadable")),
        "{metrics}"
    );

    // A letter of that tenant waits as well.
    world.fis(&["dlq", "replay", "--tenant", "globex", "--yes", "--why", "a try"]).await;
    wait_until("the letter waits", async || same(world.count(WAITING).await, 2)).await;
    everybody_is_told(&world).await;

    let file = world.file("good.toml", books("globex").replace("payload.total > 0", "payload.total != 0"));
    world.fis(&["books", "apply", &file, "--yes"]).await.expect(0, &["applied version 2"]);
    wait_until("the held event is posted", async || same(world.count(ENTRIES).await, 4)).await;
    wait_until("nothing waits", async || same(world.count("select count(*) from fis_held").await, 0)).await;
    // Until then `fis verify` tells that somebody altered the old version.
    world.sql(MEND).await;
    world.rest(&mut run).await;
    world.invariants().await;
}

/// The commands that somebody will try in this hour.
async fn everybody_is_told(world: &World) {
    let held = world.fis(&["held", "list", "--json"]).await.expect(0, &[]).json();
    assert_eq!((&held["total"], &held["held"][0]["reason"]), (&json!(2), &json!("books_unreadable")), "{held}");
    let detail = held["held"][0]["detail"].as_str().unwrap();
    assert_eq!(detail, "version 1 of the books of globex cannot be read: `base_currency` is missing");
    world.fis(&["held", "list", "--reason", "books_unreadable"]).await.expect(0, &["globex", "2 of 2 held events"]);
    assert_eq!(world.fis(&["status", "--json"]).await.expect(0, &[]).json()["held"], json!(2));
    world.fis(&["verify"]).await.expect(1, &["version 1 of the books does not have the hash it carries"]);
    let says = "version 1 of the books of globex in the database";
    for args in [
        &["journal", "--tenant", "globex"][..],
        &["trial-balance", "--tenant", "globex"],
        &["export", "--tenant", "globex", "--format", "csv"],
        &["revert", "--tenant", "globex", "1", "--why", "a try", "--yes"],
    ] {
        world.fis(args).await.expect(1, &[says, "`base_currency` is missing"]);
    }
    let event = world.file("event.json", globex("next").body);
    world.fis(&["preview", &event]).await.expect(1, &["books_unreadable", says, "`base_currency` is missing"]);
    // Nobody else's reading suffers.
    world.fis(&["trial-balance", "--tenant", "acme"]).await.expect(0, &["1100"]);
}

/// Nobody applies anything: the books can be read again, as they can after an upgrade. However often an event came back in vain, it is not given up for
/// what it has no part in.
#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_its_books_comes_back_by_itself_and_is_never_given_up() {
    let world = world("unreadable_retried").await;
    world.sql(DAMAGE).await;
    let mut run = world
        .run_with(&[
            ("FIS__RETRY__BASE_DELAY_SECONDS", "0"),
            ("FIS__RETRY__MAX_DELAY_SECONDS", "1"),
            ("FIS__RETRY__JITTER_SECONDS", "0"),
            ("FIS__RETRY__MAX_RETRIES", "1"),
        ])
        .await;
    world.publish(&[globex("g"), order("a")]).await;
    wait_until("it came back in vain, more often than it may", async || {
        let tried = world.count("select coalesce(max(attempts), 0)::bigint from fis_held").await;
        if tried > 2 { Ok(()) } else { Err(format!("{tried} attempts")) }
    })
    .await;
    world.sql(MEND).await;
    wait_until("it is posted", async || same(world.count(ENTRIES).await, 2)).await;
    assert_eq!(world.count("select count(*) from fis_dead_letter").await, 0);
    world.rest(&mut run).await;
    world.invariants().await;
}
