//! Redis: an accelerator that may be away, slow, full or wrong without anybody noticing more than a slower service. Every
//! wait is bounded, and after a failure Redis is left alone for a moment instead of paying the wait for each batch.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use deadpool_redis::redis::io::tcp::TcpSettings;
use deadpool_redis::redis::{self, AsyncConnectionConfig, IntoConnectionInfo, Pipeline, RedisResult, Value};
use deadpool_redis::{Manager, Pool, PoolError, Runtime};

use super::config;
use super::server_address::ServerAddress;

/// The time that Redis is left alone after a failure: long enough not to slow posting, short enough to come back unnoticed.
const REST: Duration = Duration::from_secs(1);
/// Pipelines are short and the connection is multiplexed.
const CONNECTIONS_MAX: usize = 4;

#[derive(Debug, thiserror::Error)]
pub enum RedisError {
    #[error("setting `redis.url` must be a Redis URL such as redis://host:6379/1")]
    Url,
    /// The text is the predicate of a sentence about Redis: `refuses connections`.
    #[error("{0}")]
    Away(String),
}

impl RedisError {
    /// True where no time mends it: Redis does not let fis in.
    #[must_use]
    pub fn needs_a_person(&self) -> bool {
        match self {
            Self::Url => true,
            Self::Away(why) => why == NOT_LET_IN,
        }
    }
}

const NOT_LET_IN: &str = "refuses the user or the password, or wants one and was given none";

/// The pool of connections to Redis. Cloning shares it.
#[derive(Clone)]
pub struct Redis {
    pub address: ServerAddress,
    pool: Pool,
    timeout: Duration,
    resting_until: Arc<Mutex<Option<Instant>>>,
}

impl Redis {
    /// # Errors
    /// The URL cannot be read.
    pub fn new(config: &config::Redis) -> Result<Self, RedisError> {
        let timeout = Duration::from_millis(config.timeout_ms);
        // State lives in database 1 where the URL names none.
        let url = with_database(config.url.expose());
        let info = url.into_connection_info().map_err(|_| RedisError::Url)?;
        let address = ServerAddress::new("Redis", info.addr().to_string(), &config.url, "FIS_REDIS_URL");
        let info = info.set_tcp_settings(TcpSettings::default().set_nodelay(true));
        let connection =
            AsyncConnectionConfig::new().set_connection_timeout(Some(timeout)).set_response_timeout(Some(timeout));
        let manager = Manager::new_with_config(info, connection).map_err(|_| RedisError::Url)?;
        let pool = Pool::builder(manager)
            .max_size(CONNECTIONS_MAX)
            .wait_timeout(Some(timeout))
            .create_timeout(Some(timeout))
            .recycle_timeout(Some(timeout))
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|error| RedisError::Away(format!("cannot be asked: {error}")))?;
        Ok(Self { address, pool, timeout, resting_until: Arc::default() })
    }

    /// Runs a pipeline in one round trip; one reply per command, an error in one does not hide the others.
    ///
    /// # Errors
    /// Redis did not answer in time, or is being left alone after it did not.
    pub async fn run(&self, pipeline: &mut Pipeline) -> Result<Vec<RedisResult<Value>>, RedisError> {
        if let Ok(resting) = self.resting_until.lock()
            && resting.is_some_and(|until| Instant::now() < until)
        {
            return Err(RedisError::Away("is left alone for a moment after a failure".to_owned()));
        }
        let answer = self.ask(pipeline).await;
        if answer.is_err() {
            // A multiplexed connection does not reconnect, and where one fell silent the others have too: each of them would
            // cost a wait of its own.
            self.pool.retain(|_, _| false);
        }
        if let Ok(mut resting) = self.resting_until.lock() {
            *resting = answer.is_err().then(|| Instant::now() + REST);
        }
        answer.map_err(RedisError::Away)
    }

    async fn ask(&self, pipeline: &mut Pipeline) -> Result<Vec<RedisResult<Value>>, String> {
        let deadline = tokio::time::Instant::now() + self.timeout;
        let late = |()| format!("does not answer within {} ms", self.timeout.as_millis());
        let connection = tokio::time::timeout_at(deadline, self.pool.get()).await.map_err(|_| late(()))?;
        let mut connection = connection.map_err(|error| match error {
            PoolError::Backend(error) => error_text(&error),
            PoolError::Timeout(_) => late(()),
            error => error.to_string(),
        })?;
        let answer = tokio::time::timeout_at(deadline, pipeline.ignore_errors().query_async(&mut connection)).await;
        let answer = answer.map_err(|_| late(())).and_then(|answer| answer.map_err(|error| error_text(&error)));
        if answer.is_err() {
            // Given back to nobody.
            drop(deadpool_redis::Connection::take(connection));
        }
        answer
    }

    /// Asks Redis whether it answers and lets us in.
    ///
    /// # Errors
    /// Redis did not answer in time.
    pub async fn ping(&self) -> Result<(), RedisError> {
        match self.run(Pipeline::new().cmd("PING")).await?.into_iter().next() {
            Some(Err(error)) => Err(RedisError::Away(error_text(&error))),
            Some(Ok(_)) | None => Ok(()),
        }
    }
}

/// What an error of the client means, as the predicate of a sentence about Redis.
fn error_text(error: &redis::RedisError) -> String {
    if error.is_connection_refusal() {
        return "refuses connections".to_owned();
    }
    if error.is_timeout() {
        return "does not answer".to_owned();
    }
    if error.is_connection_dropped() {
        return "closed the connection".to_owned();
    }
    match error.kind() {
        redis::ErrorKind::AuthenticationFailed => NOT_LET_IN.to_owned(),
        _ => format!("says: {error}"),
    }
}

fn with_database(url: &str) -> String {
    let (address, query) = url.split_once('?').map_or((url, None), |(address, query)| (address, Some(query)));
    let path = address.splitn(4, '/').nth(3).unwrap_or_default();
    let address = if path.is_empty() { format!("{}/1", address.trim_end_matches('/')) } else { address.to_owned() };
    query.map_or(address.clone(), |query| format!("{address}?{query}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_lives_in_database_one_unless_the_url_says_otherwise() {
        for (url, expected) in [
            ("redis://h:6379", "redis://h:6379/1"),
            ("redis://h:6379/", "redis://h:6379/1"),
            ("redis://h:6379/7", "redis://h:6379/7"),
            ("rediss://u:p@h/?protocol=resp3", "rediss://u:p@h/1?protocol=resp3"),
        ] {
            assert_eq!(with_database(url), expected);
        }
    }
}
