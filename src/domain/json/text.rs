//! The reader's strings. A quote and what follows it enter; the text between the quotes leaves, unescaped.
//! What must never happen: half a character (a lone surrogate), or a NUL, which the database cannot store.

use std::borrow::Cow;

use super::error::JsonErrorKind as Kind;
use super::read::{Read, Reader, fail_at};
use super::scan::plain_length;

impl<'a> Reader<'a> {
    /// Reads a string from its opening quote; borrows where nothing had to be unescaped.
    pub(super) fn string(&mut self) -> Read<Cow<'a, str>> {
        self.at += 1;
        let start = self.at;
        self.at += plain_length(self.rest());
        if self.peek() == Some(b'"') {
            self.at += 1;
            return Ok(Cow::Borrowed(self.slice(start, self.at - 1)));
        }
        let mut unescaped = String::from(self.slice(start, self.at));
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => unescaped.push(self.escape()?),
                Some(_) => return Err(self.fail(Kind::ControlCharacter)),
                None => return Err(self.unexpected("the closing quote of a string")),
            }
            let plain = self.at;
            self.at += plain_length(self.rest());
            unescaped.push_str(self.slice(plain, self.at));
        }
        self.at += 1;
        Ok(Cow::Owned(unescaped))
    }

    fn escape(&mut self) -> Read<char> {
        let start = self.at;
        let character = match self.bytes.get(start + 1) {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode_escape(),
            Some(_) | None => return Err(fail_at(start, Kind::BadEscape)),
        };
        self.at += 2;
        Ok(character)
    }

    fn unicode_escape(&mut self) -> Read<char> {
        let start = self.at;
        let first = self.code_unit(start)?;
        self.at += 6;
        let code = match first {
            0xD800..=0xDBFF => {
                if self.bytes.get(self.at..self.at + 2) != Some(b"\\u") {
                    return Err(fail_at(start, Kind::LoneSurrogate));
                }
                let second = self.code_unit(self.at)?;
                if !(0xDC00..=0xDFFF).contains(&second) {
                    return Err(fail_at(start, Kind::LoneSurrogate));
                }
                self.at += 6;
                0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00)
            }
            0 => return Err(fail_at(start, Kind::NulCharacter)),
            single => single,
        };
        // What is left after pairing and is no character is a second half that stands alone.
        char::from_u32(code).ok_or_else(|| fail_at(start, Kind::LoneSurrogate))
    }

    /// The value of the four hex digits of the escape that starts at `escape`.
    fn code_unit(&self, escape: usize) -> Read<u32> {
        let digits = self.bytes.get(escape + 2..escape + 6).unwrap_or_default();
        // Checked by hand: `from_str_radix` would also take a plus sign.
        if digits.len() != 4 {
            return Err(fail_at(escape, Kind::BadEscape));
        }
        digits.iter().try_fold(0, |sum, &digit| match char::from(digit).to_digit(16) {
            Some(value) => Ok(sum * 16 + value),
            None => Err(fail_at(escape, Kind::BadEscape)),
        })
    }
}
