//! Redis: an accelerator that may be away, slow, full or wrong without anybody noticing more than a slower service. Every
//! wait is bounded, and after a failure Redis is left alone for a moment instead of paying the wait for each batch.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use deadpool_redis::redis::io::tcp::TcpSettings;
use deadpool_redis::redis::{AsyncConnectionConfig, IntoConnectionInfo, Pipeline, RedisResult, Value};
use deadpool_redis::{Manager, Pool, Runtime};

use super::config;

/// The time that Redis is left alone after a failure: long enough not to slow posting, short enough to come back unnoticed.
const REST: Duration = Duration::from_secs(1);
/// Pipelines are short and the connection is multiplexed.
const CONNECTIONS_MAX: usize = 4;

#[derive(Debug, thiserror::Error)]
pub enum RedisError {
    #[error("setting `redis.url` must be a Redis URL such as redis://host:6379/1")]
    Url,
    #[error("Redis is away: {0}")]
    Away(String),
}

/// The pool of connections to Redis. Cloning shares it.
#[derive(Clone)]
pub struct Redis {
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
            .map_err(|error| RedisError::Away(error.to_string()))?;
        Ok(Self { pool, timeout, resting_until: Arc::default() })
    }

    /// Runs a pipeline in one round trip; one reply per command, an error in one does not hide the others.
    ///
    /// # Errors
    /// Redis did not answer in time, or is being left alone after it did not.
    pub async fn run(&self, pipeline: &mut Pipeline) -> Result<Vec<RedisResult<Value>>, RedisError> {
        if let Ok(resting) = self.resting_until.lock()
            && resting.is_some_and(|until| Instant::now() < until)
        {
            return Err(RedisError::Away("left alone after a failure".to_owned()));
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
        let late = |_| "no answer in time".to_owned();
        let connection = tokio::time::timeout_at(deadline, self.pool.get()).await.map_err(late)?;
        let mut connection = connection.map_err(|error| error.to_string())?;
        let answer = tokio::time::timeout_at(deadline, pipeline.ignore_errors().query_async(&mut connection)).await;
        let answer = answer.map_err(late).and_then(|answer| answer.map_err(|error| error.to_string()));
        if answer.is_err() {
            // Given back to nobody.
            drop(deadpool_redis::Connection::take(connection));
        }
        answer
    }

    /// # Errors
    /// Redis did not answer in time.
    pub async fn ping(&self) -> Result<(), RedisError> {
        self.run(Pipeline::new().cmd("PING")).await.map(|_| ())
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
