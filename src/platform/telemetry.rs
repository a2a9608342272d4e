//! Logs: JSON for machines, text for people, to standard error. Set up once, before anything can go wrong. Whatever a line quotes, an event's text among
//! it, stands in the line printable, in both forms: it cannot begin a line of its own or drive the terminal of whoever reads the log.

use std::fmt;
use std::io::{self, IsTerminal, Write};

use tracing::field::{Field, Visit};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::Writer;

use super::config::{Log, LogFormat};
use super::printable::{is_unfit, printable, printable_json};

/// Refuses a filter that cannot be read, and sets nothing up.
///
/// # Errors
/// The filter cannot be read.
pub fn check(config: &Log) -> Result<(), String> {
    EnvFilter::try_new(&config.filter).map(drop).map_err(|error| error.to_string())
}

/// # Errors
/// The filter cannot be read, or logging was set up before.
pub fn start(config: &Log) -> Result<(), String> {
    let filter = EnvFilter::try_new(&config.filter).map_err(|error| error.to_string())?;
    let human = match config.format {
        LogFormat::Human => true,
        LogFormat::Json => false,
        LogFormat::Auto => io::stderr().is_terminal(),
    };
    let builder = tracing_subscriber::fmt().with_env_filter(filter);
    let started = if human {
        builder
            .with_writer(io::stderr)
            .with_target(false)
            .with_ansi(io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none())
            .fmt_fields(PrintableFields)
            .try_init()
    } else {
        builder.with_writer(|| PrintableLines(io::stderr())).json().flatten_event(true).try_init()
    };
    started.map_err(|error| error.to_string())
}

/// The message and the fields of a line for people. Here, and not on the whole line: its colours are control characters too.
struct PrintableFields;

impl<'w> FormatFields<'w> for PrintableFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut line = PrintableLine { writer, is_begun: false, written: Ok(()) };
        fields.record(&mut line);
        line.written
    }
}

struct PrintableLine<'w> {
    writer: Writer<'w>,
    is_begun: bool,
    written: fmt::Result,
}

impl Visit for PrintableLine<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let gap = if std::mem::replace(&mut self.is_begun, true) { " " } else { "" };
        let value = printable(&format!("{value:?}"));
        let written = match field.name() {
            "message" => write!(self.writer, "{gap}{value}"),
            name => write!(self.writer, "{gap}{name}={value}"),
        };
        self.written = self.written.and(written);
    }
}

/// Lines of JSON on their way out, each in one piece.
struct PrintableLines<W>(W);

impl<W: Write> Write for PrintableLines<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let line = std::str::from_utf8(bytes).ok();
        match line.filter(|line| line.chars().any(|c| is_unfit(c) && c != '\n')) {
            Some(line) => self.0.write_all(printable_json(line).as_bytes())?,
            None => self.0.write_all(bytes)?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
