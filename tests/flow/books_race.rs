//! Books that change while somebody else does something: another apply, a stream of events. Each test begins with the race
//! it guards against.

use sqlx::Row;

use crate::support::events::{Expect, Message, books, order};
use crate::support::wait::{same, wait_until};
use crate::support::world::{Setup, World};

/// Processes of this world that wait for a lock of another one.
const WAITING: &str =
    "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";

/// Both have made their plan against version 1 and wait for the same lock. Without the comparison under the lock the second
/// would overwrite what the first did, with a plan that nobody has seen.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_applies_at_once_one_wins_and_the_other_is_told() {
    let world = World::with("two_applies", Setup { topology: false, ..Setup::default() }).await;
    let anna = world.file("anna.toml", books("acme").replace("\"Test\"", "\"Anna's\""));
    let ben = world.file("ben.toml", books("acme").replace("\"Test\"", "\"Ben's\""));
    let mut lock = world.pool.begin().await.unwrap();
    sqlx::query("select from fis_chain_head where tenant_id = 'acme' for update").execute(&mut *lock).await.unwrap();
    let release = async {
        wait_until("both wait for the lock", async || same(world.count(WAITING).await, 2)).await;
        lock.rollback().await.unwrap();
    };
    let apply = async |file: &str, by: &str| world.fis(&["books", "apply", file, "--yes", "--by", by]).await;
    let (first, second, ()) = tokio::join!(apply(&anna, "anna"), apply(&ben, "ben"), release);
    let (winner, (loser, by)) =
        if first.code == Some(0) { (first, (second, "anna")) } else { (second, (first, "ben")) };
    winner.expect(0, &["applied version 2"]);
    loser.expect(1, &[&format!("version 2 was applied meanwhile by {by}; look at the new plan")]);
    assert_eq!(world.count("select count(*) from fis_books").await, 2);
    assert_eq!(world.count("select books_version::bigint from fis_chain_head").await, 2);
}

/// The same for a tenant that has no head to lock yet: both wait for an insert that does not happen.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_first_applies_at_once_one_wins_and_the_other_is_told() {
    let world = World::with("two_firsts", Setup { topology: false, tenants: &[], ..Setup::default() }).await;
    let file = world.file("acme.toml", books("acme"));
    let other = world.file("other.toml", books("acme").replace("\"Test\"", "\"Other\""));
    let mut lock = world.pool.begin().await.unwrap();
    let head =
        "insert into fis_chain_head (tenant_id, seq, hash, books_version) values ('acme', 0, repeat('0', 64), 1)";
    sqlx::query(head).execute(&mut *lock).await.unwrap();
    let release = async {
        wait_until("both wait for the insert", async || same(world.count(WAITING).await, 2)).await;
        lock.rollback().await.unwrap();
    };
    let apply = async |file: &str| world.fis(&["books", "apply", file, "--yes"]).await;
    let (first, second, ()) = tokio::join!(apply(&file), apply(&other), release);
    let (winner, loser) = if first.code == Some(0) { (first, second) } else { (second, first) };
    winner.expect(0, &["applied version 1"]);
    loser.expect(1, &["version 1 was applied meanwhile"]);
    assert_eq!(world.count("select count(*) from fis_books").await, 1);
}

/// Notes, in the same transaction and under the same lock, after which entry a version came into force.
const NOTE_CHANGES: &str = "
    create table test_change (version integer not null, after_seq bigint not null);
    grant insert on test_change to public;
    create function test_note() returns trigger language plpgsql as $$
    begin
        insert into test_change values (new.books_version, new.seq);
        return null;
    end $$;
    create trigger test_note after update of books_version on fis_chain_head
        for each row when (old.books_version <> new.books_version) execute function test_note();";

/// Entries that name another version than the one in force when they were posted.
const OF_ANOTHER_VERSION: &str = "
    select count(*) from fis_journal_entry e
     where e.rule_version <> coalesce((select max(c.version) from test_change c where c.after_seq < e.seq), 1)";

