//! `fis publish`: the reference for publishers. Persistent, confirmed, mandatory: an event counts as published only when the
//! broker says that it is in a queue.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;

use crate::desk::publish::{Published, PublishedEvent, Publishing};
use crate::platform::config::Config;

#[derive(clap::Args)]
pub struct Publish {
    /// Newline-delimited JSON: {"routingKey", "body", "lane"?, "headers"?} per line; `-` for standard input
    file: PathBuf,
    #[arg(long)]
    json: bool,
}

impl Publish {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        let lines: Box<dyn Iterator<Item = std::io::Result<String>>> = if self.file.as_os_str() == "-" {
            Box::new(BufReader::new(std::io::stdin()).lines())
        } else {
            self.check_all()?;
            Box::new(self.open()?.lines())
        };
        let mut publishing = Publishing::open(config).await?;
        let bar = indicatif::ProgressBar::new_spinner();
        for (number, line) in (1u64..).zip(lines) {
            let line = line?;
            if line.trim().is_empty() {
                continue;
            }
            let event = PublishedEvent::parse(&line).with_context(|| {
                format!(
                    "line {number} is wrong; {} lines before it are published and confirmed, those since then are not",
                    publishing.confirmed()
                )
            })?;
            if publishing.add(number, event).await? {
                bar.set_message(format!("{} confirmed", publishing.confirmed()));
                bar.tick();
            }
        }
        let published = publishing.finish().await?;
        bar.finish_and_clear();
        self.tell(&published)
    }

    fn open(&self) -> anyhow::Result<BufReader<std::fs::File>> {
        let file = std::fs::File::open(&self.file).with_context(|| format!("cannot read {}", self.file.display()))?;
        Ok(BufReader::new(file))
    }

    /// A file is read twice, so that a mistake in its last line publishes nothing.
    fn check_all(&self) -> anyhow::Result<()> {
        for (number, line) in (1u64..).zip(self.open()?.lines()) {
            let line = line?;
            if !line.trim().is_empty() {
                PublishedEvent::parse(&line)
                    .with_context(|| format!("line {number} is wrong, nothing was published"))?;
            }
        }
        Ok(())
    }

    fn tell(&self, published: &Published) -> anyhow::Result<ExitCode> {
        if self.json {
            super::print_json(published)?;
        } else {
            println!("published and confirmed {} events", published.confirmed);
            for failed in &published.failed {
                eprintln!("line {}: {}", failed.line, failed.reason);
            }
        }
        Ok(if published.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
