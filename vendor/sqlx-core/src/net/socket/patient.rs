//! Changed here, see CHANGE.md: a peer whose answer does not come is found out, also where something in between acknowledges its
//! bytes.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::Sleep;

use super::Socket;
use crate::io::ReadBuf;

/// In milliseconds; 0 is for ever.
static ANSWER_MS: AtomicU64 = AtomicU64::new(0);

/// From now on, in this process, a read that has waited for so long fails, and so does every one behind it.
pub fn answer_within(limit: Duration) {
    ANSWER_MS.store(limit.as_millis().try_into().unwrap_or(u64::MAX), Ordering::Relaxed);
}

pub struct Patient {
    stream: TcpStream,
    waits: Option<Pin<Box<Sleep>>>,
    is_given_up: bool,
}

impl Patient {
    pub fn new(stream: TcpStream) -> Self {
        Self { stream, waits: None, is_given_up: false }
    }
}

impl Socket for Patient {
    fn try_read(&mut self, mut buf: &mut dyn ReadBuf) -> io::Result<usize> {
        let read = self.stream.try_read_buf(&mut buf)?;
        self.waits = None;
        Ok(read)
    }

    fn try_write(&mut self, buf: &[u8]) -> io::Result<usize> {
        // A new question: the wait for the answer begins anew.
        self.waits = None;
        self.stream.try_write(buf)
    }

    fn poll_read_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Poll::Ready(ready) = self.stream.poll_read_ready(cx) {
            return Poll::Ready(ready);
        }
        let limit = ANSWER_MS.load(Ordering::Relaxed);
        if limit > 0 && !self.is_given_up {
            let waits = self.waits.get_or_insert_with(|| Box::pin(tokio::time::sleep(Duration::from_millis(limit))));
            self.is_given_up = waits.as_mut().poll(cx).is_ready();
        }
        if self.is_given_up {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the server does not answer")));
        }
        Poll::Pending
    }

    fn poll_write_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.poll_write_ready(cx)
    }

    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        tokio::io::AsyncWrite::poll_shutdown(Pin::new(&mut self.stream), cx)
    }
}
