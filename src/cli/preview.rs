//! `fis preview`: what would become of events, without booking anything. With `--books` it needs no server.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;

use super::lines::{ShownLine, lines_table};
use super::{WrongUsage, parse_tenant, printable, printable_within};
use crate::desk::DeskError;
use crate::desk::preview::{
    Preview as Previewed, PreviewOutcome, PreviewRequest, PreviewedEntry, PreviewedFailure, PreviewedLine, preview,
};
use crate::platform::config::Config;

/// Characters of a detail that are shown.
const DETAIL_MAX: usize = 300;

#[derive(clap::Args)]
#[command(
    after_help = "Exit 0: every event would be posted, reversed or ignored. Exit 1: one would be held or rejected."
)]
pub struct Preview {
    /// The lines that `fis publish` takes, or an event's body; `-` for standard input
    file: PathBuf,
    /// The tenant of an event that does not name one
    #[arg(long)]
    tenant: Option<String>,
    /// The routing key of a body; also its type if the body names none
    #[arg(long)]
    routing_key: Option<String>,
    /// Use this file of books instead of the applied books; needs no server
    #[arg(long, value_name = "FILE")]
    books: Option<PathBuf>,
    /// Print the outcome as JSON; for several events, a list
    #[arg(long)]
    json: bool,
}

impl Preview {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        let input = read(&self.file)?;
        let tenant = self.tenant.as_deref().map(parse_tenant).transpose()?;
        let source =
            |file: &PathBuf| std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()));
        let books = self.books.as_ref().map(source).transpose()?;
        let routing_key = self.routing_key.as_deref();
        let request = PreviewRequest { input: &input, tenant, routing_key, books: books.as_deref() };
        let told = match preview(config, &request).await {
            Err(DeskError::Member { member, why }) => return Err(WrongUsage(format!("--{member} {why}")).into()),
            Err(error @ DeskError::Mistakes { .. }) => Err(error).context("run `fis books check` on the file")?,
            told => told?,
        };
        match told.as_slice() {
            [one] if self.json => super::print_json(&one.preview)?,
            many if self.json => super::print_json(&many)?,
            [one] => print_one(&one.preview),
            many => print_many(many),
        }
        let succeeds = told.iter().all(|line| line.preview.succeeds());
        Ok(if succeeds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    let mut body = Vec::new();
    if file.as_os_str() == "-" {
        std::io::stdin().read_to_end(&mut body)?;
    } else {
        body = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    }
    Ok(body)
}

/// One event: the verdict, its lines or what to do, and what was read.
fn print_one(preview: &Previewed) {
    println!("{}", verdict(preview));
    match &preview.outcome {
        PreviewOutcome::Posted(entry) => print_entry(entry),
        PreviewOutcome::Held(failure) | PreviewOutcome::Rejected(failure) => {
            println!("  what to do       {}", failure.advice);
        }
        PreviewOutcome::Reverted { .. } | PreviewOutcome::Ignored { .. } => {}
    }
    if let Some(event) = &preview.event {
        println!("  event            {} of {}", printable(&event.event_id), event.tenant_id);
        println!("  type             {}", printable(&event.event_type));
        println!("  written as       {}", event.dialect.replace('_', " "));
        println!("  payload hash\n    {}", event.payload_hash);
        if let Some(version) = event.books_version.filter(|version| *version > 0) {
            println!("  books            version {version}");
        }
    }
}

fn print_entry(entry: &PreviewedEntry) {
    let lines = entry.lines.iter().map(|line| ShownLine {
        account: &line.account,
        name: line.name.as_deref().unwrap_or_default(),
        side: line.side,
        amount: &line.amount,
        currency: line.currency,
        base_amount: &line.base_amount,
    });
    let totals = &entry.base_totals;
    println!("{}", lines_table(&lines.collect::<Vec<_>>(), Some(totals.currency)));
    println!("  total            {} {} on each side", totals.debit, totals.currency);
    println!("  description      {}", printable(&entry.description));
    println!("  accounting date  {}", entry.accounting_date);
    if let Some(original) = entry.original_date {
        println!("  dated itself     {original}, in a period that is not open");
    }
    if let Some(period) = &entry.period {
        println!("  period           {}", printable(period));
    }
}

/// Several events: a line for each, and how many there are of each kind.
fn print_many(previews: &[PreviewedLine]) {
    for PreviewedLine { line, preview } in previews {
        let event = preview.event.as_ref().map_or("(no event id)", |event| &event.event_id);
        println!("line {line}: {} {}", printable(event), verdict(preview));
    }
    println!("{}", summary(previews.iter().map(|line| &line.preview)));
}

fn summary<'a>(previews: impl Iterator<Item = &'a Previewed>) -> String {
    let mut counts = [0usize; 5];
    const WORDS: [&str; 5] = ["would post", "would reverse an entry", "ignored", "held", "rejected"];
    for preview in previews {
        let [posted, reverted, ignored, held, rejected] = &mut counts;
        *match &preview.outcome {
            PreviewOutcome::Posted(_) => posted,
            PreviewOutcome::Reverted { .. } => reverted,
            PreviewOutcome::Ignored { .. } => ignored,
            PreviewOutcome::Held(_) => held,
            PreviewOutcome::Rejected(_) => rejected,
        } += 1;
    }
    let parts = counts.iter().zip(WORDS).filter(|(count, _)| **count > 0);
    parts.map(|(count, word)| format!("{count} {word}")).collect::<Vec<_>>().join(", ")
}

fn verdict(preview: &Previewed) -> String {
    let failed = |failure: &PreviewedFailure| {
        format!("{}: {}", failure.reason.code(), printable_within(&failure.detail, DETAIL_MAX))
    };
    match &preview.outcome {
        PreviewOutcome::Posted(entry) => {
            let totals = &entry.base_totals;
            format!("would post {} {} by rule `{}`", totals.debit, totals.currency, printable(&entry.rule))
        }
        PreviewOutcome::Reverted { rule, reverses_event, .. } => {
            let (event, rule) = (printable(reverses_event), printable(rule));
            format!("would reverse the entry of event `{event}` by rule `{rule}`, once that is posted")
        }
        PreviewOutcome::Ignored { rule: Some(rule) } => format!("would be ignored by rule `{}`", printable(rule)),
        PreviewOutcome::Ignored { rule: None } => "would be ignored: no rule matches it".to_owned(),
        PreviewOutcome::Held(failure) => format!("would be held, {}", failed(failure)),
        PreviewOutcome::Rejected(failure) => format!("would be rejected, {}", failed(failure)),
    }
}
