//! The socket under lapin: a plain or TLS connection, made as lapin itself would make it, with the [`Screen`] in what comes in.
//! Nothing of what goes out is touched. What must never happen: lapin reads a byte that did not pass the screen.
//!
//! lapin takes a transport of ours as the socket type of a runtime (`Connection::connector`); so the runtime here is tokio's in
//! everything but that type.

use std::io::{self, IoSlice, Read, Write};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use async_rs::traits::Reactor;
use async_rs::util::RuntimeParts;
use async_rs::{Runtime, Tokio};
use futures::Stream;
use futures::io::{AsyncRead, AsyncWrite};
use lapin::tcp::{AMQPUriTcpExt, AsyncTcpStream};
use lapin::uri::AMQPUri;
use lapin::{Connection, ConnectionProperties};

use super::wire::Screen;

/// A body of which this much is still to come is read past the screen's buffer; a smaller rest is not worth a call of its own.
const PASS_BYTES_MIN: usize = 16 * 1024;

/// Connects and logs in.
pub(super) async fn connect(uri: AMQPUri, properties: ConnectionProperties) -> lapin::Result<Connection> {
    let tokio = Tokio::current();
    let runtime = Runtime::new(RuntimeParts::new(tokio.clone(), Screening(tokio)));
    let open = async move |uri: AMQPUri, _| {
        let socket = dial(&uri).await?;
        let screen = Screen::new(uri.query.frame_max.unwrap_or(0));
        Ok(AsyncTcpStream::Plain(Screened { socket, screen }))
    };
    Connection::connector(uri, runtime, open, properties).await
}

/// Opens a socket, with TLS where the address says so. Certificates are judged by the system's authorities, or by those that `SSL_CERT_FILE`
/// and `SSL_CERT_DIR` name.
pub(super) async fn dial(uri: &AMQPUri) -> io::Result<AsyncTcpStream<<Tokio as Reactor>::TcpStream>> {
    uri.connect_async(&Runtime::new(Tokio::current())).await
}

/// A socket whose incoming bytes pass the screen.
pub struct Screened<S> {
    socket: S,
    screen: Screen,
}

impl<S: AsyncRead + Unpin> AsyncRead for Screened<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut [u8]) -> Poll<io::Result<usize>> {
        let Self { socket, screen } = self.get_mut();
        loop {
            let taken = screen.take(out);
            if taken > 0 || out.is_empty() {
                return Poll::Ready(Ok(taken));
            }
            let may_pass = screen.may_pass();
            if may_pass >= PASS_BYTES_MIN {
                let count = may_pass.min(out.len());
                let read = Pin::new(&mut *socket).poll_read(cx, out.get_mut(..count).unwrap_or_default());
                let passed = ready!(read)?;
                screen.passed(passed);
                return Poll::Ready(Ok(passed));
            }
            match ready!(Pin::new(&mut *socket).poll_read(cx, screen.room()))? {
                // A frame that broke off is of no use to anybody.
                0 => return Poll::Ready(Ok(0)),
                count => screen.filled(count),
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Screened<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().socket).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().socket).poll_write_vectored(cx, slices)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_flush(cx)
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_close(cx)
    }
}

/// tokio's clock, and the type of our sockets. lapin makes none by itself: it asks `connect`, which makes them with tokio.
#[derive(Debug, Clone)]
struct Screening(Tokio);

impl Reactor for Screening {
    type TcpStream = Screened<AsyncTcpStream<<Tokio as Reactor>::TcpStream>>;
    type Sleep = <Tokio as Reactor>::Sleep;

    fn register<H: Read + Write + Send + 'static>(
        &self,
        _: H,
    ) -> io::Result<impl AsyncRead + AsyncWrite + Send + Unpin + 'static> {
        Err::<Self::TcpStream, _>(io::ErrorKind::Unsupported.into())
    }

    fn sleep(&self, duration: Duration) -> Self::Sleep {
        self.0.sleep(duration)
    }

    fn interval(&self, duration: Duration) -> impl Stream<Item = Instant> + Send + 'static {
        self.0.interval(duration)
    }

    fn tcp_connect_addr(&self, _: SocketAddr) -> impl Future<Output = io::Result<Self::TcpStream>> + Send + 'static {
        std::future::ready(Err(io::ErrorKind::Unsupported.into()))
    }
}
