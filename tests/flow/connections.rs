//! Connections to PostgreSQL: an act that gets no answer takes its connection with it, and a lease is never another connection.

use fis::platform::config::Database;
use fis::platform::postgres::{Lease, Postgres, Work};
use sqlx::Connection as _;

use crate::support::wait::{same, wait_until};
use crate::support::world::{Setup, World};

const WORK: Work = Work::often("tests");

async fn a_database(name: &str) -> (World, Postgres) {
    let world = World::with(name, Setup { topology: false, tenants: &[], ..Setup::default() }).await;
    let url = world.database_url.as_str().into();
    // An act may take 200 ms; no statement of these tests takes as long.
    let config = Database { url, statement_timeout_ms: 100, lock_timeout_ms: 100, ..Database::default() };
    (world, Postgres::serving(&config).unwrap())
}

async fn session(lease: &mut Lease) -> Result<i32, sqlx::Error> {
    lease.run(async |db| sqlx::query_scalar("select pg_backend_pid()").fetch_one(db).await).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_act_without_an_answer_is_given_up_together_with_its_connection() {
    let (world, postgres) = a_database("silent").await;
    let mut given_up = 0;
    let silent = async |db: &mut sqlx::PgConnection| -> Result<(), sqlx::Error> {
        given_up = sqlx::query_scalar("select pg_backend_pid()").fetch_one(&mut *db).await?;
        let mut transaction = db.begin().await?;
        sqlx::query("insert into fis_mirror (exchange) values ('x')").execute(&mut *transaction).await?;
        std::future::pending::<()>().await;
        transaction.commit().await
    };
    let error = postgres.run(WORK, silent).await.unwrap_err().to_string();
    assert!(error.contains("has not answered"), "{error}");
    wait_until("the session is gone, and not back in the pool", async || {
        let left = sqlx::query_scalar("select count(*) from pg_stat_activity where pid = $1").bind(given_up);
        let left: i64 = left.fetch_one(&world.pool).await.unwrap();
        same(left, 0)
    })
    .await;
    assert_eq!(world.count("select count(*) from fis_mirror").await, 0);
    // The pool goes on with another one.
    let one: i32 = postgres.run(WORK, async |db| sqlx::query_scalar("select 1").fetch_one(db).await).await.unwrap();
    assert_eq!(one, 1);
}

/// What was read on one server must not be removed on another, which may have been restored meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_leased_connection_that_is_lost_is_not_replaced() {
    let (world, postgres) = a_database("lease").await;
    let mut lease = postgres.lease(WORK).await.unwrap();
    let first = session(&mut lease).await.unwrap();
    assert_eq!(session(&mut lease).await.unwrap(), first);
    sqlx::query("select pg_terminate_backend($1)").bind(first).execute(&world.pool).await.unwrap();
    for _ in 0..2 {
        assert!(session(&mut lease).await.is_err());
    }
    let mut next = postgres.lease(WORK).await.unwrap();
    assert_ne!(session(&mut next).await.unwrap(), first);
}
