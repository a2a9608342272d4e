//! What a superuser can do to letters and to the operators' log, and what `fis verify` says about it. `docs/hash-chain.md` has the table.

use sqlx::{Connection as _, PgConnection, PgPool};

use crate::support::events::{books, payment};
use crate::support::wait::{same, wait_until};
use crate::support::world::World;
use crate::tampering::{KEY, unguarded};

const UNSEALED: &str =
    "select count(*) from fis_operator_log where id > coalesce((select max(last_id) from fis_log_block), 0)";

/// A world with four letters: one parked, one discarded, one booked from an edited copy, and one that came again for another reason.
async fn with_letters(name: &str) -> World {
    let world = World::new(name).await;
    let mut run = world.run().await;
    for event in ["parked", "discarded", "edited", "again"] {
        world.publish(&[payment(event, "9999", "1.50")]).await;
    }
    wait_until("four are parked", async || same(world.count("select count(*) from fis_dead_letter").await, 4)).await;
    // A block of its own: the service makes the next one.
    world.fis_with(&["checkpoint"], &[("FIS__AUDIT__SIGNING_KEY", KEY)]).await.expect(0, &["\"block\": 1"]);
    let id = letter(&world, "discarded").await;
    world.fis(&["dlq", "discard", &id, "--why", "test data", "--by", "anna", "--yes"]).await.expect(0, &[]);
    let id = letter(&world, "edited").await;
    let edit = ["dlq", "edit", &id, "--set", "/payload/account=1100", "--why", "typo", "--by", "anna", "--yes"];
    world.fis(&edit).await.expect(0, &["1 of 1"]);
    world
        .apply_books(
            &(books("acme") + "\n[[accounts]]\ncode = \"9999\"\nname = \"Gone\"\ntype = \"income\"\nclosed = true\n"),
        )
        .await;
    let id = letter(&world, "again").await;
    world.fis(&["dlq", "replay", &id, "--yes", "--why", "opened"]).await.expect(1, &["account_closed"]);
    world.published.lock().unwrap().clear();
    world.rest(&mut run).await;
    // Whoever stops seals what is left.
    assert_eq!(world.count(UNSEALED).await, 0);
    world.fis(&["verify"]).await.expect(0, &["4 dead letters beside it"]);
    world
}

async fn letter(world: &World, event: &str) -> String {
    let id = sqlx::query_scalar("select id from fis_dead_letter where event_id = $1");
    id.bind(event).fetch_one(&world.pool).await.unwrap()
}

