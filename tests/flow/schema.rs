//! The database: migrated forward only, refused where it does not fit, append-only by its own power, and audited.

use fis::domain::letter::{LetterAct, LetterStatus, ReplayState, Resolution};
use fis::domain::operator::Through;
use futures::future::join_all;
use sqlx::Connection as _;

use crate::support::events::{Expect, Message, order};
use crate::support::world::{Setup, World};

#[tokio::test(flavor = "multi_thread")]
async fn migrating_twice_changes_nothing() {
    let world =
        World::with("migrate", Setup { migrated: false, topology: false, tenants: &[], ..Setup::default() }).await;
    world.migrate().await.expect(0, &["from version 0"]);
    world.migrate().await.expect(0, &["already"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unmigrated_database_is_refused_with_both_versions() {
    let world = World::with("behind", Setup { migrated: false, tenants: &[], ..Setup::default() }).await;
    let newest = newest_migration();
    let words = ["version 0", &newest.to_string(), "fis migrate"];
    world.fis(&["run", "--once"]).await.expect(1, &words);
    world.fis(&["status"]).await.expect(1, &words);
    world.migrate().await.expect(0, &[]);
    world.fis(&["run", "--once"]).await.expect(0, &[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_ahead_is_refused_with_its_version() {
    let world = World::new("ahead").await;
    world
        .sql(
            "insert into _sqlx_migrations (version, description, success, checksum, execution_time)
              values (9999, 'from the future', true, '\\x00', 0)",
        )
        .await;
    let words = ["9999", &newest_migration().to_string()];
    for command in [&["run"][..], &["status"], &["verify"]] {
        world.fis(command).await.expect(1, &words);
    }
    world.migrate().await.expect(1, &words);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_whose_migrations_were_changed_is_refused() {
    let world = World::new("changed").await;
    world.sql("update _sqlx_migrations set checksum = '\\x00' where version = 1").await;
    world.fis(&["run"]).await.expect(1, &["migration 1"]);
}

fn newest_migration() -> i64 {
    let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    names.filter_map(|name| name.split('_').next()?.parse().ok()).max().unwrap()
}

/// The words that a CHECK of the column allows, sorted.
async fn allowed(world: &World, constraint: &str) -> Vec<String> {
    let definition = "select pg_get_constraintdef(oid) from pg_constraint where conname = $1";
    let definition: String = sqlx::query_scalar(definition).bind(constraint).fetch_one(&world.pool).await.unwrap();
    let mut words: Vec<String> = definition.split('\'').skip(1).step_by(2).map(ToOwned::to_owned).collect();
    words.sort();
    words
}

#[tokio::test(flavor = "multi_thread")]
async fn the_words_of_every_state_are_those_that_its_table_allows() {
    let world = World::with("words", Setup { topology: false, tenants: &[], ..Setup::default() }).await;
    fn words<T: Copy>(all: &[T], word: fn(T) -> &'static str) -> Vec<&'static str> {
        let mut words: Vec<&str> = all.iter().map(|state| word(*state)).collect();
        words.sort_unstable();
        words
    }
    let rows = [
        ("fis_dead_letter_status_check", words(LetterStatus::ALL, LetterStatus::as_str)),
        ("fis_dead_letter_resolved_as_check", words(Resolution::ALL, Resolution::as_str)),
        ("fis_replay_state_check", words(ReplayState::ALL, ReplayState::as_str)),
        ("fis_operator_log_act_check", words(LetterAct::ALL, LetterAct::as_str)),
        ("fis_operator_log_through_check", words(Through::ALL, Through::as_str)),
    ];
    for (constraint, words) in rows {
        assert_eq!(allowed(&world, constraint).await, words, "{constraint}");
    }
}

async fn with_one_order(name: &str) -> World {
    let world = World::new(name).await;
    let mut run = world.run().await;
    world.publish(&[order("evt"), order("second"), order("third")]).await;
    world.rest(&mut run).await;
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_lines_and_books_refuse_update_delete_and_truncate() {
    let world = with_one_order("append_only").await;
    let rows = [
        "update fis_journal_entry set description = 'x'",
        "update fis_journal_entry set description = 'x' where false",
        "delete from fis_journal_entry where seq = 1",
        "truncate fis_journal_entry",
        "update fis_journal_line set amount = 1",
        "delete from fis_journal_line",
        "truncate fis_journal_line",
        "truncate fis_account_balance, fis_journal_line",
        "update fis_books set source = ''",
        "delete from fis_books",
        "truncate fis_books",
        "insert into fis_journal_entry select * from fis_journal_entry on conflict (tenant_id, seq) do update set description = 'x'",
        "merge into fis_journal_line l using (select 1) x on true when matched then delete",
    ];
    for sql in rows {
        let error = sqlx::raw_sql(sql).execute(&world.pool).await.expect_err(sql).to_string();
        assert!(error.contains("append-only") || error.contains("non-DEFAULT value"), "{sql}: {error}");
    }
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn states_and_amounts_outside_their_bounds_are_refused_by_the_tables() {
    let world = World::with("checks", Setup { topology: false, tenants: &[], ..Setup::default() }).await;
    let line = |amount: &str, side: &str, base: &str| {
        format!("insert into fis_journal_line values ('acme', 1, 1, '1000', '{side}', '{amount}', 'EUR', '{base}')")
    };
    let letter = |status: &str, attempts: i32| {
        format!(
            "insert into fis_dead_letter (id, routing_key, lane, reason, detail, status, attempts, properties, body)
             values ('x', 'k', 'live', 'r', 'd', '{status}', {attempts}, '', '')"
        )
    };
    let rows = [
        line("-1", "debit", "1"),
        line("0", "debit", "0"),
        line("NaN", "debit", "1"),
        line("Infinity", "debit", "1"),
        line("1", "debit", "NaN"),
        line("1", "debit", "-1"),
        line("1000000000000000", "debit", "1"),
        line("1", "left", "1"),
        letter("unknown", 1),
        letter("parked", 0),
        // Settled without a moment, resolved without saying how.
        letter("discarded", 1),
        letter("resolved", 1),
        "insert into fis_account_balance values ('acme', '1000', 'EUR', -1, 0)".to_owned(),
        "insert into fis_account_balance values ('acme', '1000', 'EUR', 'NaN', 0)".to_owned(),
        "insert into fis_chain_head values ('acme', -1, repeat('0', 64), 1)".to_owned(),
        "insert into fis_chain_head values ('acme', 0, 'short', 1)".to_owned(),
        // An outbox row is a pointer or a message, never both and never neither.
        "insert into fis_outbox (tenant_id, seq, body) values ('acme', 1, 'x')".to_owned(),
        "insert into fis_outbox (tenant_id) values ('acme')".to_owned(),
        "insert into fis_held (tenant_id, event_id, event_type, payload_hash, routing_key, properties, body, reason, detail,
                               attempts, due_at, lane, received_at)
         values ('acme', 'e', 't', 'h', 'k', '{}', '', 'r', 'd', 1, now(), 'unknown', now())"
            .to_owned(),
    ];
    for sql in rows {
        let error = sqlx::raw_sql(&sql).execute(&world.pool).await.expect_err(&sql);
        let code = error.as_database_error().and_then(|error| error.code()).unwrap_or_default().into_owned();
        assert_eq!(code, "23514", "{sql}: {error}");
    }
    // What is within bounds is taken, so the refusals above were for their own reasons.
    for sql in [
        line("0.01", "credit", "0"),
        line("999999999999999.99", "debit", "1").replace(", 1, 1,", ", 1, 2,"),
        letter("parked", 1),
    ] {
        sqlx::raw_sql(&sql).execute(&world.pool).await.unwrap();
    }
}

/// What the owner of the tables can do by switching the guard off is found afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn tampering_is_found_with_its_tenant_and_sequence() {
    let world = with_one_order("tampering").await;
    world.fis(&["verify"]).await.expect(0, &["acme", "verified"]);
    // Each row breaks the ledger, says what the audit must name, and mends it again.
    let rows = [
        (
            "update fis_journal_line set amount = 118, base_amount = 118 where seq = 2 and line_no = 1",
            "update fis_journal_line set amount = 119.00, base_amount = 119.00 where seq = 2 and line_no = 1",
            "sequence 2",
        ),
        (
            "update fis_journal_line set account_code = '1000' where seq = 3 and line_no = 1",
            "update fis_journal_line set account_code = '1100' where seq = 3 and line_no = 1",
            "sequence 3",
        ),
        (
            "update fis_journal_entry set event_id = 'other' where seq = 1",
            "update fis_journal_entry set event_id = 'evt' where seq = 1",
            "sequence 1",
        ),
        (
            "update fis_journal_entry set payload_hash = 'sha256:0' || substr(payload_hash, 9) where seq = 1;
             update fis_journal_entry set accounting_date = accounting_date + 1 where seq = 1",
            "",
            "sequence 1",
        ),
    ];
    for (tamper, mend, found) in rows {
        unguarded(&world, tamper).await;
        let said = world.fis(&["verify"]).await.expect(1, &["acme", found]);
        let json = world.fis(&["verify", "--json"]).await.expect(1, &[]).json();
        let fault = json["tenants"][0]["fault"].as_str().unwrap_or_default().to_owned();
        assert!(fault.contains(found), "{json} {said:?}");
        unguarded(&world, mend).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_entry_and_a_wrong_balance_are_found() {
    let rows = [
        (
            "cut_off",
            "delete from fis_journal_entry where seq = 3; delete from fis_journal_line where seq = 3",
            "sequence 2",
        ),
        (
            "hole",
            "delete from fis_journal_entry where seq = 2; delete from fis_journal_line where seq = 2",
            "sequence 2",
        ),
        ("balance", "update fis_account_balance set debit = debit + 1 where account_code = '1100'", "1100"),
        ("forgotten", "delete from fis_account_balance where account_code = '4000'", "4000"),
        ("line", "delete from fis_journal_line where seq = 1 and line_no = 3", "sequence 1"),
    ];
    join_all(rows.map(async |(name, tamper, found)| {
        let world = with_one_order(name).await;
        unguarded(&world, tamper).await;
        world.fis(&["verify", "--tenant", "acme"]).await.expect(1, &["acme", found]);
    }))
    .await;
}

async fn unguarded(world: &World, sql: &str) {
    let mut transaction = sqlx::PgConnection::connect(&world.admin_url).await.unwrap();
    let sql = format!(
        "begin; alter table fis_journal_entry disable trigger user; alter table fis_journal_line disable trigger user;
         {sql};
         alter table fis_journal_entry enable trigger user; alter table fis_journal_line enable trigger user; commit"
    );
    sqlx::raw_sql(&sql).execute(&mut transaction).await.unwrap();
}

/// NUL is legal in JSON and in AMQP, and PostgreSQL's text cannot hold it. It must never stop the queue.
#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_postgresql_cannot_store_stop_nothing() {
    let world = World::new("nul").await;
    let mut run = world.run().await;
    let mut described = order("nul-in-text").value();
    described["payload"]["orderId"] = serde_json::Value::from("a\u{0}b");
    let described = Message::json("ecommerce.order.completed", &described).rejected("malformed_json");
    let mut strange = order("nul-in-properties").header("traceparent", "00\u{0}11");
    strange.properties = strange.properties.with_message_id("m\u{0}1".into()).with_correlation_id("c\u{0}1".into());
    let keyed = Message::new("a\u{0}b", order("nul-in-key").body).expect(Expect::Posted);
    let mut typed = order("nul-in-type").value();
    typed["eventType"] = serde_json::Value::from("a\u{0}b");
    let typed = Message::json("ecommerce.order.completed", &typed).rejected("malformed_json");
    let broken = Message::new("a\u{0}c", "{").rejected("malformed_json");
    world.publish(&[described, strange, keyed, typed, broken, order("good")]).await;
    world.rest(&mut run).await;
    assert_eq!(world.count("select count(*) from fis_journal_entry where event_id = 'good'").await, 1);
    world.invariants().await;
}
