//! Just enough of AMQP 0-9-1 to publish what no library would: bytes where text belongs, tables without end, frames that are full.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::world::World;

pub struct Raw {
    stream: TcpStream,
}

impl Raw {
    /// The payload of a frame of 128 KiB, which is the largest that the broker takes.
    pub const HEADER_BYTES_MAX: usize = 128 * 1024 - 8;

    /// Connects, opens a channel and asks for confirms.
    pub async fn open(world: &World) -> Self {
        let address = world.servers.amqp.rsplit('@').next().unwrap().split('/').next().unwrap().to_owned();
        let mut raw = Self { stream: TcpStream::connect(address).await.unwrap() };
        raw.stream.write_all(b"AMQP\x00\x00\x09\x01").await.unwrap();
        raw.expect(10, 10).await;
        let credentials = b"\x00fis_service\x00secret";
        let start_ok = [&[0, 0, 0, 0][..], &short(b"PLAIN"), &long(credentials), &short(b"en_US")].concat();
        raw.method(0, 10, 11, &start_ok).await;
        raw.expect(10, 30).await;
        raw.method(0, 10, 31, &[0, 1, 0, 2, 0, 0, 0, 0]).await;
        raw.method(0, 10, 40, &[&short(world.vhost.as_bytes())[..], &short(b""), &[0]].concat()).await;
        raw.expect(10, 41).await;
        raw.method(1, 20, 10, &short(b"")).await;
        raw.expect(20, 11).await;
        raw.method(1, 85, 10, &[0]).await;
        raw.expect(85, 11).await;
        raw
    }

    /// The payload of a content header with a message id and these headers.
    pub fn header(body_bytes: usize, message_id: &[u8], headers: &[u8]) -> Vec<u8> {
        let size = u64::try_from(body_bytes).unwrap();
        // The flags of the headers and of the message id.
        let flags: u16 = 1 << 13 | 1 << 7;
        let fixed = [&60u16.to_be_bytes()[..], &[0, 0], &size.to_be_bytes(), &flags.to_be_bytes()].concat();
        [&fixed[..], &long(headers), &short(message_id)].concat()
    }

    /// Publishes, and waits for the broker's confirm.
    pub async fn publish(
        &mut self,
        exchange: &str,
        routing_key: &[u8],
        message_id: &[u8],
        headers: &[u8],
        body: &[u8],
    ) {
        self.method(1, 60, 40, &[&[0, 0][..], &short(exchange.as_bytes()), &short(routing_key), &[0]].concat()).await;
        self.frame(2, 1, &Self::header(body.len(), message_id, headers)).await;
        self.frame(3, 1, body).await;
        self.expect(60, 80).await;
    }

    /// Takes the first message of a queue and puts it back: it was delivered once, and its consumer was lost.
    pub async fn give_back(&mut self, queue: &str) {
        self.method(1, 60, 70, &[&[0, 0][..], &short(queue.as_bytes()), &[0]].concat()).await;
        let got = self.expect(60, 71).await;
        self.method(1, 60, 90, &[&got[..8], &[1]].concat()).await;
        // An answer on the same channel comes after it.
        self.method(1, 60, 10, &[0; 7]).await;
        self.expect(60, 11).await;
    }

    async fn frame(&mut self, kind: u8, channel: u16, payload: &[u8]) {
        let size = u32::try_from(payload.len()).unwrap();
        let frame = [&[kind][..], &channel.to_be_bytes(), &size.to_be_bytes(), payload, &[0xce]].concat();
        self.stream.write_all(&frame).await.unwrap();
    }

    async fn method(&mut self, channel: u16, class: u16, method: u16, arguments: &[u8]) {
        self.frame(1, channel, &[&class.to_be_bytes()[..], &method.to_be_bytes(), arguments].concat()).await;
    }

    /// Reads frames until this method comes; its arguments.
    async fn expect(&mut self, class: u16, method: u16) -> Vec<u8> {
        loop {
            let mut head = [0; 7];
            self.stream.read_exact(&mut head).await.unwrap();
            let size = u32::from_be_bytes([head[3], head[4], head[5], head[6]]) as usize;
            let mut rest = vec![0; size + 1];
            self.stream.read_exact(&mut rest).await.unwrap();
            if head[0] == 1 && rest[..2] == class.to_be_bytes() && rest[2..4] == method.to_be_bytes() {
                return rest[4..size].to_vec();
            }
            assert!(head[0] != 1 || rest[..4] != [0, 10, 0, 50] && rest[..4] != [0, 20, 0, 40], "the broker refuses");
        }
    }
}

pub fn short(bytes: &[u8]) -> Vec<u8> {
    [&[u8::try_from(bytes.len()).unwrap()][..], bytes].concat()
}

pub fn long(bytes: &[u8]) -> Vec<u8> {
    [&u32::try_from(bytes.len()).unwrap().to_be_bytes()[..], bytes].concat()
}

/// A value of a header: a long string (`S`), an array (`A`), a table (`F`).
pub fn tagged(tag: u8, bytes: &[u8]) -> Vec<u8> {
    [&[tag][..], &long(bytes)].concat()
}

/// A header.
pub fn entry(name: &[u8], value: &[u8]) -> Vec<u8> {
    [&short(name)[..], value].concat()
}

/// A value within so many arrays.
pub fn nested(depth: usize) -> Vec<u8> {
    let lengths = (0..depth).map(|inside| u32::try_from(inside * 5 + 1).unwrap());
    let heads: Vec<u8> = lengths.rev().flat_map(|length| [&b"A"[..], &length.to_be_bytes()].concat()).collect();
    [&heads[..], b"V"].concat()
}