/// Each tampering, and what takes it back.
#[tokio::test(flavor = "multi_thread")]
async fn letters_and_log_that_were_altered_are_found() {
    let world = with_letters("altered_letters").await;
    world
        .sql(
            "create table kept_log as select * from fis_operator_log;
             create table kept_letter as select * from fis_dead_letter;
             create table kept_block as select * from fis_log_block;
             create table kept_edit as select * from fis_dead_letter_edit;
             create table kept_booked as select * from fis_entry_edit",
        )
        .await;
    let log =
        "delete from fis_operator_log; insert into fis_operator_log overriding system value select * from kept_log";
    let block = "delete from fis_log_block; insert into fis_log_block select * from kept_block";
    let edit = "delete from fis_dead_letter_edit; insert into fis_dead_letter_edit select * from kept_edit";
    let booked = "delete from fis_entry_edit; insert into fis_entry_edit select * from kept_booked";
    let letters = "update fis_dead_letter d
                      set body = k.body, properties = k.properties, amount = k.amount, message_id = k.message_id, status = k.status,
                          settled_at = k.settled_at, resolved_as = k.resolved_as, reason = k.reason, detail = k.detail, entry_id = k.entry_id
                     from kept_letter k where k.id = d.id";
    let rows = [
        // Letters.
        ("update fis_dead_letter set body = body || ' ' where event_id = 'parked'", "is not as it was parked", letters),
        ("update fis_dead_letter set amount = 1.51 where event_id = 'parked'", "is not as it was parked", letters),
        ("update fis_dead_letter set message_id = 'x' where event_id = 'parked'", "is not as it was parked", letters),
        (
            "update fis_dead_letter set properties = properties || ' ' where event_id = 'parked'",
            "is not as it was parked",
            letters,
        ),
        (
            "update fis_dead_letter set status = 'discarded', settled_at = now() where event_id = 'parked'",
            "is discarded, and the operators' log says parked",
            letters,
        ),
        (
            "update fis_dead_letter set status = 'parked', settled_at = null where event_id = 'discarded'",
            "is parked, and the operators' log says discarded",
            letters,
        ),
        (
            "update fis_dead_letter set reason = 'bad_amount' where event_id = 'again'",
            "has the reason bad_amount, and the operators' log says account_closed",
            letters,
        ),
        (
            "update fis_dead_letter set entry_id = 'acme/7' where event_id = 'edited'",
            "its detail, resolution, entry or replay is not that of",
            letters,
        ),
        (
            "update fis_dead_letter set detail = 'account `1` is closed' where event_id = 'again'",
            "its detail, resolution, entry or replay is not that of",
            letters,
        ),
        // The log.
        ("update fis_operator_log set why = 'x' where act = 'discard'", "its rows do not have the hash it carries", log),
        ("update fis_operator_log set by = 'otto' where by = 'anna'", "its rows do not have the hash it carries", log),
        ("update fis_operator_log set login = 'otto' where act = 'edit'", "its rows do not have the hash it carries", log),
        ("update fis_operator_log set at = at + interval '1 us'", "its rows do not have the hash it carries", log),
        ("update fis_operator_log set through = 'service' where through = 'cli'", "its rows do not have the hash", log),
        ("delete from fis_operator_log where act = 'replay'", "rows, and", log),
        ("delete from fis_operator_log where act = 'park'", "the operators' log does not know it", log),
        ("delete from fis_operator_log where act = 'discard'", "is discarded, and the operators' log says parked", log),
        (
            "insert into fis_operator_log (id, by, login, act, why, through, detail) overriding system value
             values (0, 'anna', 'anna', 'revert', 'x', 'cli', 'x')",
            "rows, and",
            log,
        ),
        ("delete from fis_operator_log", "its rows are gone", log),
        // Its blocks.
        ("update fis_log_block set sealed_at = sealed_at + interval '1 us' where no = 1", "block 1 of the operators' log", block),
        ("update fis_log_block set first_id = 2 where no = 1", "block 1 of the operators' log", block),
        ("update fis_log_block set previous_hash = repeat('1', 64) where no = 1", "its previous hash is not", block),
        ("delete from fis_log_block where no = 1", "block 1 of the operators' log is missing", block),
        // Edited copies, and what was booked from them.
        ("update fis_dead_letter_edit set body = body || ' '", "edit 1 of dead letter", edit),
        ("update fis_dead_letter_edit set why = 'x'", "is not as the operators' log has it", edit),
        (
            "insert into fis_dead_letter_edit select letter_id, 2, body, edited_by, why, edited_at from kept_edit",
            "the operators' log does not know it",
            edit,
        ),
        ("delete from fis_dead_letter_edit", "is gone: the operators' log says that anna made it", edit),
        ("delete from fis_entry_edit", "entry acme/1: the record of edit 1 of dead letter", booked),
        (
            "update fis_entry_edit set edited_by = 'otto'",
            "is not as it was logged",
            booked,
        ),
        (
            "insert into fis_entry_edit select 'acme/2', letter_id, edit_no, edited_by, why, edited_at from kept_booked",
            "entry acme/2: the record of edit 1",
            booked,
        ),
        // Nothing brings a letter back.
        ("delete from fis_dead_letter where event_id = 'parked'", "is gone: the operators' log says parked", ""),
        (
            "delete from fis_dead_letter where event_id = 'again';
             insert into fis_operator_log (by, login, act, why, through, letter_id, from_status, detail)
                 select 'anna', 'anna', 'prune', 'x', 'cli', id, 'parked', 'x' from kept_letter where event_id = 'again'",
            "is gone: the operators' log says parked",
            "",
        ),
    ];
    for (tamper, found, mend) in rows {
        unguarded(&world, tamper).await;
        let said = world.fis(&["verify", "--json"]).await;
        assert_eq!(said.code, Some(1), "{tamper}: {said:?}");
        let said = said.json();
        let faults = said["log"]["faults"].as_array().unwrap();
        assert!(faults.iter().any(|fault| fault.as_str().unwrap().contains(found)), "{tamper}: {said}");
        world.fis(&["verify"]).await.expect(1, &[found]);
        if !mend.is_empty() {
            unguarded(&world, mend).await;
            world.fis(&["verify"]).await.expect(0, &["operators' log"]);
        }
    }
}