/// Books with two periods, one of which takes the orders of 25 February.
fn february(status: &str) -> String {
    let one = "[[periods]]\nname = \"since\"\nstarts = 2026-01-01\nends = 2099-12-31\nstatus = \"open\"\n";
    let two = format!(
        "[[periods]]\nname = \"2026-02\"\nstarts = 2026-02-01\nends = 2026-02-28\nstatus = \"{status}\"\n\
         [[periods]]\nname = \"later\"\nstarts = 2026-03-01\nends = 2099-12-31\nstatus = \"open\"\n"
    );
    assert!(books("acme").contains(one));
    books("acme").replace(one, &two).replace("late_events = \"next_open\"", "late_events = \"reject\"")
}

/// Batches that wait for their turn are mapped with books that the one before them finds out of date.
#[tokio::test(flavor = "multi_thread")]
async fn books_that_change_under_load_are_no_outage() {
    let world = World::new("books_under_load").await;
    let mut run = world.run_with(&[("FIS__INTAKE__BATCH_EVENTS_MAX", "5")]).await;
    let orders: Vec<Message> = (0..600).map(|n| order(&format!("evt-{n}"))).collect();
    let change = async {
        for version in 2..6 {
            let posted = async || match world.count("select count(*) from fis_journal_entry").await {
                few if few < (version - 1) * 100 => Err(format!("{few} entries")),
                enough => Ok(enough),
            };
            wait_until("some are posted", posted).await;
            world.apply_books(&books("acme").replace("\"Test\"", &format!("\"Version {version}\""))).await;
        }
    };
    tokio::join!(world.publish(&orders), change);
    wait_until("all are posted", async || same(world.count("select count(*) from fis_journal_entry").await, 600)).await;
    let (_, metrics) = run.get("/metrics").await;
    let retried = metrics.lines().find(|line| line.starts_with("fis_journal_retries_total"));
    assert!(retried.is_none_or(|line| line.ends_with(" 0")), "{retried:?}");
    world.rest(&mut run).await;
    world.invariants().await;
}

/// A batch is mapped while the period is open, the period closes, and the batch reaches the lock: without the comparison of
/// versions it would be posted into a closed period.
#[tokio::test(flavor = "multi_thread")]
async fn a_period_that_closes_while_events_are_posted_closes_exactly() {
    let world = World::with("closing", Setup { tenants: &[], ..Setup::default() }).await;
    world.apply_books(&february("open")).await;
    world.sql(NOTE_CHANGES).await;
    let mut run = world.run_with(&[("FIS__INTAKE__BATCH_EVENTS_MAX", "5")]).await;
    let orders: Vec<Message> = (0..600).map(|n| order(&format!("evt-{n}")).expect(Expect::Any)).collect();
    let file = world.file("closed.toml", february("closed"));
    let close = async {
        let some = "select least(count(*), 100) from fis_journal_entry";
        wait_until("some are posted", async || same(world.count(some).await, 100)).await;
        let said = world.fis(&["books", "apply", &file, "--yes", "--by", "the controller"]).await;
        said.expect(0, &["x period `2026-02`: closed", "status `open` → `closed`", "applied version 2"]);
    };
    tokio::join!(world.publish(&orders), close);
    world.rest(&mut run).await;

    let posted = world.count("select count(*) from fis_journal_entry").await;
    let refused = world.count("select count(*) from fis_dead_letter where reason = 'period_closed'").await;
    assert!(posted >= 100 && refused > 0, "{posted} posted and {refused} refused are no race");
    assert_eq!(posted + refused, 600, "nothing is missing");
    assert_eq!(world.count("select count(*) from fis_dead_letter").await, refused);
    // The version in force before the close is the last one that may date an entry into the period.
    assert_eq!(world.count(OF_ANOTHER_VERSION).await, 0, "entries of a version that was not in force");
    let closed = "select count(*) from fis_journal_entry e
                    join test_change c on c.version = 2
                   where e.accounting_date between '2026-02-01' and '2026-02-28'
                     and (e.rule_version >= c.version or e.seq > c.after_seq)";
    assert_eq!(world.count(closed).await, 0, "entries in the closed period");
    let who = world.fis(&["books", "versions", "--tenant", "acme", "--json"]).await.expect(0, &[]).json();
    assert_eq!(who["versions"][0]["by"], "the controller");
    assert_eq!(who["versions"][0]["inForce"], true);
    world.invariants().await;
}

