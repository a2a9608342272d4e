//! The wire between fis and one server. Bytes pass, wait, dribble or get lost with their connection, as the storm wants it. fis never
//! reaches a server by another way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How long fis's end of a half-open connection stays; longer than any storm.
const LIMBO: Duration = Duration::from_secs(600);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Pass,
    /// Nothing passes in either direction, nobody is told; what waits passes afterwards, as TCP would send it again.
    Hole,
    /// What fis says arrives; the answers stay away.
    Deaf,
    /// Answers come that many milliseconds late.
    Delay(u64),
    /// Every few chunks nothing moves for a while: what packet loss looks like from above.
    Stutter,
    /// New connections are refused.
    Refuse,
}

/// How the connections of the moment end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    Reset,
    /// The server's end is gone, and fis's end never hears of it.
    HalfOpen,
}

struct Wire {
    target: u16,
    mode: watch::Sender<Mode>,
    /// Grows with every cut.
    cut: watch::Sender<(u64, Cut)>,
    cuts: AtomicU64,
    end: CancellationToken,
}

pub struct Proxy {
    pub port: u16,
    wire: Arc<Wire>,
}

impl Proxy {
    pub async fn open(target: u16) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let wire = Arc::new(Wire {
            target,
            mode: watch::Sender::new(Mode::Pass),
            cut: watch::Sender::new((0, Cut::Reset)),
            cuts: AtomicU64::new(0),
            end: CancellationToken::new(),
        });
        tokio::spawn(accept(listener, Arc::clone(&wire)));
        Ok(Self { port, wire })
    }

    pub fn set(&self, mode: Mode) {
        self.wire.mode.send_replace(mode);
    }

    pub fn reset(&self) {
        self.cut(Cut::Reset);
    }

    pub fn half_open(&self) {
        self.cut(Cut::HalfOpen);
    }

    fn cut(&self, how: Cut) {
        let number = self.wire.cuts.fetch_add(1, Ordering::SeqCst) + 1;
        self.wire.cut.send_replace((number, how));
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.wire.end.cancel();
    }
}

async fn accept(listener: TcpListener, wire: Arc<Wire>) {
    loop {
        let client = tokio::select! {
            accepted = listener.accept() => accepted,
            () = wire.end.cancelled() => return,
        };
        let Ok((client, _)) = client else { continue };
        tokio::spawn(carry(client, Arc::clone(&wire)));
    }
}

async fn carry(mut client: TcpStream, wire: Arc<Wire>) {
    let mut cut = wire.cut.subscribe();
    let _ = client.set_nodelay(true);
    if *wire.mode.borrow() == Mode::Refuse {
        let _ = client.set_zero_linger();
        return;
    }
    let mut mode = wire.mode.subscribe();
    tokio::select! {
        _ = mode.wait_for(|mode| *mode != Mode::Hole) => {}
        _ = cut.changed() => return,
        () = wire.end.cancelled() => return,
    }
    let Ok(mut server) = TcpStream::connect(("127.0.0.1", wire.target)).await else {
        let _ = client.set_zero_linger();
        return;
    };
    let _ = server.set_nodelay(true);
    {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let there = pump(from_client, to_server, wire.mode.subscribe(), false);
        let back = pump(from_server, to_client, wire.mode.subscribe(), true);
        tokio::select! {
            // One side has closed; the other has been told.
            _ = async { tokio::join!(there, back) } => return,
            _ = cut.changed() => {}
            () = wire.end.cancelled() => return,
        }
    }
    let how = cut.borrow().1;
    let _ = server.set_zero_linger();
    drop(server);
    match how {
        Cut::Reset => {
            let _ = client.set_zero_linger();
        }
        Cut::HalfOpen => tokio::select! {
            () = tokio::time::sleep(LIMBO) => {}
            () = wire.end.cancelled() => {}
        },
    }
}

async fn pump(mut from: ReadHalf<'_>, mut to: WriteHalf<'_>, mut mode: watch::Receiver<Mode>, answers: bool) {
    let mut buffer = vec![0; 16 * 1024];
    let mut chunks = 0_u32;
    while let Ok(count) = from.read(&mut buffer).await {
        if count == 0 {
            break;
        }
        let passes = |mode: &Mode| !(*mode == Mode::Hole || (*mode == Mode::Deaf && answers));
        if mode.wait_for(passes).await.is_err() {
            break;
        }
        let now = *mode.borrow();
        chunks = chunks.wrapping_add(1);
        match now {
            Mode::Delay(ms) if answers => tokio::time::sleep(Duration::from_millis(ms)).await,
            Mode::Stutter if chunks.is_multiple_of(7) => tokio::time::sleep(Duration::from_millis(300)).await,
            _ => {}
        }
        if to.write_all(&buffer[..count]).await.is_err() {
            break;
        }
    }
    let _ = to.shutdown().await;
}