/// Whoever computes the chain anew, or cuts it, is right in himself; only what was signed and kept elsewhere tells.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_was_cut_with_its_blocks_is_found_by_a_checkpoint() {
    let world = with_letters("cut_log").await;
    let key = [("FIS__AUDIT__SIGNING_KEY", KEY)];
    // An act that no letter remembers.
    world.fis(&["revert", "--tenant", "acme", "1", "--why", "wrong", "--yes"]).await.expect(0, &[]);
    assert_eq!(world.count(UNSEALED).await, 1);
    world.fis(&["verify"]).await.expect(0, &["1 more row not sealed yet"]);
    let signed = world.fis_with(&["checkpoint"], &key).await.expect(0, &["\"log\""]);
    assert_eq!(world.count(UNSEALED).await, 0, "a checkpoint seals first");
    let file = world.file("checkpoint.json", &signed.stdout);
    world.fis_with(&["verify", "--checkpoint", &file], &key).await.expect(0, &["keeps what the checkpoint says"]);
    let cut = "delete from fis_log_block where no = (select max(no) from fis_log_block);
               delete from fis_operator_log where act = 'revert'";
    unguarded(&world, cut).await;
    world.fis(&["verify"]).await.expect(0, &["verified"]);
    let said = world.fis_with(&["verify", "--checkpoint", &file], &key).await;
    said.expect(1, &["the operators' log: block", "is gone"]);
    // The next block has the number, and another hash.
    world.fis(&["revert", "--tenant", "acme", "2", "--why", "wrong", "--yes"]).await.expect(0, &[]);
    world.fis_with(&["checkpoint"], &key).await.expect(0, &[]);
    world.fis(&["verify"]).await.expect(0, &["verified"]);
    let said = world.fis_with(&["verify", "--checkpoint", &file], &key).await;
    said.expect(1, &["the operators' log: block", "has another hash"]);
    // A checkpoint without the log, from before it was sealed, is one of its own form: this one was altered.
    let mut without = signed.json();
    without.as_object_mut().unwrap().remove("log");
    let file = world.file("without.json", without.to_string());
    world.fis_with(&["verify", "--checkpoint", &file], &key).await.expect(1, &["was altered"]);
}

const ROW: &str =
    "insert into fis_operator_log (by, act, why, through, detail) values ('anna', 'revert', 'x', 'cli', 'x')";

/// A row whose id was drawn early and whose transaction commits late is in the chain, and nobody waits for the one who seals.
#[tokio::test(flavor = "multi_thread")]
async fn a_block_is_made_of_ids_that_nobody_can_still_fill() {
    let world = World::new("late_row").await;
    let key = [("FIS__AUDIT__SIGNING_KEY", KEY)];
    let (mut early, mut late) = (connect(&world).await, connect(&world).await);
    let mut first = late.begin().await.unwrap();
    sqlx::raw_sql(ROW).execute(&mut *first).await.unwrap();
    sqlx::raw_sql(ROW).execute(&mut early).await.unwrap();
    // The checkpoint waits for the first in vain, and signs what there is.
    world.fis_with(&["checkpoint"], &key).await.expect(0, &["\"block\": 0"]);
    world.fis(&["verify"]).await.expect(0, &["0 rows in 0 blocks, 1 more row not sealed yet"]);
    // While somebody waits to seal, others write.
    let sealing = async { world.fis_with(&["checkpoint"], &key).await };
    let writing = async {
        wait_until("it waits", async || same(world.count(WAITS).await > 0, true)).await;
        sqlx::raw_sql(ROW).execute(&mut early).await.unwrap();
        first.commit().await.unwrap();
    };
    let (sealed, ()) = tokio::join!(sealing, writing);
    sealed.expect(0, &["\"block\": 1"]);
    world.fis(&["verify"]).await.expect(0, &["in 1 block,"]);
    world.fis_with(&["checkpoint"], &key).await.expect(0, &[]);
    assert_eq!(world.count("select sum(rows)::bigint from fis_log_block").await, 3);
    world.fis(&["verify"]).await.expect(0, &["3 rows in "]);
}

