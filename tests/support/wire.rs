//! Just enough of AMQP 0-9-1 to publish what no library would: bytes where text belongs, tables without end, frames that are full. Bytes enter and
//! leave; whatever the broker refuses is an error.

use std::io::{Error, ErrorKind, Result};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::tree::{frame, long, short};

/// The payload of a frame of 128 KiB, which is the largest that the broker takes.
pub const HEADER_BYTES_MAX: usize = 128 * 1024 - 8;

/// The properties of a message, as bytes.
#[derive(Debug, Clone, Default)]
pub struct Properties {
    pub content_type: Option<Vec<u8>>,
    /// The inside of the header table.
    pub headers: Vec<u8>,
    /// The milliseconds after which the broker gives the message up.
    pub expiration: Option<Vec<u8>>,
    pub message_id: Vec<u8>,
}

impl Properties {
    /// The payload of a content header with these.
    pub fn header(&self, body_bytes: usize) -> Vec<u8> {
        let size = u64::try_from(body_bytes).unwrap();
        // The flags of the content type, the headers, the delivery mode, the expiration and the message id.
        let optional = u16::from(self.content_type.is_some()) << 15 | u16::from(self.expiration.is_some()) << 8;
        let flags: u16 = optional | 1 << 13 | 1 << 12 | 1 << 7;
        let fixed = [&60u16.to_be_bytes()[..], &[0, 0], &size.to_be_bytes(), &flags.to_be_bytes()].concat();
        let [content_type, expiration] =
            [&self.content_type, &self.expiration].map(|text| text.as_deref().map(short).unwrap_or_default());
        [&fixed[..], &content_type, &long(&self.headers), &[2], &expiration, &short(&self.message_id)].concat()
    }
}

/// A connection with one channel that asks for confirms.
pub struct Wire {
    stream: TcpStream,
}

impl Wire {
    pub async fn open(address: &str, vhost: &str) -> Result<Self> {
        let mut wire = Self { stream: TcpStream::connect(address).await? };
        wire.stream.write_all(b"AMQP\x00\x00\x09\x01").await?;
        wire.expect(10, 10).await?;
        let credentials = b"\x00fis_service\x00secret";
        let start_ok = [&[0, 0, 0, 0][..], &short(b"PLAIN"), &long(credentials), &short(b"en_US")].concat();
        wire.method(0, 10, 11, &start_ok).await?;
        wire.expect(10, 30).await?;
        wire.method(0, 10, 31, &[0, 1, 0, 2, 0, 0, 0, 0]).await?;
        wire.method(0, 10, 40, &[&short(vhost.as_bytes())[..], &short(b""), &[0]].concat()).await?;
        wire.expect(10, 41).await?;
        wire.method(1, 20, 10, &short(b"")).await?;
        wire.expect(20, 11).await?;
        wire.method(1, 85, 10, &[0]).await?;
        wire.expect(85, 11).await?;
        Ok(wire)
    }

    /// Publishes as mandatory, and waits for the broker's word: true where it has confirmed the message and not sent it back.
    pub async fn publish(&mut self, exchange: &str, key: &[u8], properties: &Properties, body: &[u8]) -> Result<bool> {
        self.offer(exchange, key, &properties.header(body.len()), body).await
    }

    /// Publishes with any content header, as `publish` does.
    pub async fn offer(&mut self, exchange: &str, key: &[u8], header: &[u8], body: &[u8]) -> Result<bool> {
        let publish = [&[0, 60, 0, 40, 0, 0][..], &short(exchange.as_bytes()), &short(key), &[1]].concat();
        let mut frames = [frame(1, 1, &publish), frame(2, 1, header)].concat();
        for part in body.chunks(HEADER_BYTES_MAX) {
            frames.extend(frame(3, 1, part));
        }
        // A broker that refuses may close before it has read everything; its words are more than the broken pipe.
        let sent = self.stream.write_all(&frames).await;
        let mut came_back = false;
        loop {
            match self.next_method().await? {
                (60, 50, _) => came_back = true,
                (60, 80, _) => return sent.map(|()| !came_back),
                (60, 120, _) => return Ok(false),
                _ => {}
            }
        }
    }

    /// Takes the first message of a queue and puts it back: it was delivered once, and its consumer was lost.
    pub async fn give_back(&mut self, queue: &str) -> Result<()> {
        self.method(1, 60, 70, &[&[0, 0][..], &short(queue.as_bytes()), &[0]].concat()).await?;
        let got = self.expect(60, 71).await?;
        self.method(1, 60, 90, &[&got[..8], &[1]].concat()).await?;
        // An answer on the same channel comes after it.
        self.method(1, 60, 10, &[0; 7]).await?;
        self.expect(60, 11).await?;
        Ok(())
    }

    async fn method(&mut self, channel: u16, class: u16, method: u16, arguments: &[u8]) -> Result<()> {
        let payload = [&class.to_be_bytes()[..], &method.to_be_bytes(), arguments].concat();
        self.stream.write_all(&frame(1, channel, &payload)).await
    }

    /// Reads frames until this method comes; its arguments.
    async fn expect(&mut self, class: u16, method: u16) -> Result<Vec<u8>> {
        loop {
            let (of, which, arguments) = self.next_method().await?;
            if (of, which) == (class, method) {
                return Ok(arguments);
            }
        }
    }

    /// The next method, past frames of other kinds.
    async fn next_method(&mut self) -> Result<(u16, u16, Vec<u8>)> {
        loop {
            let mut head = [0; 7];
            self.stream.read_exact(&mut head).await?;
            let size = u32::from_be_bytes([head[3], head[4], head[5], head[6]]) as usize;
            let mut rest = vec![0; size + 1];
            self.stream.read_exact(&mut rest).await?;
            if head[0] != 1 {
                continue;
            }
            let number = |at: usize| u16::from_be_bytes([rest[at], rest[at + 1]]);
            match (number(0), number(2)) {
                (10, 50) | (20, 40) => {
                    let why = String::from_utf8_lossy(rest.get(7..size).unwrap_or_default()).into_owned();
                    return Err(Error::new(ErrorKind::ConnectionReset, format!("the broker refuses: {why}")));
                }
                (class, method) => return Ok((class, method, rest[4..size].to_vec())),
            }
        }
    }
}
