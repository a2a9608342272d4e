//! Text from outside, fit to be shown: any text enters, one leaves that neither drives a terminal, nor begins a line of its own, nor turns the order
//! in which a line is read. The command line and the logs both show text through here, so that no event can forge what a person reads.

use std::fmt::Write;

/// Tells whether a character is shown as a code: a control character, a line end, a mark without width, a direction override.
#[must_use]
pub fn is_unfit(c: char) -> bool {
    let is_mark = matches!(
        c,
        '\u{061c}' | '\u{200b}'..='\u{200f}' | '\u{feff}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    is_mark || c.is_control()
}

/// A text from outside, fit to be shown, whole.
#[must_use]
pub fn printable(text: &str) -> String {
    printable_within(text, usize::MAX)
}

/// A text from outside, fit to be shown, at most so many characters of it.
#[must_use]
pub fn printable_within(text: &str, most: usize) -> String {
    let mut shown = String::with_capacity(text.len().min(most));
    for (place, c) in text.chars().enumerate() {
        if place == most {
            shown.push('…');
            break;
        }
        match c {
            c if !is_unfit(c) => shown.push(c),
            c if c.is_control() => shown.extend(c.escape_default()),
            c => shown.extend(c.escape_unicode()),
        }
    }
    shown
}

/// A line of JSON in which every character that is unfit to be shown is written as its escape: to a machine the same line. JSON itself escapes
/// only the oldest control characters.
#[must_use]
pub fn printable_json(line: &str) -> String {
    let mut shown = String::with_capacity(line.len());
    for c in line.chars() {
        // All of them have four digits; a line ends with a line end.
        if is_unfit(c) && c != '\n' {
            let _ = write!(shown, "\\u{:04x}", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_from_outside_drives_no_terminal_and_ends_no_line() {
        assert_eq!(printable("a\u{1b}[31mb\nc\u{202e}d\u{9b}e"), "a\\u{1b}[31mb\\nc\\u{202e}d\\u{9b}e");
        assert_eq!(printable("plain – ünïcödé 漢字"), "plain – ünïcödé 漢字");
    }

    #[test]
    fn a_line_of_json_stays_the_same_line_to_a_machine() {
        let value = serde_json::json!({"m\u{2066}": "a\u{1b}b\nc\u{202e}d\u{9b}e\u{7f}f😀"});
        let line = printable_json(&format!("{value}\n"));
        assert_eq!(serde_json::from_str::<serde_json::Value>(&line).unwrap(), value);
        assert!(line.ends_with('\n') && !line.trim_end().chars().any(is_unfit), "{line}");
    }
}
