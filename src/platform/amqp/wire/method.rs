//! Methods that carry a stranger's text: the payload of a method frame enters and its short strings become UTF-8, in place. The
//! broker's largest frame leaves, where the method tells it. What must never happen: a method changes its length.

use super::Unreadable;
use super::field::Cursor;

/// The frame size that the broker proposes, where this is `connection.tune`.
pub(super) fn screen(payload: &mut [u8]) -> Option<u32> {
    // One that cannot be followed is left to lapin, which tells what is wrong with it: methods are the broker's own words.
    follow(&mut Cursor::new(payload)).ok().flatten()
}

fn follow(cursor: &mut Cursor<'_>) -> Result<Option<u32>, Unreadable> {
    let class = u16::from_be_bytes(cursor.number()?);
    let method = u16::from_be_bytes(cursor.number()?);
    // The fixed bytes before the texts, and how many texts there are.
    let (fixed, texts) = match (class, method) {
        (10, 30) => {
            cursor.take(2)?;
            return Ok(Some(u32::from_be_bytes(cursor.number()?)));
        }
        // basic.deliver: the consumer's tag, then the delivery's tag and flag, then exchange and routing key.
        (60, 60) => {
            cursor.short()?;
            (9, 2)
        }
        // basic.get-ok
        (60, 71) => (9, 2),
        // basic.return: code, text, exchange, routing key.
        (60, 50) => (2, 3),
        // connection.close and channel.close: RabbitMQ cuts the text at 255 bytes, be that within a character.
        (10, 50) | (20, 40) => (2, 1),
        _ => return Ok(None),
    };
    cursor.take(fixed)?;
    for _ in 0..texts {
        cursor.short()?;
    }
    Ok(None)
}
