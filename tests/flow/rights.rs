//! Rights: what the roles of `ops/roles.sql` can do in PostgreSQL. All other tests run fis as `fis_service`, so that whatever it has to do it
//! can do with these.

use sqlx::{Connection as _, PgConnection};

use crate::support::events::{order, payment};
use crate::support::servers::{OWNER, as_role};
use crate::support::wait::{same, wait_until};
use crate::support::world::{Setup, World};

/// The rows of who did what, and who had logged in.
const LOG: &str =
    "select string_agg(concat_ws(' ', by, act, login), '; ' order by id) from fis_operator_log where by = 'anna'";

async fn text(world: &World, sql: &'static str) -> String {
    sqlx::query_scalar(sql).fetch_one(&world.pool).await.unwrap()
}

/// A world in which one order is posted.
async fn with_one_order(name: &str) -> World {
    let world = World::new(name).await;
    world.publish(&[order("evt")]).await;
    world.fis(&["run", "--once"]).await.expect(0, &[]);
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn the_services_role_cannot_alter_what_is_recorded() {
    let world = with_one_order("rights").await;
    let mut service = PgConnection::connect(&world.database_url).await.unwrap();
    let who: String = sqlx::query_scalar("select session_user::text").fetch_one(&mut service).await.unwrap();
    assert_eq!(who, "fis_service");
    let records = [
        "fis_journal_entry",
        "fis_journal_line",
        "fis_books",
        "fis_operator_log",
        "fis_log_block",
        "fis_dead_letter_edit",
        "fis_entry_edit",
        "_sqlx_migrations",
    ];
    let acts = [
        "delete from TABLE",
        "truncate TABLE",
        "alter table TABLE disable trigger all",
        "alter table TABLE add column x text",
        "alter table TABLE owner to fis_service",
        "drop table TABLE",
        "create trigger x before insert on TABLE for each row execute function fis_refuse_change()",
        "create rule x as on insert to TABLE do instead nothing",
    ];
    let elsewhere = [
        "set session_replication_role = replica",
        "set role fis_owner",
        "create table public.x ()",
        "create schema x",
        "alter role fis_service superuser",
        "create or replace function fis_refuse_change() returns trigger language plpgsql as 'begin return null; end'",
        "truncate fis_account_balance",
        "delete from fis_chain_head",
        "delete from fis_received",
    ];
    let all = records.iter().flat_map(|table| acts.iter().map(move |act| act.replace("TABLE", table)));
    for sql in all.chain(elsewhere.map(str::to_owned)) {
        let refused = sqlx::raw_sql(&sql).execute(&mut service).await.expect_err(&sql);
        let code = refused.as_database_error().and_then(|error| error.code()).unwrap_or_default().into_owned();
        assert_eq!(code, "42501", "{sql}: {refused}");
    }
    for sql in [
        "update fis_journal_entry set description = 'x'",
        "update fis_journal_line set amount = 1",
        "update fis_books set source = ''",
        "update fis_operator_log set by = 'x'",
    ] {
        let refused = sqlx::raw_sql(sql).execute(&mut service).await.expect_err(sql);
        assert!(refused.to_string().contains("permission denied"), "{sql}: {refused}");
    }
    world.fis(&["verify"]).await.expect(0, &["verified"]);
    world.invariants().await;
}

/// A table that is made by a migration gets its rights in `src/store/rights.sql`, on purpose.
#[tokio::test(flavor = "multi_thread")]
async fn every_table_has_its_rights_and_an_owner_that_is_not_the_service() {
    let world = World::with("every_table", Setup { topology: false, tenants: &[], ..Setup::default() }).await;
    let rights = include_str!("../../src/store/rights.sql");
    let tables: Vec<(String, String)> = sqlx::query_as(
        "select relname::text, pg_get_userbyid(relowner)::text from pg_class
          where relnamespace = 'public'::regnamespace and relkind = 'r' and relname like 'fis\\_%'",
    )
    .fetch_all(&world.pool)
    .await
    .unwrap();
    assert!(tables.len() > 15, "{tables:?}");
    for (table, owner) in tables {
        assert!(rights.contains(&format!("('{table}',")), "{table} is not in src/store/rights.sql");
        assert_eq!(owner, OWNER, "{table}");
    }
    let named = rights.lines().filter_map(|line| line.trim().strip_prefix("('")?.split('\'').next());
    for table in named {
        let found: bool =
            sqlx::query_scalar("select to_regclass($1) is not null").bind(table).fetch_one(&world.pool).await.unwrap();
        assert!(found, "src/store/rights.sql names {table}, which is no table");
    }
}

/// Whoever has the secret could make Redis say that an event is posted.
#[tokio::test(flavor = "multi_thread")]
async fn the_secret_of_the_ledger_is_the_services_alone() {
    let world = World::with("ledger_secret", Setup { topology: false, tenants: &[], ..Setup::default() }).await;
    let may = "select string_agg(role || ' ' || col, ', ' order by role, col)
                 from unnest(array['fis_console', 'fis_reader', 'fis_service']) as role, unnest(array['id', 'secret']) as col
                where has_column_privilege(role, 'fis_ledger', col, 'select')";
    let may: String = sqlx::query_scalar(may).fetch_one(&world.pool).await.unwrap();
    assert_eq!(may, "fis_console id, fis_reader id, fis_service id, fis_service secret");
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_that_were_given_by_hand_last_until_the_next_migration() {
    let world = World::with("regranted", Setup { topology: false, tenants: &[], ..Setup::default() }).await;
    let may = "select has_table_privilege('fis_service', 'fis_journal_entry', 'update')::int::bigint";
    world.sql("grant update on fis_journal_entry to fis_service; revoke insert on fis_outbox from fis_service").await;
    assert_eq!(world.count(may).await, 1);
    world.migrate().await.expect(0, &[]);
    assert_eq!(world.count(may).await, 0);
    let insert = "select has_table_privilege('fis_service', 'fis_outbox', 'insert')::int::bigint";
    assert_eq!(world.count(insert).await, 1);
    world.fis(&["migrate"]).await.expect(1, &["permission denied"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_reads_everything_and_a_console_mends_letters_and_neither_books() {
    let world = World::new("other_roles").await;
    let mut run = world.run().await;
    world.publish(&[order("evt"), payment("bad", "9999", "1.50"), payment("worse", "9999", "2.50")]).await;
    wait_until("two are parked", async || same(world.count("select count(*) from fis_dead_letter").await, 2)).await;
    let (reader, console) = (as_role(&world.database_url, "fis_reader"), as_role(&world.database_url, "fis_console"));
    let (reader, console) = ([("FIS_DATABASE_URL", reader.as_str())], [("FIS_DATABASE_URL", console.as_str())]);
    let reading: [&[&str]; 7] = [
        &["verify"],
        &["status"],
        &["journal", "--tenant", "acme"],
        &["trial-balance", "--tenant", "acme"],
        &["dlq", "list"],
        &["held", "list"],
        &["books", "show", "--tenant", "acme"],
    ];
    for environment in [&reader, &console] {
        for command in reading {
            world.fis_with(command, environment).await.expect(0, &[]);
        }
        let revert = ["revert", "--tenant", "acme", "1", "--why", "no", "--yes"];
        world.fis_with(&revert, environment).await.expect(1, &["permission denied"]);
    }
    let discard = ["dlq", "discard", "--max-amount", "2", "--why", "test", "--by", "anna", "--yes"];
    world.fis_with(&discard, &reader).await.expect(1, &["permission denied"]);
    world.fis_with(&discard, &console).await.expect(0, &["discarded 1"]);
    assert_eq!(text(&world, LOG).await, "anna discard fis_console");
    let replay = ["dlq", "replay", "--all", "--yes", "--no-wait", "--why", "again", "--by", "anna"];
    world.fis_with(&replay, &console).await.expect(0, &[]);
    wait_until("the service has decided it", async || same(world.count("select decided from fis_replay").await, 1))
        .await;
    run.terminate().await;
}

/// Whoever acts says who it is; who had logged in says the table itself.
#[tokio::test(flavor = "multi_thread")]
async fn who_had_logged_in_stands_beside_who_it_is_said_to_be() {
    let world = with_one_order("login").await;
    let file = world.file("other.toml", crate::support::events::books("other"));
    world.fis(&["books", "apply", &file, "--yes", "--by", "anna"]).await.expect(0, &[]);
    let applied = "select concat_ws(' ', applied_by, login) from fis_books where tenant_id = 'other'";
    assert_eq!(text(&world, applied).await, "anna fis_service");
    world
        .fis_with(
            &["revert", "--tenant", "acme", "1", "--why", "sent twice", "--yes"],
            &[("FIS_OPERATOR", "anna"), ("USER", "anna")],
        )
        .await
        .expect(0, &[]);
    assert_eq!(text(&world, LOG).await, "anna revert fis_service");
    let detail = text(&world, "select detail from fis_operator_log where act = 'revert'").await;
    assert_eq!(detail, "reversed acme/1 by acme/2");
    // Not even a superuser's statement chooses it.
    world.sql("insert into fis_operator_log (by, login, act, why, through, detail) values ('x', 'forged', 'prune', '', 'cli', '')").await;
    let forged = "select (login = session_user)::int::bigint from fis_operator_log where by = 'x'";
    assert_eq!(world.count(forged).await, 1);
    world.fis(&["verify"]).await.expect(0, &["verified"]);
}

/// By default PostgreSQL looks first into a schema that is named like the role.
#[tokio::test(flavor = "multi_thread")]
async fn a_schema_named_like_the_role_shadows_nothing() {
    let world = World::new("shadow").await;
    world
        .sql(
            "create schema fis_service;
             create table fis_service.fis_chain_head (like public.fis_chain_head including all);
             create table fis_service.fis_journal_entry (like public.fis_journal_entry including all);
             grant usage on schema fis_service to public;
             grant all on all tables in schema fis_service to public",
        )
        .await;
    world.publish(&[order("evt")]).await;
    world.fis(&["run", "--once"]).await.expect(0, &[]);
    assert_eq!(world.count("select count(*) from public.fis_journal_entry").await, 1);
    assert_eq!(world.count("select count(*) from fis_service.fis_journal_entry").await, 0);
    world.invariants().await;
}
