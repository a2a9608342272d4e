//! `fis dlq groups`: what the letters have in common, most frequent first, with the money that waits in each.

use std::process::ExitCode;

use super::args::Which;
use super::{age, columns, money_text, plural};
use crate::cli::print_json;
use crate::cli::printable_within;
use crate::desk::Desk;
use crate::desk::letters::{LetterGroups, LetterMoney, Scope};
use crate::platform::config::Config;

#[derive(clap::Args)]
pub struct Groups {
    #[command(flatten)]
    which: Which,
    #[arg(long)]
    json: bool,
}

impl Groups {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        let desk = Desk::open(config).await?;
        let filter = self.which.filter(&desk, Scope::Open, Vec::new()).await?;
        let groups = desk.letter_groups(&filter).await?;
        if self.json {
            print_json(&groups)?;
        } else {
            crate::cli::print_text(&text(&groups))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn text(LetterGroups { groups, at }: &LetterGroups) -> String {
    let width = columns();
    let mut text = String::new();
    for group in groups {
        let rule = group.rule.as_deref().map(|rule| format!("  rule {rule}")).unwrap_or_default();
        let oldest = group.oldest.map(|oldest| age(*at, oldest)).unwrap_or_default();
        let first = format!("{}  {:>8}  {}{rule}", group.group, group.letters, group.reason);
        text.push_str(&printable_within(&first, width.saturating_sub(1)));
        text.push('\n');
        let trend = format!("{} new since yesterday (day before: {})", group.since_yesterday, group.day_before);
        let facts = format!("{}; oldest {oldest}; {trend}", money_text(&group.money));
        for line in [&facts, &group.fingerprint] {
            text.push_str(&format!("          {}\n", printable_within(line, width.saturating_sub(11))));
        }
    }
    let letters: i64 = groups.iter().map(|group| group.letters).sum();
    let count = plural(i64::try_from(groups.len()).unwrap_or(i64::MAX), "group");
    text.push_str(&format!("{} in {count}\n", plural(letters, "open dead letter")));
    if groups.len() > 1 {
        let total = format!("together {}", money_text(&LetterMoney::total(groups.iter().map(|group| &group.money))));
        text.push_str(&format!("{}\n", printable_within(&total, width.saturating_sub(1))));
    }
    if let Some(group) = groups.first() {
        text.push_str(&format!("look closer with `fis dlq list --group {}`\n", group.group));
    }
    text
}
