//! lapin's connection together with the handles of its channels. Channels enter and leave; none is closed by being dropped.
//!
//! lapin 4.12 can lose the answer to a connection's close where a channel was dropped right before it: the channel's own close then fails
//! on a connection that is closing, lapin takes that for an error of the connection, and the goodbye is sent by nobody and answered by
//! nobody. So every handle is kept here until its channel is closed, or the connection is.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::within;

/// The time for a goodbye. The broker answers in a millisecond; one that does not is not worth a longer stop.
const GOODBYE: Duration = Duration::from_secs(1);
/// The interval at which a goodbye looks whether lapin has given the connection up.
const GIVEN_UP: Duration = Duration::from_millis(5);

pub struct Link {
    inner: lapin::Connection,
    channels: Mutex<Vec<Arc<lapin::Channel>>>,
}

impl Link {
    pub fn new(inner: lapin::Connection) -> Self {
        Self { inner, channels: Mutex::default() }
    }

    pub fn status(&self) -> &lapin::ConnectionStatus {
        self.inner.status()
    }

    /// Opens a channel. Those that nobody uses any more are closed first, so that a long-lived connection does not gather them.
    pub async fn channel(&self) -> lapin::Result<Arc<lapin::Channel>> {
        for unused in self.unused().into_iter().filter(|channel| channel.status().connected()) {
            if let Err(error) = unused.close(200, "unused".into()).await {
                tracing::debug!(%error, "a channel did not close cleanly");
            }
        }
        let channel = Arc::new(self.inner.create_channel().await?);
        self.kept().push(Arc::clone(&channel));
        Ok(channel)
    }

    /// Says goodbye, and lets the channels go after it.
    pub async fn close(&self) {
        let status = self.inner.status();
        let given_up = async {
            while !status.errored() && !status.closed() {
                tokio::time::sleep(GIVEN_UP).await;
            }
        };
        let goodbye = async {
            tokio::select! {
                biased;
                answer = self.inner.close(200, "bye".into()) => answer,
                () = given_up => Ok(()),
            }
        };
        if let Err(error) = within(GOODBYE, "close", goodbye).await {
            tracing::debug!(%error, "the broker did not say goodbye");
        }
        self.kept().clear();
    }

    /// Takes out the channels that only this link still knows.
    fn unused(&self) -> Vec<Arc<lapin::Channel>> {
        let mut kept = self.kept();
        let (used, unused) = kept.drain(..).partition(|channel| Arc::strong_count(channel) > 1);
        *kept = used;
        unused
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Vec<Arc<lapin::Channel>>> {
        self.channels.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
