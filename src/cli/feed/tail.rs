//! `fis feed tail`.

use std::fmt::Write as _;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::super::{printable, tenant};
use super::offset;
use super::walk::Walk;
use crate::domain::ids::TenantId;
use crate::platform::amqp::{Connection, Delivery, Offset};
use crate::platform::config::Config;

#[derive(clap::Args)]
pub struct Tail {
    /// Where to begin: first, last, next, an offset, or a time such as 2026-02-25T10:00:00Z (from the chunk written then)
    #[arg(long, default_value = "next", value_parser = offset)]
    from: Offset,
    /// Only this tenant
    #[arg(long, value_parser = tenant)]
    tenant: Option<TenantId>,
    /// Stop after so many events
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// Stop at the end of what is there, instead of waiting for more
    #[arg(long)]
    once: bool,
    /// One JSON object per line: {"offset", "routingKey", "event"}
    #[arg(long)]
    json: bool,
}

impl Tail {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        let connection = Connection::open(&config.amqp, "fis feed tail").await?;
        let walk = if self.once {
            Walk::to_the_end(&connection, self.from).await?
        } else {
            Some(Walk::for_ever(&connection, self.from).await?)
        };
        if let Some(walk) = walk {
            tokio::select! {
                shown = self.show(walk) => shown?,
                // Reading a stream holds nothing that could be lost.
                stopped = tokio::signal::ctrl_c() => stopped?,
            }
        }
        connection.close().await;
        Ok(ExitCode::SUCCESS)
    }

    async fn show(&self, mut walk: Walk) -> anyhow::Result<()> {
        let mut shown = 0;
        while let Some((offset, delivery)) = walk.next().await? {
            let of = delivery.properties.header("x-fis-tenant");
            if self.tenant.as_ref().is_some_and(|tenant| of != Some(tenant.as_str())) {
                continue;
            }
            let line = if self.json { as_json(offset, &delivery)? } else { as_text(offset, &delivery) };
            shown += 1;
            if !print_line(&line)? || self.limit == Some(shown) {
                break;
            }
        }
        Ok(())
    }
}

/// False: the reader has seen enough (`| head`).
fn print_line(line: &str) -> anyhow::Result<bool> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        written => Ok(written.map(|()| true)?),
    }
}

/// The event as it is, or its bytes as text where they are no JSON.
fn as_json(offset: u64, delivery: &Delivery) -> anyhow::Result<String> {
    #[derive(serde::Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Line<'a> {
        offset: u64,
        routing_key: &'a str,
        event: Box<RawValue>,
    }
    let body = String::from_utf8_lossy(&delivery.body);
    // JSON may have line ends of its own, and a line is one event.
    let event = match serde_json::from_str::<Box<RawValue>>(&body) {
        Ok(event) if !event.get().contains(['\n', '\r']) => event,
        _ => serde_json::value::to_raw_value(&body)?,
    };
    let routing_key = delivery.properties.kind().unwrap_or(&delivery.routing_key);
    Ok(serde_json::to_string(&Line { offset, routing_key, event })? + "\n")
}

fn as_text(offset: u64, delivery: &Delivery) -> String {
    let event: Value = serde_json::from_slice(&delivery.body).unwrap_or_else(|_| json!({}));
    let text = |pointer: &str| match event.pointer(pointer) {
        Some(Value::String(text)) => printable(text),
        Some(Value::Number(number)) => number.to_string(),
        _ => "-".to_owned(),
    };
    let kind = printable(delivery.properties.kind().unwrap_or(&delivery.routing_key));
    let time: String = text("/time").chars().take(19).collect();
    let mut line = format!("{offset:>8}  {time}  {:<12}  ", text("/data/tenantId"));
    // Writing into a text cannot fail.
    let _ = match kind.as_str() {
        "fis.journal.posted" | "fis.journal.reverted" => {
            let hash: String = text("/data/hash").chars().take(12).collect();
            let (sequence, event_id, date) =
                (text("/data/sequence"), text("/data/eventId"), text("/data/accountingDate"));
            let amounts = amounts(&event);
            writeln!(line, "{sequence:>8}  {kind:<20}  {event_id}  {amounts}  {date}  {hash}")
        }
        "fis.event.rejected" => {
            let (event_id, reason) = (text("/data/eventId"), text("/data/reason"));
            writeln!(line, "{:>8}  {kind:<20}  {event_id}  {reason}  {}", "-", text("/data/deadLetterId"))
        }
        "fis.batch.completed" => {
            let (batch, posted, rejected) = (text("/data/batchId"), text("/data/posted"), text("/data/rejected"));
            writeln!(line, "{:>8}  {kind:<20}  {batch}  {posted} posted, {rejected} rejected", "-")
        }
        _ => writeln!(line, "{:>8}  {kind:<20}  not an event of fis", "-"),
    };
    line
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
    let sums: Vec<String> = sums.iter().map(|(currency, sum)| format!("{sum} {currency}")).collect();
    sums.join(" + ")
}
