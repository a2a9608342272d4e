//! `fis publish`: the reference for publishers. Persistent, confirmed, mandatory: an event counts as published only when the
//! broker says that it is in a queue.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;

use super::{plural, print_json, printable, printable_within};
use crate::desk::publish::{Published, PublishedEvent, Publishing};
use crate::desk::verdicts::{EventVerdict, LineVerdict};
use crate::platform::config::Config;

/// Characters of a detail that are shown.
const DETAIL_MAX: usize = 300;

#[derive(clap::Args)]
#[command(
    after_help = "Exit 0: every event is confirmed; with --wait also posted, a duplicate or ignored. Exit 1: an event was not published, or with --wait is held, rejected, or not decided before the deadline."
)]
pub struct Publish {
    /// Newline-delimited JSON: {"routingKey", "body", "lane"?, "headers"?} per line; `-` for standard input
    file: PathBuf,
    /// Wait for the verdict on each event and print it; needs the database and a running service
    #[arg(long)]
    wait: bool,
    /// With --wait, stop waiting so many seconds after a confirm
    #[arg(long, value_name = "SECONDS", default_value_t = 60, requires = "wait")]
    deadline: u64,
    /// Print what was confirmed, and the verdicts, as JSON
    #[arg(long)]
    json: bool,
}

/// The answer for a script.
#[derive(serde::Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    published: &'a Published,
    #[serde(skip_serializing_if = "Option::is_none")]
    verdicts: Option<&'a [LineVerdict]>,
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
        if self.wait {
            publishing = publishing.waiting(config, Duration::from_secs(self.deadline)).await?;
        }
        let bar = indicatif::ProgressBar::new_spinner();
        let mut verdicts = Verdicts { kept: Vec::new(), is_kept: self.json, done: true };
        for (number, line) in (1u64..).zip(lines) {
            let line = line?;
            if line.trim().is_empty() {
                continue;
            }
            let event = PublishedEvent::parse(&line).map_err(|error| not_valid(number, &error, &publishing))?;
            if publishing.add(number, event).await? {
                bar.set_message(format!("{} confirmed", publishing.confirmed()));
                bar.tick();
                bar.suspend(|| verdicts.show(publishing.take_verdicts()));
            }
        }
        let (published, last) = publishing.finish().await?;
        bar.finish_and_clear();
        if self.json {
            verdicts.show(last);
            let told = self.wait.then_some(verdicts.kept.as_slice());
            print_json(&Answer { published: &published, verdicts: told })?;
        } else {
            println!("{} published and confirmed", plural(i64::try_from(published.confirmed)?, "event"));
            verdicts.show(last);
            for failed in &published.failed {
                eprintln!("line {}: {}", failed.line, failed.reason);
            }
        }
        Ok(if published.failed.is_empty() && verdicts.done { ExitCode::SUCCESS } else { ExitCode::FAILURE })
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
                    .map_err(|error| anyhow::anyhow!("line {number} is not valid: {error}. Nothing was published."))?;
            }
        }
        Ok(())
    }
}

/// A wrong line of a stream whose lines before it may be published already.
fn not_valid(number: u64, error: &crate::desk::DeskError, publishing: &Publishing) -> anyhow::Error {
    match publishing.confirmed() {
        0 => anyhow::anyhow!("line {number} is not valid: {error}. Nothing was published."),
        confirmed => anyhow::anyhow!(
            "line {number} is not valid: {error}. The first {confirmed} events are published and confirmed, the {} after them were \
             not sent. Correct the line and publish all of it again; this cannot post twice.",
            publishing.unsent()
        ),
    }
}

/// The verdicts as they come: shown, or kept for a script.
struct Verdicts {
    kept: Vec<LineVerdict>,
    is_kept: bool,
    done: bool,
}

impl Verdicts {
    fn show(&mut self, verdicts: Vec<LineVerdict>) {
        self.done &= verdicts.iter().all(|told| told.verdict.is_done());
        if self.is_kept {
            self.kept.extend(verdicts);
            return;
        }
        for told in verdicts {
            let event = printable(told.event_id.as_deref().unwrap_or("(no event id)"));
            println!("line {}: {event} {}", told.line, verdict_text(&told.verdict));
        }
    }
}

fn verdict_text(verdict: &EventVerdict) -> String {
    let shown = |detail: &str| printable_within(detail, DETAIL_MAX);
    match verdict {
        EventVerdict::Posted { entry_id, .. } => format!("posted as {entry_id}"),
        EventVerdict::Duplicate { entry_id, .. } => format!("duplicate of {entry_id}, nothing changed"),
        EventVerdict::Ignored { rule: Some(rule), books_version } => {
            format!("ignored by rule `{}` of version {books_version}", printable(rule))
        }
        EventVerdict::Ignored { rule: None, books_version } => {
            format!("ignored by version {books_version} of the books, in which no rule matches it")
        }
        EventVerdict::Held { reason, detail } => format!("held, {reason}: {}", shown(detail)),
        EventVerdict::Rejected { reason, detail, dead_letter_id } => {
            format!("rejected, {reason}: {} (dead letter {dead_letter_id})", shown(detail))
        }
        EventVerdict::Undecided => {
            "not decided before the deadline; it is safe in its queue, ask later with `fis receipt`".to_owned()
        }
    }
}
