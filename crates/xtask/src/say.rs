//! Words for people, on stderr, so that stdout belongs to the command behind `./dev`. Texts enter, lines leave; every way to end
//! `./dev` early is a [`Stop`], and nothing but `main` ends the process.

use std::fmt::Display;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

/// The reasons for which `./dev` ends without having done its work.
#[derive(Debug)]
pub enum Stop {
    /// One sentence about what is wrong.
    Died(String),
    /// The caller's words make no command; the manual follows.
    WrongUsage(String),
    /// A text of several lines that stands for itself.
    Explained(String),
    /// The reason has been told already, by us or by the program behind us; the exit code is left.
    Told(u8),
}

pub type Done<T = ()> = Result<T, Stop>;

/// Results of the standard library, turned into a sentence with what was tried.
pub trait OrDie<T> {
    fn or_die(self, tried: impl Display) -> Done<T>;
}

impl<T, E: Display> OrDie<T> for Result<T, E> {
    fn or_die(self, tried: impl Display) -> Done<T> {
        self.map_err(|error| Stop::Died(format!("{tried}: {error}")))
    }
}

pub fn die<T>(sentence: impl Into<String>) -> Done<T> {
    Err(Stop::Died(sentence.into()))
}

impl Stop {
    /// Tells the reason, and gives the exit code.
    pub fn tell(self, usage: &str) -> ExitCode {
        match self {
            Self::Died(sentence) => {
                say(red(&format!("dev: {sentence}")));
                ExitCode::from(1)
            }
            Self::WrongUsage(sentence) => {
                say(red(&format!("dev: {sentence}")));
                say(format!("\n{}", usage.trim_end()));
                ExitCode::from(2)
            }
            Self::Explained(text) => {
                say(text);
                ExitCode::from(1)
            }
            Self::Told(code) => ExitCode::from(code),
        }
    }
}

/// One line to stderr, in one piece: several threads talk at the same time. At a terminal the line begins where cargo may be
/// drawing its progress, which is wiped first. A reader that has gone away is no error.
pub fn say(line: impl Display) {
    let mut error = std::io::stderr().lock();
    let wipe = if error.is_terminal() { "\r\x1b[K" } else { "" };
    let _ = error.write_all(format!("{wipe}{line}\n").as_bytes());
}

/// Text to stdout: an answer that a program may read. A reader that has gone away (`./dev env | head -1`) is no error.
pub fn answer(text: impl Display) {
    let _ = std::io::stdout().lock().write_all(text.to_string().as_bytes());
}

pub fn bold(text: &str) -> String {
    coloured("\x1b[1m", text)
}

pub fn red(text: &str) -> String {
    coloured("\x1b[31m", text)
}

pub fn dim(text: &str) -> String {
    coloured("\x1b[2m", text)
}

fn coloured(code: &str, text: &str) -> String {
    let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    if wanted && std::io::stderr().is_terminal() { format!("{code}{text}\x1b[0m") } else { text.to_owned() }
}

/// The end of a log, for people.
pub fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines.get(lines.len().saturating_sub(count)..).unwrap_or_default().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_of_a_log_is_shown() {
        assert_eq!(last_lines("a\nb\nc\n", 2), "b\nc");
        assert_eq!(last_lines("a\n", 2), "a");
        assert_eq!(last_lines("", 2), "");
    }
}