/// The question of one who waits for the transactions under way.
const WAITS: &str = "select count(*) from pg_stat_activity
                      where datname = current_database() and query like '%virtualtransaction%' and pid <> pg_backend_pid()";

async fn connect(world: &World) -> PgConnection {
    PgConnection::connect(&world.database_url).await.unwrap()
}

/// Many write, and many seal, at the same time: every row is in one block.
#[tokio::test(flavor = "multi_thread")]
async fn many_who_seal_at_once_make_one_chain() {
    let world = World::new("many_seal").await;
    let pool = PgPool::connect(&world.database_url).await.unwrap();
    let write = async || {
        for n in 0..50 {
            let mut transaction = pool.begin().await.unwrap();
            sqlx::raw_sql(ROW).execute(&mut *transaction).await.unwrap();
            if n % 5 == 0 { transaction.rollback().await } else { transaction.commit().await }.unwrap();
        }
    };
    let seal = async || {
        for _ in 0..20 {
            let mut db = pool.acquire().await.unwrap();
            fis::parking::seal::step(&mut db, std::time::Duration::from_secs(10)).await.unwrap();
        }
    };
    tokio::join!(write(), write(), write(), seal(), seal(), seal());
    let mut db = pool.acquire().await.unwrap();
    while fis::parking::seal::step(&mut db, std::time::Duration::from_secs(10)).await.unwrap()
        != fis::parking::seal::Sealed::All
    {}
    assert_eq!(world.count("select sum(rows)::bigint from fis_log_block").await, 120);
    assert_eq!(world.count(UNSEALED).await, 0);
    world.fis(&["verify"]).await.expect(0, &["120 rows in"]);
}

/// A restored letter is proven like any other move; one that was parked again behind fis's back is found.
#[tokio::test(flavor = "multi_thread")]
async fn a_restored_letter_is_proven_and_a_forged_restoring_is_found() {
    let world = with_letters("restored").await;
    let id = letter(&world, "discarded").await;
    unguarded(&world, "create table kept as select * from fis_dead_letter").await;
    let forge = "update fis_dead_letter set status = 'parked', settled_at = null where event_id = 'discarded'";
    unguarded(&world, forge).await;
    let found = format!("dead letter {id} is parked, and the operators' log says discarded");
    world.fis(&["verify"]).await.expect(1, &[&found]);
    let back =
        "update fis_dead_letter d set status = k.status, settled_at = k.settled_at from kept k where k.id = d.id";
    unguarded(&world, back).await;
    world.fis(&["verify"]).await.expect(0, &[]);

    world.fis(&["dlq", "restore", &id, "--why", "it was real", "--by", "anna"]).await.expect(0, &[]);
    world.fis_with(&["checkpoint"], &[("FIS__AUDIT__SIGNING_KEY", KEY)]).await.expect(0, &[]);
    assert_eq!(world.count(UNSEALED).await, 0);
    world.fis(&["verify"]).await.expect(0, &["4 dead letters beside it"]);
    for (forge, back) in [
        ("update fis_operator_log set by = 'bob'", "update fis_operator_log set by = 'anna'"),
        ("update fis_operator_log set act = 'reopen'", "update fis_operator_log set act = 'restore'"),
    ] {
        let of = " where why = 'it was real'";
        unguarded(&world, &format!("{forge}{of}")).await;
        world.fis(&["verify"]).await.expect(1, &["its rows do not have the hash it carries"]);
        unguarded(&world, &format!("{back}{of}")).await;
        world.fis(&["verify"]).await.expect(0, &[]);
    }
}