/// Odd versions debit 1100 and credit 4000 by the rule `odd`; even ones the other way round by the rule `even`.
fn turning(version: i32) -> String {
    let (name, debit, credit) = if version % 2 == 1 { ("odd", "1100", "4000") } else { ("even", "4000", "1100") };
    let rule = format!(
        "[[rules]]\nname = \"{name}\"\non = \"ecommerce.order.completed\"\ncurrency = \"payload.currency\"\n\
         description = \"{name}\"\nlines = [\n  {{ debit = \"{debit}\", amount = \"payload.total\" }},\n  \
         {{ credit = \"{credit}\", amount = \"payload.total\" }},\n]\n\n[[rules]]\n"
    );
    books("acme").replacen("[[rules]]\n", &rule, 1)
}

/// An instance that takes the accounts from one version and the rules, or the number, from the next would post an entry
/// that no version explains.
#[tokio::test(flavor = "multi_thread")]
async fn every_entry_is_explained_by_exactly_one_version() {
    let world = World::with("turning", Setup { tenants: &[], ..Setup::default() }).await;
    world.apply_books(&turning(1)).await;
    world.sql(NOTE_CHANGES).await;
    let settings = [("FIS__INTAKE__BATCH_EVENTS_MAX", "7")];
    // One of them relays, the other only posts; that one does not report ready.
    let (mut run, mut second) = (world.run_with(&settings).await, world.spawn(&settings));
    let orders: Vec<Message> = (0..800).map(|n| order(&format!("evt-{n}"))).collect();
    let turn = async {
        for version in 2..=16 {
            let before = world.count("select count(*) from fis_journal_entry").await;
            // Each version sees some entries, unless all are posted already.
            wait_until("a few entries more", async || {
                let now = world.count("select count(*) from fis_journal_entry").await;
                if now >= (before + 10).min(800) { Ok(()) } else { Err(format!("{now} entries")) }
            })
            .await;
            world.apply_books(&turning(version)).await;
        }
    };
    tokio::join!(world.publish(&orders), turn);
    world.quiet().await;
    second.terminate().await;
    world.rest(&mut run).await;

    let entries = sqlx::query(
        "select e.rule_version, e.rule_name, e.description,
                string_agg(l.side || ' ' || l.account_code, ', ' order by l.line_no) as lines
           from fis_journal_entry e
           join fis_journal_line l using (tenant_id, seq)
          group by e.seq, e.rule_version, e.rule_name, e.description
          order by e.seq",
    );
    let entries = entries.fetch_all(&world.pool).await.unwrap();
    assert_eq!(entries.len(), 800);
    let mut versions = std::collections::BTreeSet::new();
    for entry in entries {
        let version: i32 = entry.get("rule_version");
        versions.insert(version);
        let found: [String; 3] = [entry.get("rule_name"), entry.get("description"), entry.get("lines")];
        let expected = match version % 2 {
            1 => ["odd", "odd", "debit 1100, credit 4000"],
            _ => ["even", "even", "debit 4000, credit 1100"],
        };
        assert_eq!(found, expected, "version {version}");
    }
    assert_eq!(world.count(OF_ANOTHER_VERSION).await, 0, "entries of a version that was not in force");
    assert!(versions.len() >= 3, "only {versions:?} posted anything: no race");
    world.invariants().await;
}
