//! The inner loop of reading and writing strings. Bytes enter; the length of the harmless beginning leaves.
//! What must never happen: a quote, a backslash or a control character counted as harmless.

/// Bytes looked at in one step: a machine word.
const WORD_BYTES: usize = 8;
const HALF_BYTES: usize = WORD_BYTES / 2;
const ONES: u64 = u64::MAX / 0xFF;
const HIGHS: u64 = ONES << 7;

/// The number of bytes from the start that can be copied as they are: up to the first `"`, `\` or control character.
#[inline]
pub(crate) fn plain_length(bytes: &[u8]) -> usize {
    let (words, rest) = bytes.as_chunks::<WORD_BYTES>();
    for (index, word) in words.iter().enumerate() {
        let found = careful_bytes(u64::from_le_bytes(*word));
        if found != 0 {
            return index * WORD_BYTES + first_byte(found);
        }
    }
    if rest.is_empty() {
        return bytes.len();
    }
    // The last word overlaps bytes that were harmless already, so what it finds lies behind them.
    if let Some(last) = bytes.last_chunk::<WORD_BYTES>() {
        let found = careful_bytes(u64::from_le_bytes(*last));
        return if found == 0 { bytes.len() } else { bytes.len() - WORD_BYTES + first_byte(found) };
    }
    // Half words for the short names most members have; where they find something, the bytes tell what comes first.
    if let (Some(first), Some(last)) = (bytes.first_chunk::<HALF_BYTES>(), bytes.last_chunk::<HALF_BYTES>()) {
        let both = u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last));
        if careful_bytes(both) == 0 {
            return bytes.len();
        }
    }
    bytes.iter().position(|&byte| needs_care(byte)).unwrap_or(bytes.len())
}

fn first_byte(found: u64) -> usize {
    found.trailing_zeros() as usize / 8
}

fn needs_care(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// Marks the high bit of bytes that need care. Subtraction borrows only upwards, so the lowest mark, the one
/// that is used, is never wrong; and `!word` clears the marks of bytes of 0x80 and above.
fn careful_bytes(word: u64) -> u64 {
    let equals = |byte: u8| {
        let difference = word ^ (ONES * u64::from(byte));
        difference.wrapping_sub(ONES) & !difference
    };
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    (control | equals(b'"') | equals(b'\\')) & HIGHS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_step_agrees_with_the_byte_step() {
        for byte in 0..=255_u8 {
            for neighbour in [0x00, 0x1F, 0x20, 0x21, b'"', b'#', b'[', b'\\', b']', 0x7F, 0x80, 0xA2, 0xDC, 0xFF] {
                for (length, place) in (1..20).flat_map(|length| (0..length).map(move |place| (length, place))) {
                    let mut bytes = vec![neighbour; length];
                    bytes[place] = byte;
                    let expected = bytes.iter().position(|&b| needs_care(b)).unwrap_or(length);
                    assert_eq!(plain_length(&bytes), expected, "{byte} among {length} of {neighbour} at {place}");
                }
            }
        }
    }
}
