//! `fis feed tail`.

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use serde_json::Value;

use super::super::text::{columns, grouped, hanging};
use super::super::{TenantArg, WrongUsage, printable};
use super::offset;
use crate::desk::feed::{self, Announcement, LAST_MAX, Offset, TailFeed};
use crate::platform::config::Config;

#[derive(clap::Args)]
pub struct Tail {
    /// Where to begin: first, last, next, an offset, or a time such as 2026-02-25T10:00:00Z (from the chunk written then)
    #[arg(long, default_value = "next", value_parser = offset)]
    from: Offset,
    #[command(flatten)]
    tenant: TenantArg,
    /// Stop after so many events; with `--from last`, show the last so many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// Stop at the end of the stream, instead of waiting for more
    #[arg(long)]
    once: bool,
    /// One JSON object per line: {"offset", "routingKey", "event"}
    #[arg(long)]
    json: bool,
}

impl Tail {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        if matches!(self.from, Offset::Last) && self.limit.is_some_and(|limit| limit > LAST_MAX) {
            return Err(WrongUsage(format!("--from last shows at most the last {LAST_MAX} events")).into());
        }
        let request =
            TailFeed { from: self.from, tenant: self.tenant.only_named()?, limit: self.limit, once: self.once };
        let mut tail = feed::Tail::open(config, request).await?;
        tokio::select! {
            shown = show(&mut tail, self.json) => shown?,
            // Reading a stream holds nothing that could be lost.
            stopped = tokio::signal::ctrl_c() => stopped?,
        }
        tail.close().await;
        Ok(ExitCode::SUCCESS)
    }
}

async fn show(tail: &mut feed::Tail, json: bool) -> anyhow::Result<()> {
    while let Some(event) = tail.next().await? {
        let line = if json { serde_json::to_string(&event)? + "\n" } else { as_text(&event, columns()) };
        if !print_line(&line)? {
            break;
        }
    }
    Ok(())
}

/// False: the reader has seen enough (`| head`).
fn print_line(line: &str) -> anyhow::Result<bool> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        written => Ok(written.map(|()| true)?),
    }
}

/// One line, or two where the terminal has no room for it.
fn as_text(announcement: &Announcement, width: usize) -> String {
    let event: Value = serde_json::from_slice(&announcement.body).unwrap_or_default();
    let text = |pointer: &str| match event.pointer(pointer) {
        Some(Value::String(text)) => printable(text),
        Some(Value::Number(number)) => number.to_string(),
        _ => "-".to_owned(),
    };
    let kind = printable(&announcement.routing_key);
    let time: String = text("/time").chars().take(19).collect();
    let (sequence, what) = match kind.as_str() {
        "fis.journal.posted" | "fis.journal.reverted" => {
            let hash: String = text("/data/hash").chars().take(12).collect();
            let (event_id, date, amounts) = (text("/data/eventId"), text("/data/accountingDate"), amounts(&event));
            (text("/data/sequence"), format!("{event_id}  {amounts}  {date}  {hash}"))
        }
        "fis.event.rejected" => {
            let (event_id, reason, letter) = (text("/data/eventId"), text("/data/reason"), text("/data/deadLetterId"));
            ("-".to_owned(), format!("{event_id}  {reason}  {letter}"))
        }
        "fis.batch.completed" => {
            let (batch, posted, rejected) = (text("/data/batchId"), text("/data/posted"), text("/data/rejected"));
            ("-".to_owned(), format!("{batch}  {posted} posted, {rejected} rejected"))
        }
        _ => ("-".to_owned(), "not an event of fis".to_owned()),
    };
    let (offset, tenant) = (announcement.offset, text("/data/tenantId"));
    let line = format!("{offset:>8}  {time}  {tenant:<12}  {sequence:>8}  {kind:<20}");
    let fits = line.chars().count() + 2 + what.chars().count() <= width;
    if fits {
        return format!("{line}  {what}\n");
    }
    format!("{}\n          {}\n", line.trim_end(), hanging(&what, 10, width))
}

/// What was debited, one sum for each currency.
fn amounts(event: &Value) -> String {
    let mut sums: Vec<(String, rust_decimal::Decimal)> = Vec::new();
    let lines = event.pointer("/data/lines").and_then(Value::as_array);
    for line in lines.into_iter().flatten().filter(|line| line["side"] == "debit") {
        let currency = printable(line["currency"].as_str().unwrap_or("?"));
        let amount = line["amount"].as_str().and_then(|text| rust_decimal::Decimal::from_str_exact(text).ok());
        let Some(amount) = amount else { return "?".to_owned() };
        match sums.iter_mut().find(|(known, _)| *known == currency) {
            Some((_, sum)) => match sum.checked_add(amount) {
                Some(total) => *sum = total,
                None => return "?".to_owned(),
            },
            None => sums.push((currency, amount)),
        }
    }
    let sums: Vec<String> =
        sums.iter().map(|(currency, sum)| format!("{} {currency}", grouped(&sum.to_string()))).collect();
    sums.join(" + ")
}
