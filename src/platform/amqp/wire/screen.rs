//! The screen between the socket and lapin: bytes enter in pieces of any size, the same bytes leave in order, except those of a
//! content header that lapin could not read. Methods and content headers are held back until they are whole; bodies and heartbeats
//! are not, and a large body need not even be copied. What must never happen: a length that a stranger chose decides
//! how much memory is taken, or a byte leaves that was not looked at.

use super::{END_BYTES, FRAME_END, HEAD_BYTES, Unreadable, header, method};

const METHOD: u8 = 1;
const HEADER: u8 = 2;
/// "AMQP…": the answer of a server that speaks another version. It is no frame, and the server's last word.
const PROTOCOL_HEADER: u8 = b'A';

/// The bytes that are taken from the socket at once: about what a socket holds under load.
const ROOM_BYTES: usize = 128 * 1024;
/// The longest payload that is held back and looked at. A publisher's properties have at most the broker's `frame_max`, 128 KiB where
/// nobody says otherwise, and the broker's record of deaths may repeat the routing keys in them. What is longer loses
/// all properties.
const HELD_BYTES_MAX: usize = 1024 * 1024;

pub struct Screen {
    buffer: Vec<u8>,
    /// From here to `ready` may be handed out; from there to `end` was not looked at.
    start: usize,
    ready: usize,
    end: usize,
    /// The bytes behind `ready` that need no look.
    pass: u64,
    /// The bytes behind `ready` that nobody gets.
    skip: u64,
    /// The bytes of the frame behind `ready`, where it is not whole.
    wanted: usize,
    /// The largest frame that lapin takes; zero: any.
    frame_bytes_max: u32,
}

impl Screen {
    /// `frame_bytes_max` is what lapin was told; the broker may want less. Zero is no limit.
    #[must_use]
    pub fn new(frame_bytes_max: u32) -> Self {
        Self { buffer: Vec::new(), start: 0, ready: 0, end: 0, pass: 0, skip: 0, wanted: 0, frame_bytes_max }
    }

    /// Hands out as much as is there and fits.
    pub fn take(&mut self, out: &mut [u8]) -> usize {
        let ready = self.buffer.get(self.start..self.ready).unwrap_or_default();
        let count = ready.len().min(out.len());
        if let (Some(from), Some(to)) = (ready.get(..count), out.get_mut(..count)) {
            to.copy_from_slice(from);
        }
        self.start += count;
        count
    }

    /// The bytes that may go from the socket to the reader without a look, because a body is under way; told by [`Self::passed`].
    #[must_use]
    pub fn may_pass(&self) -> usize {
        if self.start == self.end { usize::try_from(self.pass).unwrap_or(usize::MAX) } else { 0 }
    }

    pub fn passed(&mut self, count: usize) {
        self.pass = self.pass.saturating_sub(count as u64);
    }

    /// Room for bytes from the socket, never empty; told by [`Self::filled`]. Only after everything was handed out.
    pub fn room(&mut self) -> &mut [u8] {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.ready -= self.start;
        self.start = 0;
        // A large frame takes more room for once; the next one does not.
        let bytes = ROOM_BYTES.max(self.wanted).max(self.end + 1);
        if self.buffer.len() != bytes {
            self.buffer.resize(bytes, 0);
            self.buffer.shrink_to(bytes);
        }
        self.buffer.get_mut(self.end..).unwrap_or_default()
    }

    pub fn filled(&mut self, count: usize) {
        self.end = (self.end + count).min(self.buffer.len());
        while self.advance() {}
    }

    /// One step; `false`: not without more bytes.
    fn advance(&mut self) -> bool {
        let unseen = self.end - self.ready;
        if self.skip > 0 {
            let count = usize::try_from(self.skip).unwrap_or(usize::MAX).min(unseen);
            self.buffer.copy_within(self.ready + count..self.end, self.ready);
            self.end -= count;
            self.skip -= count as u64;
        } else if self.pass > 0 {
            let count = usize::try_from(self.pass).unwrap_or(usize::MAX).min(unseen);
            self.ready += count;
            self.pass -= count as u64;
        } else {
            return self.look();
        }
        self.ready < self.end
    }

    /// Looks at the frame behind `ready`.
    fn look(&mut self) -> bool {
        let unseen = self.buffer.get_mut(self.ready..self.end).unwrap_or_default();
        if unseen.first() == Some(&PROTOCOL_HEADER) {
            self.pass = u64::MAX;
            return true;
        }
        let Some((head, rest)) = unseen.split_first_chunk_mut::<HEAD_BYTES>() else { return false };
        let [kind, _, _, length @ ..] = *head;
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if kind != METHOD && kind != HEADER || kind == METHOD && length > HELD_BYTES_MAX {
            self.pass = (HEAD_BYTES + END_BYTES) as u64 + length as u64;
            return true;
        }
        let is_held = length <= HELD_BYTES_MAX;
        let (payload_bytes, needed) =
            if is_held { (length, length + END_BYTES) } else { (header::FIXED_BYTES, header::FIXED_BYTES) };
        if rest.len() < needed {
            self.wanted = HEAD_BYTES + needed;
            return false;
        }
        self.wanted = 0;
        let payload = rest.get_mut(..payload_bytes).unwrap_or_default();
        let replaced = match kind {
            METHOD => {
                self.frame_bytes_max = smaller(self.frame_bytes_max, method::screen(payload).unwrap_or(0));
                None
            }
            _ if is_held => header::screen(payload, payload_bytes_max(self.frame_bytes_max)),
            _ => Some(header::bare(payload, Unreadable::TooLarge)),
        };
        match replaced {
            None => self.pass = (HEAD_BYTES + END_BYTES + length) as u64,
            Some(payload) => {
                // The rest of a frame that is too long to be held.
                self.skip = if is_held { 0 } else { (length - payload_bytes + END_BYTES) as u64 };
                self.replace(HEAD_BYTES + needed, &payload);
            }
        }
        true
    }

    /// Puts a frame with this payload in the place of the bytes behind `ready`, and lets it through.
    fn replace(&mut self, bytes: usize, payload: &[u8]) {
        let length = u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes();
        let [kind, first, second] =
            self.buffer.get(self.ready..).and_then(|bytes| bytes.first_chunk().copied()).unwrap_or_default();
        let frame = [&[kind, first, second], &length[..], payload, &[FRAME_END]].concat();
        self.buffer.splice(self.ready..self.ready + bytes, frame.iter().copied());
        self.end = self.end - bytes + frame.len();
        self.ready += frame.len();
    }
}

/// The smaller of two limits, where zero is none.
fn smaller(one: u32, other: u32) -> u32 {
    if one == 0 || other != 0 && other < one { other } else { one }
}

fn payload_bytes_max(frame_bytes_max: u32) -> usize {
    match usize::try_from(frame_bytes_max).unwrap_or(usize::MAX) {
        0 => HELD_BYTES_MAX,
        bytes => bytes.saturating_sub(HEAD_BYTES + END_BYTES),
    }
}
