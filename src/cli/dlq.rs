//! `fis dlq list`.

use std::process::ExitCode;

use chrono::{DateTime, Utc};

use super::printable;
use crate::parking::read::{Filter, list};
use crate::platform::config::Config;

#[derive(clap::Subcommand)]
pub enum DlqCommand {
    /// Open dead letters, oldest first
    List(List),
}

#[derive(clap::Args)]
pub struct List {
    #[arg(long)]
    reason: Option<String>,
    #[arg(long)]
    tenant: Option<String>,
    #[arg(long)]
    routing_key: Option<String>,
    /// First seen before this time (RFC 3339)
    #[arg(long)]
    before: Option<DateTime<Utc>>,
    /// First seen at or after this time (RFC 3339)
    #[arg(long)]
    after: Option<DateTime<Utc>>,
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(i64).range(0..=100_000))]
    limit: i64,
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(i64).range(0..))]
    offset: i64,
    #[arg(long)]
    json: bool,
}

impl DlqCommand {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        let Self::List(args) = self;
        let postgres = super::database(config).await?;
        let filter = Filter {
            reason: args.reason,
            tenant: args.tenant,
            routing_key: args.routing_key,
            before: args.before,
            after: args.after,
        };
        let mut db = postgres.pool.acquire().await?;
        let (letters, total) = list(&mut db, &filter, args.limit, args.offset).await?;
        if args.json {
            super::print_json(&serde_json::json!({ "deadLetters": letters, "total": total }))?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut table = super::table(&["id", "tenant", "event", "reason", "detail", "attempts", "first seen"]);
        for letter in &letters {
            table.add_row([
                letter.id.clone(),
                printable(letter.tenant_id.as_deref().unwrap_or("-")),
                printable(letter.event_id.as_deref().unwrap_or("-")),
                letter.reason.clone(),
                printable(&letter.detail),
                letter.attempts.to_string(),
                letter.first_seen_at.format("%Y-%m-%d %H:%M:%S").to_string(),
            ]);
        }
        println!("{table}");
        println!("{} of {total} open dead letters", letters.len());
        Ok(ExitCode::SUCCESS)
    }
}
