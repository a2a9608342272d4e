//! One value of a header table: the bytes of a payload and a place enter, the place behind the value leaves. Names in tables are
//! made UTF-8 on the way. What must never happen: a step beyond the end of the table that the value is in, or a depth of our own
//! stack that a stranger chooses.

use std::ops::Range;

use super::{DEPTH_MAX, Unreadable};

/// A place in a payload, and the end that no step may pass.
pub(super) struct Cursor<'b> {
    pub(super) bytes: &'b mut [u8],
    pub(super) at: usize,
    pub(super) end: usize,
    /// The values that were stepped over.
    pub(super) values: usize,
}

impl<'b> Cursor<'b> {
    pub(super) fn new(bytes: &'b mut [u8]) -> Self {
        let all = 0..bytes.len();
        Self::within(bytes, all)
    }

    pub(super) fn within(bytes: &'b mut [u8], part: Range<usize>) -> Self {
        Self { bytes, at: part.start, end: part.end, values: 0 }
    }

    pub(super) fn take(&mut self, count: usize) -> Result<Range<usize>, Unreadable> {
        let to = self.at.checked_add(count).filter(|to| *to <= self.end).ok_or(Unreadable::Garbled)?;
        let from = std::mem::replace(&mut self.at, to);
        Ok(from..to)
    }

    pub(super) fn number<const N: usize>(&mut self) -> Result<[u8; N], Unreadable> {
        let range = self.take(N)?;
        self.bytes.get(range).and_then(|bytes| bytes.first_chunk().copied()).ok_or(Unreadable::Garbled)
    }

    /// The length in front of a long string, an array or a table.
    pub(super) fn length(&mut self) -> Result<usize, Unreadable> {
        usize::try_from(u32::from_be_bytes(self.number()?)).map_err(|_| Unreadable::Garbled)
    }

    /// A short string as it is.
    pub(super) fn raw_short(&mut self) -> Result<Range<usize>, Unreadable> {
        let [length] = self.number()?;
        self.take(usize::from(length))
    }

    /// A short string, made UTF-8.
    pub(super) fn short(&mut self) -> Result<Range<usize>, Unreadable> {
        let range = self.raw_short()?;
        if let Some(text) = self.bytes.get_mut(range.clone()) {
            make_utf8(text);
        }
        Ok(range)
    }

    /// A tag and the value behind it. After an error the place means nothing.
    pub(super) fn value(&mut self) -> Result<(), Unreadable> {
        let Some(named) = self.plain()? else { return Ok(()) };
        // For each table or array around the present value: where the one around it ends, and whether its values have names.
        let mut around = [(0, false); DEPTH_MAX];
        let mut depth = 0;
        let mut entered = Some(named);
        loop {
            if let Some(named) = entered {
                let length = self.length()?;
                let inside = self.at.checked_add(length).filter(|end| *end <= self.end).ok_or(Unreadable::Garbled)?;
                *around.get_mut(depth).ok_or(Unreadable::TooDeep)? = (self.end, named);
                depth += 1;
                self.end = inside;
            }
            let named = loop {
                let Some((end, named)) = depth.checked_sub(1).and_then(|inner| around.get(inner)) else {
                    return Ok(());
                };
                if self.at < self.end {
                    break *named;
                }
                self.end = *end;
                depth -= 1;
            };
            if named {
                self.short()?;
            }
            entered = self.plain()?;
        }
    }

    /// Steps over a tag, and over its value where that holds no other values; else tells whether those have names.
    fn plain(&mut self) -> Result<Option<bool>, Unreadable> {
        let [tag] = self.number()?;
        self.values += 1;
        let count = match tag {
            b'A' => return Ok(Some(false)),
            b'F' => return Ok(Some(true)),
            b'V' => 0,
            b't' | b'b' | b'B' => 1,
            b's' | b'U' | b'u' => 2,
            b'I' | b'i' | b'f' => 4,
            b'D' => 5,
            b'L' | b'l' | b'd' | b'T' => 8,
            b'S' | b'x' => self.length()?,
            _ => return Err(Unreadable::Garbled),
        };
        self.take(count)?;
        Ok(None)
    }
}

/// Overwrites what is not UTF-8 with `?`: no byte more or less.
pub(super) fn make_utf8(mut text: &mut [u8]) {
    while let Err(error) = std::str::from_utf8(text) {
        let Some(bad) = text.get_mut(error.valid_up_to()..) else { return };
        let count = error.error_len().unwrap_or(bad.len()).min(bad.len());
        let (bad, rest) = bad.split_at_mut(count);
        bad.fill(b'?');
        text = rest;
    }
}
