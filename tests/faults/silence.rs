//! A server falls silent and nobody is told: something between it and fis goes on acknowledging bytes.

use std::sync::Arc;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::support::events::order_of;
use crate::support::load::QUICK_RETRIES;
use crate::support::wait::{same, wait_until};
use crate::support::world::World;

/// Passes everything on, until the connections of the moment are swallowed; those made later pass.
async fn proxy(target: String) -> (u16, Arc<watch::Sender<bool>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let swallow = Arc::new(watch::Sender::new(false));
    let told = Arc::clone(&swallow);
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let mut swallowed = told.subscribe();
            let mut server = TcpStream::connect(&target).await.unwrap();
            tokio::spawn(async move {
                tokio::select! {
                    _ = tokio::io::copy_bidirectional(&mut client, &mut server) => return,
                    _ = swallowed.changed() => {}
                }
                let _ = server.shutdown().await;
                drop(server);
                // The client's end stays open and silent for as long as the test lasts.
                std::future::pending::<()>().await;
            });
        }
    });
    (port, swallow)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_postgresql_that_fell_silent_behind_a_proxy_is_given_up_and_asked_anew() {
    let world = World::new("pg_silent").await;
    let address = world.database_url.rsplit('@').next().unwrap().split('/').next().unwrap().to_owned();
    let (port, swallow) = proxy(address.clone()).await;
    let through = world.database_url.replace(&address, &format!("127.0.0.1:{port}"));
    let settings = [
        &QUICK_RETRIES[..],
        &[
            ("FIS_DATABASE_URL", through.as_str()),
            ("FIS__DATABASE__STATEMENT_TIMEOUT_MS", "2000"),
            ("FIS__DATABASE__LOCK_TIMEOUT_MS", "2000"),
        ],
    ]
    .concat();
    let mut run = world.run_with(&settings).await;

    // A posting is under way, and waits for the head, when the silence falls.
    let mut lock = world.pool.begin().await.unwrap();
    sqlx::query("select 1 from fis_chain_head for update").execute(&mut *lock).await.unwrap();
    world.publish(&[order_of("acme", "evt-1", "EUR", "119.00", "19.00")]).await;
    wait_until("a posting waits for the head", async || {
        let waiting =
            "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()";
        same(world.count(waiting).await, 1)
    })
    .await;
    swallow.send_replace(true);
    lock.rollback().await.unwrap();

    wait_until("the event is posted", async || same(world.count("select count(*) from fis_journal_entry").await, 1))
        .await;
    world.rest(&mut run).await;
    world.invariants().await;
}

/// Several connections fell silent at once; each that is tried costs a wait, and then Redis is left alone for a moment.
#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_fell_silent_behind_a_proxy_costs_one_wait_however_many_connections_there_were() {
    use fis::platform::{config, redis::Redis};

    let world = World::new("redis_silent").await;
    let address = world.redis_url.trim_start_matches("redis://").split('/').next().unwrap().to_owned();
    let (port, swallow) = proxy(address.clone()).await;
    let through = world.redis_url.replace(&address, &format!("127.0.0.1:{port}"));
    let redis = Redis::new(&config::Redis { url: through.as_str().into(), timeout_ms: 2000 }).unwrap();
    let all = futures::future::join_all((0..4).map(|_| redis.ping())).await;
    assert!(all.iter().all(Result::is_ok), "{all:?}");
    swallow.send_replace(true);
    let error = redis.ping().await.unwrap_err();
    assert!(error.to_string().contains("does not answer within"), "{error}");
    wait_until("it is asked again, and answers", async || match redis.ping().await {
        Err(error) if error.to_string().contains("left alone") => Err(error.to_string()),
        answer => Ok(answer),
    })
    .await
    .unwrap();
}
