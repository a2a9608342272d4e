//! A body on a terminal: JSON is laid out without changing a digit of it, anything else is shown as hex and text. No byte of
//! it reaches the terminal that could drive it, and a quarter of a megabyte in one line is cut.

use crate::cli::printable_within;
use crate::domain::json::{self, laid_out};

/// Lines of a body that are shown unless all are asked for.
pub const LINES_MAX: usize = 60;

/// The body for a person: at most `lines` lines of at most `width` columns.
pub fn shown(body: &[u8], width: usize, lines: usize) -> String {
    let all: Vec<String> = match std::str::from_utf8(body) {
        Ok(text) if json::parse(text).is_ok() => laid_out(text).lines().map(|line| line.replace('\t', "  ")).collect(),
        Ok(text) if !text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t' | '\r')) => {
            text.lines().map(|line| line.replace('\t', "  ")).collect()
        }
        _ => hex_dump(body),
    };
    let mut text = String::new();
    for line in all.iter().take(lines) {
        text.push_str(&format!("    {}\n", printable_within(line, width.saturating_sub(5))));
    }
    if all.len() > lines {
        text.push_str(&format!("    … {} more lines; --full shows them\n", all.len() - lines));
    }
    text
}

/// Sixteen bytes a line: offset, hex, and what of it is plain ASCII.
fn hex_dump(body: &[u8]) -> Vec<String> {
    let line = |(index, bytes): (usize, &[u8])| {
        let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let text: String = bytes
            .iter()
            .map(|byte| if byte.is_ascii_graphic() || *byte == b' ' { char::from(*byte) } else { '.' })
            .collect();
        format!("{:06x}  {:<47}  {text}", index * 16, hex.join(" "))
    };
    body.chunks(16).enumerate().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_body_is_hex_and_a_long_line_is_cut() {
        let shown_hex = shown(b"\x1b[2Jboo\xff", 80, 60);
        assert!(shown_hex.contains("1b 5b 32 4a 62 6f 6f ff") && shown_hex.contains(".[2Jboo."), "{shown_hex}");
        assert!(!shown_hex.contains('\u{1b}'));
        let long = format!("{{\"note\":\"{}\"}}", "\u{202e}x".repeat(128 * 1024));
        let text = shown(long.as_bytes(), 80, 60);
        assert!(text.len() < 2000 && !text.contains('\u{202e}'), "{} bytes", text.len());
        assert!(shown(b"a\nb\nc", 80, 2).contains("1 more lines"));
    }
}
