//! `fis dlq export`: letters whole, one per line. A page at a time, so that a million of them need no memory.

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use serde_json::json;

use super::args::Which;
use super::list::State;
use crate::domain::letter::Resolution;
use crate::platform::config::Config;
use crate::store::dead_letters::{Whole, whole_page};

/// Letters per page; a body may have 256 KiB.
const PAGE: i64 = 200;

#[derive(clap::Args)]
pub struct Export {
    #[command(flatten)]
    which: Which,
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

impl Export {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        let postgres = crate::cli::database(config).await?;
        let filter = self.which.filter(self.status.scope(), Vec::new());
        let mut db = postgres.pool.acquire().await?;
        let mut out = std::io::BufWriter::new(std::io::stdout().lock());
        let mut written = if self.format == Format::Csv { out.write_all(CSV_HEADER.as_bytes()) } else { Ok(()) };
        let mut after = None;
        loop {
            let page = whole_page(&mut db, &filter, after.take(), PAGE).await?;
            for whole in &page {
                let line = match self.format {
                    Format::Ndjson => ndjson(whole),
                    Format::Csv => csv(whole),
                };
                written = written.and_then(|()| out.write_all(line.as_bytes()));
            }
            let last = page.last().map(|whole| (whole.letter.first_seen_at, whole.letter.id.clone()));
            if written.is_err() || last.is_none() {
                break;
            }
            after = last;
        }
        match written.and_then(|()| out.flush()) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
            _ => Ok(ExitCode::SUCCESS),
        }
    }
}

fn bodies(whole: &Whole) -> (Option<&str>, Option<String>) {
    match std::str::from_utf8(&whole.body) {
        Ok(text) => (Some(text), None),
        Err(_) => (None, Some(hex::encode(&whole.body))),
    }
}

fn ndjson(whole: &Whole) -> String {
    let letter = &whole.letter;
    let (body, body_hex) = bodies(whole);
    let line = json!({
        "id": letter.id, "tenantId": letter.tenant_id, "eventId": letter.event_id, "eventType": whole.event_type,
        "routingKey": letter.routing_key, "lane": whole.lane, "reason": letter.reason, "detail": letter.detail,
        "status": letter.status, "attempts": letter.attempts, "amount": letter.amount, "currency": letter.currency,
        "firstSeenAt": letter.first_seen_at, "lastSeenAt": whole.last_seen_at, "resolvedAs": whole.resolved_as,
        "entryId": letter.entry_id, "group": letter.group_id, "payloadHash": whole.payload_hash,
        "properties": serde_json::from_str::<serde_json::Value>(&whole.properties).ok(), "body": body, "bodyHex": body_hex,
    });
    format!("{line}\n")
}

fn csv(whole: &Whole) -> String {
    let letter = &whole.letter;
    let (body, body_hex) = bodies(whole);
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
        whole.resolved_as.map(Resolution::as_str).unwrap_or_default(),
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
