//! `fis dlq list`: two lines per letter, so that a detail is readable in eighty columns.

use std::process::ExitCode;

use super::args::Which;
use super::{age, columns, grouped, plural};
use crate::cli::print_json;
use crate::cli::{printable, printable_within};
use crate::desk::Desk;
use crate::desk::letters::{Letter, LetterPage, ListLetters, Scope, Sort};
use crate::domain::letter::LetterStatus;
use crate::platform::config::Config;
use crate::platform::time;

#[derive(clap::Args)]
pub struct LettersList {
    #[command(flatten)]
    which: Which,
    /// Only letters in this state
    #[arg(long, value_enum, default_value_t = State::Open)]
    status: State,
    #[arg(long, value_enum, default_value_t = Order::Oldest)]
    sort: Order,
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(i64).range(0..=100_000))]
    limit: i64,
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(i64).range(0..))]
    offset: i64,
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum State {
    /// Parked or replaying
    Open,
    /// Parked, including letters that wait their turn in a running replay
    Parked,
    /// Held by a replay, or waiting their turn in a running one
    Replaying,
    Resolved,
    Discarded,
    All,
}

impl State {
    pub fn scope(self) -> Scope {
        match self {
            Self::Open => Scope::Open,
            Self::Parked => Scope::Parked,
            Self::Replaying => Scope::Replaying,
            Self::Resolved => Scope::Resolved,
            Self::Discarded => Scope::Discarded,
            Self::All => Scope::All,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Open => "open ",
            Self::Parked => "parked ",
            Self::Replaying => "replaying ",
            Self::Resolved => "resolved ",
            Self::Discarded => "discarded ",
            Self::All => "",
        }
    }
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Order {
    Oldest,
    Newest,
    /// Most money first
    Amount,
}

impl LettersList {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        let desk = Desk::open(config).await?;
        let sort = match self.sort {
            Order::Oldest => Sort::Oldest,
            Order::Newest => Sort::Newest,
            Order::Amount => Sort::Amount,
        };
        let filter = self.which.filter(&desk, self.status.scope(), Vec::new()).await?;
        let page = desk.list_letters(&ListLetters { filter, sort, limit: self.limit, offset: self.offset }).await?;
        if self.json {
            print_json(&page)?;
            return Ok(ExitCode::SUCCESS);
        }
        let LetterPage { dead_letters: letters, total } = page;
        let (now, width) = (time::now(), columns());
        let mut text = String::new();
        for letter in &letters {
            text.push_str(&two_lines(letter, now, width));
        }
        let word = self.status.word();
        text.push_str(&format!("{} of {}\n", letters.len(), plural(total, &format!("{word}dead letter"))));
        let next = self.offset.saturating_add(i64::try_from(letters.len()).unwrap_or(i64::MAX));
        if !letters.is_empty() && next < total {
            text.push_str(&format!("go on with --offset {next}\n"));
        }
        crate::cli::print_text(&text)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Id, age, reason, money, and what is unusual about it; whose it is where there is room, else before the detail.
fn two_lines(letter: &Letter, now: chrono::DateTime<chrono::Utc>, width: usize) -> String {
    let money = match (&letter.amount, &letter.currency) {
        (Some(amount), Some(currency)) => format!("{} {}", printable(&grouped(amount)), printable(currency)),
        _ => "-".to_owned(),
    };
    let whose = format!(
        "{}/{}",
        printable(letter.tenant_id.as_deref().unwrap_or("-")),
        printable(letter.event_id.as_deref().unwrap_or("-"))
    );
    let mut marks = String::new();
    if letter.attempts > 1 {
        marks.push_str(&format!("  ×{}", letter.attempts));
    }
    if letter.status != LetterStatus::Parked {
        marks.push_str(&format!("  {}", letter.status));
    }
    let seen = age(now, letter.first_seen_at);
    let start = format!("{}  {seen:>4}  {:<20} {money:>14}", letter.id, printable(&letter.reason));
    let fits = |more: usize| start.chars().count() + marks.chars().count() + more < width;
    let detail = |detail: &str| printable_within(detail, width.saturating_sub(5));
    if fits(whose.chars().count() + 2) {
        return format!("{start}  {whose}{marks}\n    {}\n", detail(&letter.detail));
    }
    // Not more than a third of the line: the detail is what is looked for.
    let whose = printable_within(&whose, width / 3);
    let (beside, below) = if fits(0) { (marks.as_str(), "") } else { ("", marks.as_str()) };
    format!("{start}{beside}\n    {}\n", detail(&format!("{whose}{below}: {}", letter.detail)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_of_a_letter_is_wider_than_the_terminal() {
        let now = time::now();
        let mut letter = Letter {
            id: format!("dl_{}", "x".repeat(26)),
            tenant_id: Some("a-tenant-with-a-long-name".to_owned()),
            event_id: Some("evt_0123456789abcdef".to_owned()),
            routing_key: "ecommerce.order.completed".to_owned(),
            reason: "idempotency_conflict".to_owned(),
            detail: "x".repeat(300),
            status: LetterStatus::Parked,
            attempts: 1,
            first_seen_at: now - chrono::TimeDelta::days(999),
            amount: Some("1234567.89".to_owned()),
            currency: Some("EUR".to_owned()),
            group_id: "6831f06b".to_owned(),
            entry_id: None,
        };
        let widest = |letter: &Letter| two_lines(letter, now, 80).lines().map(|line| line.chars().count()).max();
        assert!(widest(&letter) <= Some(80));
        (letter.attempts, letter.status) = (1_234, LetterStatus::Discarded);
        let shown = two_lines(&letter, now, 80);
        assert!(widest(&letter) <= Some(80) && shown.contains("×1234  discarded: xxx"), "{shown}");
    }
}
