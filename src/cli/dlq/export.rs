//! `fis dlq export`: letters whole, one per line. A page at a time, so that a million of them need no memory.

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use super::args::Which;
use super::list::State;
use crate::desk::Desk;
use crate::desk::letters::{WholeLetter, WholePage};
use crate::domain::letter::Resolution;
use crate::platform::config::Config;

#[derive(clap::Args)]
pub struct LettersExport {
    #[command(flatten)]
    which: Which,
    /// Only letters in this state
    #[arg(long, value_enum, default_value_t = State::Open)]
    status: State,
    #[arg(long, value_enum, default_value_t = Format::Ndjson)]
    format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Ndjson,
    Csv,
}

const CSV_HEADER: &str = "id,tenantId,eventId,eventType,routingKey,lane,reason,detail,status,attempts,amount,currency,firstSeenAt,lastSeenAt,resolvedAs,entryId,group,payloadHash,body,bodyHex\r\n";

impl LettersExport {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        let desk = Desk::open(config).await?;
        let filter = self.which.filter(&desk, self.status.scope(), Vec::new()).await?;
        let mut out = std::io::BufWriter::new(std::io::stdout().lock());
        let mut written = if self.format == Format::Csv { out.write_all(CSV_HEADER.as_bytes()) } else { Ok(()) };
        let mut after = None;
        loop {
            let WholePage { letters, next } = desk.export_letters(&filter, after.take()).await?;
            for whole in &letters {
                let line = match self.format {
                    Format::Ndjson => ndjson(whole)?,
                    Format::Csv => csv(whole),
                };
                written = written.and_then(|()| out.write_all(line.as_bytes()));
            }
            if written.is_err() || next.is_none() {
                break;
            }
            after = next;
        }
        match written.and_then(|()| out.flush()) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
            _ => Ok(ExitCode::SUCCESS),
        }
    }
}

/// Through a value, which has its members in alphabetical order.
fn ndjson(whole: &WholeLetter) -> anyhow::Result<String> {
    Ok(format!("{}\n", serde_json::to_value(whole)?))
}

fn csv(whole: &WholeLetter) -> String {
    let letter = &whole.letter;
    let (body, body_hex) = (whole.body.text(), whole.body.hex());
    let (first, last) = (letter.first_seen_at.to_rfc3339(), whole.last_seen_at.to_rfc3339());
    let attempts = letter.attempts.to_string();
    let fields: [&str; 20] = [
        &letter.id,
        letter.tenant_id.as_deref().unwrap_or_default(),
        letter.event_id.as_deref().unwrap_or_default(),
        whole.event_type.as_deref().unwrap_or_default(),
        &letter.routing_key,
        &whole.lane,
        &letter.reason,
        &letter.detail,
        letter.status.as_str(),
        &attempts,
        letter.amount.as_deref().unwrap_or_default(),
        letter.currency.as_deref().unwrap_or_default(),
        &first,
        &last,
        whole.resolved_as.map_or("", Resolution::as_str),
        letter.entry_id.as_deref().unwrap_or_default(),
        &letter.group_id,
        whole.payload_hash.as_deref().unwrap_or_default(),
        body.unwrap_or_default(),
        body_hex.as_deref().unwrap_or_default(),
    ];
    format!("{}\r\n", fields.map(quoted).join(","))
}

/// RFC 4180; and a value that a spreadsheet would take for a formula is made text.
fn quoted(value: &str) -> String {
    let formula =
        value.starts_with(['=', '+', '-', '@', '\t', '\r']) && value.parse::<rust_decimal::Decimal>().is_err();
    let value = if formula { format!("'{value}") } else { value.to_owned() };
    if value.contains(['"', ',', '\n', '\r', '\'']) { format!("\"{}\"", value.replace('"', "\"\"")) } else { value }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn csv_is_quoted_and_never_a_formula() {
        assert_eq!(quoted("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(quoted("=1+1"), "\"'=1+1\"");
        assert_eq!(quoted("-1.50"), "-1.50");
    }
}
