//! The bytes that the broker sends, made readable for lapin before lapin sees them: bytes of frames enter in pieces of any
//! size, bytes of frames leave. RabbitMQ passes on what a stranger put into a message's properties, and lapin loses its connection,
//! or its stack, over some of it: text that is not UTF-8, tables nested without end, properties larger than a frame. The
//! broker would deliver that message again and again, and nothing behind it would ever be taken.
//!
//! | file | what it does |
//! |---|---|
//! | `screen` | follows the lengths of frames, holds back the ones to be looked at, lets bodies through |
//! | `method` | methods that carry a stranger's text |
//! | `header` | a message's properties: followed, and written anew where lapin could not read them |
//! | `field` | one value of a header table, however deep |
//!
//! What must never happen: a body is changed; a frame's bytes are handed out before the frame was looked at; a message that lost
//! a header of its own passes for the message that was sent (it bears [`UNREADABLE_HEADER`], and whoever decodes refuses it).

mod field;
mod header;
mod method;
mod screen;

pub use screen::Screen;

/// The header of a message that lost headers here; its value is the name of an [`Unreadable`]. A publisher that sends it himself
/// has only his own message refused.
pub const UNREADABLE_HEADER: &str = "x-fis-unreadable";

/// The broker's record of why it dead-lettered a message. One that could not be read, or may have been there, is a void under this name: whoever
/// rejects a message must know that it brought one along.
pub const DEATHS_HEADER: &str = "x-death";

/// The reason why headers of a message were left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreadable {
    /// Tables or arrays lie in each other beyond what is taken.
    TooDeep,
    /// The headers do not fit a frame together with what the broker adds, or have so many values that they would fill the memory.
    TooLarge,
    /// The bytes are no properties as lapin reads them.
    Garbled,
}

impl Unreadable {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::TooDeep => "too_deep",
            Self::TooLarge => "too_large",
            Self::Garbled => "garbled",
        }
    }
}

/// A text of the broker's, with `?` for what is not UTF-8.
#[must_use]
pub fn readable(bytes: &[u8]) -> String {
    let mut bytes = bytes.to_vec();
    field::make_utf8(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Tables and arrays in each other. lapin's reader recurses, and properties are stored as JSON, whose reader stops at 128 levels,
/// two for each of these.
const DEPTH_MAX: usize = 32;

/// The bytes of a frame that is not its payload: kind, channel and length before it, and the end mark behind it.
const HEAD_BYTES: usize = 7;
const END_BYTES: usize = 1;
const FRAME_END: u8 = 0xce;

#[cfg(test)]
mod tests;
