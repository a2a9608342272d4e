//! Text for the terminal and JSON for scripts, alike for all commands. Values enter, shown texts leave. A text that came from outside never
//! drives the terminal.

use std::io::{BufRead, ErrorKind, IsTerminal, Write};

use chrono::{DateTime, Utc};

pub use crate::platform::printable::printable_within;

/// Writes a long text. A reader that has seen enough (`| head`) is no failure.
pub fn print_text(text: &str) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Characters of one value that a list shows.
const SHOWN_MAX: usize = 120;

/// A value from outside, fit for a list.
pub fn printable(text: &str) -> String {
    printable_within(text, SHOWN_MAX)
}

/// The columns of the terminal, or those that `COLUMNS` names; `None`: the text goes to a file or a pipe.
fn terminal_columns() -> Option<usize> {
    let asked = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let found = console::Term::stdout().size_checked().map(|(_, columns)| usize::from(columns));
    found.or(asked).map(|columns: usize| columns.clamp(40, 400))
}

/// The number of columns; files and pipes get a generous line.
pub fn columns() -> usize {
    terminal_columns().unwrap_or(160)
}

/// Breaks a text between words where the line would be too long, and begins the next one below it. A word that is too long for
/// any line is left to the terminal, so that it can be copied.
pub fn hanging(text: &str, indent: usize, width: usize) -> String {
    let (mut broken, mut column) = (String::with_capacity(text.len()), indent);
    for (place, word) in text.split(' ').enumerate() {
        let length = word.chars().count();
        if place > 0 && column + 1 + length >= width {
            broken.push('\n');
            broken.extend(std::iter::repeat_n(' ', indent));
            column = indent;
        } else if place > 0 {
            broken.push(' ');
            column += 1;
        }
        broken.push_str(word);
        column += length;
    }
    broken
}

/// A table as wide as the terminal: words go to the next line of their cell, numbers stay whole.
pub fn table(header: &[&str]) -> comfy_table::Table {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::UTF8_FULL_CONDENSED).set_header(header);
    table.set_content_arrangement(comfy_table::ContentArrangement::Dynamic);
    if let Some(columns) = terminal_columns() {
        table.set_width(u16::try_from(columns).unwrap_or(u16::MAX));
    }
    table
}

/// Aligns columns of numbers to the right, and keeps each number on one line. To be called when the table has its rows.
pub fn numbers(table: &mut comfy_table::Table, columns: std::ops::Range<usize>) {
    for index in columns {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(comfy_table::CellAlignment::Right);
            column.set_constraint(comfy_table::ColumnConstraint::ContentWidth);
        }
    }
}

/// An amount or a count with its digits in groups of three: 8434778.70 is 8,434,778.70.
pub fn grouped(number: &str) -> String {
    let (sign, rest) = number.split_at(usize::from(number.starts_with('-')));
    let whole = rest.split('.').next().unwrap_or_default();
    if !whole.bytes().all(|byte| byte.is_ascii_digit()) {
        return number.to_owned();
    }
    let mut text = sign.to_owned();
    for (index, digit) in whole.char_indices() {
        if index > 0 && (whole.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text.push_str(rest.strip_prefix(whole).unwrap_or_default());
    text
}

/// A good or a bad word in its colour, where the terminal has any and `NO_COLOR` is not set.
pub fn coloured(text: &str, is_good: bool) -> String {
    let styled = console::style(text);
    if is_good { styled.green() } else { styled.red().bold() }.to_string()
}

/// `5s`, `12m`, `3h`, `2d`.
pub fn age(now: DateTime<Utc>, then: DateTime<Utc>) -> String {
    age_text((now - then).num_seconds())
}

pub fn age_text(seconds: i64) -> String {
    let seconds = seconds.max(0);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// An answer for a script, with the names of every object in the order of the alphabet.
pub fn json_text(answer: &impl serde::Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(&serde_json::to_value(answer)?)?)
}

pub fn print_json(answer: &impl serde::Serialize) -> anyhow::Result<()> {
    println!("{}", json_text(answer)?);
    Ok(())
}

pub fn plural(count: i64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// Asks the person at the terminal; `None`: nobody sits there, and nothing was asked.
pub fn ask(question: &str) -> anyhow::Result<Option<bool>> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Ok(None);
    }
    eprint!("{question} [y/N] ");
    std::io::stderr().flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(Some(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")))
}

/// Asks the person at the terminal. Without one the answer is no, and `nobody` is told.
pub fn confirmed(question: &str, nobody: &str, no: &str) -> anyhow::Result<bool> {
    let answer = ask(question)?;
    match answer {
        Some(true) => {}
        Some(false) => eprintln!("fis: {no}"),
        None => super::exit::say("confirmation_needed", nobody),
    }
    Ok(answer == Some(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_come_in_groups_of_three() {
        let pairs = [
            ("8434778.70", "8,434,778.70"),
            ("-1234", "-1,234"),
            ("999.99", "999.99"),
            ("0", "0"),
            ("1000", "1,000"),
            ("?", "?"),
            ("-", "-"),
            ("", ""),
        ];
        for (number, text) in pairs {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn what_is_cut_short_shows_that_it_is() {
        assert_eq!(printable(&"x".repeat(SHOWN_MAX)).chars().count(), SHOWN_MAX);
        assert!(printable(&"x".repeat(SHOWN_MAX + 1)).ends_with("x…"));
    }
}
