//! `fis status`.

use std::process::ExitCode;

use crate::desk::Desk;
use crate::platform::config::Config;

#[derive(clap::Args)]
pub struct Status {
    #[arg(long)]
    json: bool,
}

impl Status {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        let status = Desk::open(config).await?.status().await?;
        if self.json {
            super::print_json(&status)?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut table = super::table(&["queue", "ready", "unacked"]);
        for (name, depth) in &status.queues {
            let unacked = depth.unacked.map_or_else(|| "?".to_owned(), |unacked| unacked.to_string());
            table.add_row([name.clone(), depth.ready.to_string(), unacked]);
        }
        println!("{table}");
        println!("entries       {}", status.entries);
        println!("outbox        {} pending, oldest {} s", status.outbox.pending, status.outbox.oldest_seconds);
        println!("held          {}", status.held);
        println!("dead letters  {} open", status.dead_letters.open);
        for (reason, count) in &status.dead_letters.by_reason {
            println!("              {count} {reason}");
        }
        println!("breaker       {}", status.breaker.as_str());
        Ok(ExitCode::SUCCESS)
    }
}
