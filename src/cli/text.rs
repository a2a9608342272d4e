//! Text for the terminal and JSON for scripts, alike for all commands. Values enter, shown texts leave. A text that came from outside never
//! drives the terminal.

use std::io::{BufRead, ErrorKind, IsTerminal, Write};

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

pub fn table(header: &[&str]) -> comfy_table::Table {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::UTF8_FULL_CONDENSED).set_header(header);
    table
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
        None => eprintln!("fis: {nobody}"),
    }
    Ok(answer == Some(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_short_shows_that_it_is() {
        assert_eq!(printable(&"x".repeat(SHOWN_MAX)).chars().count(), SHOWN_MAX);
        assert!(printable(&"x".repeat(SHOWN_MAX + 1)).ends_with("x…"));
    }
}
