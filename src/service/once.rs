//! `fis run --once`: when is everything that was there done? When the lanes and the dead-letter queue are empty, nothing has
//! moved for a moment, nothing in the inbox is due, and the outbox is empty.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{Parts, wait};
use crate::domain::names::DEAD_LETTER_QUEUE;
use crate::pipeline::inbox;
use crate::platform::amqp::{AmqpError, Connection};
use crate::platform::config::Config;
use crate::platform::postgres::Work;
use crate::store::outbox;

const LOOK: Duration = Duration::from_millis(100);
/// The broker moves a rejected message to the dead-letter queue in the background; so many quiet looks in a row mean that
/// nothing is under way any more.
const QUIET_LOOKS: u32 = 5;

/// Returns when everything is done, or at `stop`.
pub(super) async fn drained(config: &Config, parts: &Parts, stop: &CancellationToken) {
    let mut quiet = 0;
    let mut connection = None;
    while quiet < QUIET_LOOKS && !wait(LOOK, stop).await {
        match is_quiet(config, parts, &mut connection).await {
            Ok(true) => quiet += 1,
            Ok(false) => quiet = 0,
            Err(why) => {
                tracing::debug!("cannot tell yet whether everything is done: {why}");
                close(connection.take()).await;
                quiet = 0;
            }
        }
    }
    close(connection).await;
}

async fn close(connection: Option<Connection>) {
    if let Some(connection) = connection {
        connection.close().await;
    }
}

async fn is_quiet(config: &Config, parts: &Parts, connection: &mut Option<Connection>) -> Result<bool, String> {
    let text = |error: AmqpError| error.to_string();
    let connection = match connection {
        Some(connection) => connection,
        None => connection.insert(Connection::open(&config.amqp, "fis once").await.map_err(text)?),
    };
    for queue in parts.roads.iter().map(|road| road.queue.as_str()).chain([DEAD_LETTER_QUEUE]) {
        if connection.ready_count(queue).await.map_err(text)? > 0 {
            return Ok(false);
        }
    }
    if parts.pipeline.in_hand() > 0 {
        return Ok(false);
    }
    let (work, postgres) = (Work::of("service.once"), &parts.edges.postgres);
    let text = |error: sqlx::Error| error.to_string();
    Ok(postgres.run(work, async |db| inbox::is_empty(db).await).await.map_err(text)?
        && postgres.run(work, outbox::backlog).await.map_err(text)?.pending == 0)
}
