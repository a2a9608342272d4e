//! What a superuser can do behind the service's back, and what `fis verify` says about it. `docs/hash-chain.md` has the table.

use std::time::Duration;

use fis::platform::config;
use fis::platform::postgres::Postgres;
use fis::store::guards;
use sqlx::{Connection as _, PgConnection};

use crate::support::events::{books, order, payment};
use crate::support::wait::{same, wait_until};
use crate::support::world::{Setup, World};

pub const KEY: &str = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";

/// A world with two versions of the books and one order.
async fn with_one_order(name: &str) -> World {
    let world = World::new(name).await;
    world.apply_books(&(books("acme") + "\n[[accounts]]\ncode = \"9999\"\nname = \"New\"\ntype = \"income\"\n")).await;
    world.publish(&[order("evt")]).await;
    world.fis(&["run", "--once"]).await.expect(0, &[]);
    world.fis(&["verify"]).await.expect(0, &["verified"]);
    world
}

/// Statements of somebody whom no trigger stops.
pub async fn unguarded(world: &World, sql: &str) {
    let mut superuser = PgConnection::connect(&world.admin_url).await.unwrap();
    sqlx::raw_sql("set session_replication_role = replica").execute(&mut superuser).await.unwrap();
    sqlx::raw_sql(sql).execute(&mut superuser).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn books_that_were_altered_are_found() {
    let world = with_one_order("altered_books").await;
    let rows = [
        (
            "update fis_books set source = source || ' ' where version = 1",
            "version 1 of the books does not have the hash",
        ),
        (
            "update fis_books set applied_by = 'somebody' where version = 1",
            "version 1 of the books does not have the hash",
        ),
        ("update fis_books set login = 'somebody' where version = 2", "version 2 of the books does not have the hash"),
        ("update fis_books set applied_at = applied_at + interval '1 us' where version = 2", "version 2 of the books"),
        ("delete from fis_books where version = 1", "version 1 of the books is missing"),
        ("update fis_chain_head set books_version = 1", "version 1 of the books is in force, and 2 is the newest"),
    ];
    world.sql("create table kept as select * from fis_books").await;
    for (tamper, found) in rows {
        unguarded(&world, tamper).await;
        world.fis(&["verify"]).await.expect(1, &["acme", found]);
        let back = "delete from fis_books; insert into fis_books select * from kept; update fis_chain_head set books_version = 2";
        unguarded(&world, back).await;
        world.fis(&["verify"]).await.expect(0, &["verified"]);
    }
}

/// Whoever computes the seals anew is right in himself; only what was signed and kept elsewhere tells.
#[tokio::test(flavor = "multi_thread")]
async fn books_that_were_sealed_anew_are_found_by_a_checkpoint() {
    let world = with_one_order("sealed_anew").await;
    let key = [("FIS__AUDIT__SIGNING_KEY", KEY)];
    let signed = world.fis_with(&["checkpoint"], &key).await.expect(0, &["\"books\"", "\"version\": 2"]);
    let file = world.file("checkpoint.json", &signed.stdout);
    world.fis_with(&["verify", "--checkpoint", &file], &key).await.expect(0, &["keeps what the checkpoint says"]);
    // With the table's own trigger, which seals whatever it is given.
    world
        .sql(
            "create table kept as select * from fis_books;
             alter table fis_books disable trigger fis_books_append_only;
             delete from fis_books;
             alter table fis_books enable trigger fis_books_append_only;
             insert into fis_books (tenant_id, version, source, applied_at, applied_by)
                 select tenant_id, version, source || '# mine', applied_at, applied_by from kept order by version",
        )
        .await;
    world.fis(&["verify"]).await.expect(0, &["verified"]);
    let said = world.fis_with(&["verify", "--checkpoint", &file], &key).await;
    said.expect(1, &["acme: version 2 of the books, signed on", "has another hash"]);
    // A checkpoint without books, from before they were sealed, is one of its own form: this one was altered.
    let without = signed.json();
    let mut heads = without.clone();
    heads["heads"][0].as_object_mut().unwrap().remove("books");
    let file = world.file("without.json", heads.to_string());
    world.fis_with(&["verify", "--checkpoint", &file], &key).await.expect(1, &["was altered"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_a_tenant_that_nobody_knows_are_found() {
    let world = with_one_order("nobody").await;
    let rows = [
        (
            "insert into fis_journal_line values ('ghost', 1, 1, '1000', 'debit', 5, 'EUR', 5)",
            "delete from fis_journal_line where tenant_id = 'ghost'",
        ),
        (
            "insert into fis_account_balance values ('ghost', '1000', 'EUR', 5, 5)",
            "delete from fis_account_balance where tenant_id = 'ghost'",
        ),
        (
            "insert into fis_books values ('ghost', 1, '', now(), 'x', 'x', '')",
            "delete from fis_books where tenant_id = 'ghost'",
        ),
    ];
    for (tamper, mend) in rows {
        unguarded(&world, tamper).await;
        world.fis(&["verify"]).await.expect(1, &["ghost"]);
        unguarded(&world, mend).await;
    }
    unguarded(&world, "insert into fis_account_balance values ('gh''ost', '1000', 'EUR', 5, 5)").await;
    world.fis(&["verify"]).await.expect(1, &["no tenant can have this name"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn guards_that_are_dropped_disabled_or_altered_are_found_and_warned_about() {
    let world = World::with("guards", Setup { tenants: &[], ..Setup::default() }).await;
    let rows = [
        (
            "alter table fis_journal_entry disable trigger all",
            "trigger fis_journal_entry_append_only on fis_journal_entry is switched off",
        ),
        (
            "drop trigger fis_journal_line_append_only on fis_journal_line",
            "trigger fis_journal_line_append_only on fis_journal_line is missing",
        ),
        (
            "alter table fis_journal_entry drop constraint fis_journal_entry_tenant_id_event_id_key",
            "constraint fis_journal_entry_tenant_id_event_id_key on fis_journal_entry is missing",
        ),
        (
            "drop index fis_journal_entry_reversed_once",
            "index fis_journal_entry_reversed_once on fis_journal_entry is missing",
        ),
        (
            "alter table fis_account_balance drop constraint fis_account_balance_debit_check, add constraint fis_account_balance_debit_check check (true)",
            "constraint fis_account_balance_debit_check on fis_account_balance is not as",
        ),
        (
            "create or replace function fis_refuse_change() returns trigger language plpgsql as 'begin return null; end'",
            "function fis_refuse_change is not as",
        ),
        (
            "alter table fis_operator_log disable trigger fis_operator_log_login",
            "trigger fis_operator_log_login on fis_operator_log is switched off",
        ),
    ];
    world.fis(&["verify"]).await.expect(0, &[]);
    for (tamper, found) in rows {
        sqlx::raw_sql(tamper).execute(&world.pool).await.unwrap();
        world.fis(&["verify"]).await.expect(1, &[found]);
        let json = world.fis(&["verify", "--json"]).await.expect(1, &[]).json();
        assert!(
            json["guards"].as_array().unwrap().iter().any(|guard| guard.as_str().unwrap().starts_with(found)),
            "{json}"
        );
    }
    let mut run = world.run().await;
    for (_, found) in rows {
        assert!(run.log().contains(found), "{found} is not in {}", run.log());
    }
    assert!(!run.log().contains("may alter the journal"), "{}", run.log());
    run.terminate().await;
    // Whoever has a role that could do without the guards is told.
    let mut mighty = world.run_with(&[("FIS_DATABASE_URL", &world.admin_url)]).await;
    assert!(mighty.log().contains("may alter the journal"), "{}", mighty.log());
    mighty.terminate().await;
}

/// The list that the program compares with is what the migrations make.
#[tokio::test(flavor = "multi_thread")]
async fn the_list_of_guards_is_that_of_the_migrations() {
    let world = World::with("guards_list", Setup { topology: false, tenants: &[], ..Setup::default() }).await;
    let url = world.database_url.as_str().into();
    let postgres = Postgres::new(&config::Database { url, ..config::Database::default() }).unwrap();
    let made = guards::lines(&postgres.pool).await.unwrap().join("\n") + "\n";
    if std::env::var_os("UPDATE_GUARDS").is_some() {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/src/store/guards.txt"), &made).unwrap();
        return;
    }
    assert_eq!(
        made,
        guards::EXPECTED,
        "src/store/guards.txt is not what the migrations make (UPDATE_GUARDS=1 writes it)"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nothing_will_call_back_is_found() {
    let world = World::new("stranded").await;
    let mut run = world.run().await;
    let foreign = crate::support::events::order_of("acme", "held", "GBP", "119.00", "19.00")
        .expect(crate::support::events::Expect::Held);
    world.publish(&[foreign, payment("bad", "9999", "1.50").rejected("unknown_account")]).await;
    wait_until("one is held and one is parked", async || {
        let counts = (
            world.count("select count(*) from fis_held").await,
            world.count("select count(*) from fis_dead_letter").await,
        );
        same(counts, (1, 1))
    })
    .await;
    run.terminate().await;
    run.exited(Duration::from_secs(11)).await;
    world.fis(&["verify"]).await.expect(0, &[]);
    world.sql("update fis_held set due_at = 'infinity'").await;
    world.fis(&["verify"]).await.expect(1, &["held event held of acme comes back only on infinity"]);
    world.sql("update fis_held set due_at = now()").await;
    world.fis(&["verify"]).await.expect(0, &[]);
    world.sql("update fis_dead_letter set status = 'replaying'").await;
    world.fis(&["verify"]).await.expect(1, &["is replaying, and nobody holds its event"]);
}
