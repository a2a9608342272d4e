//! `fis dlq show`: everything about one letter, the nearest cause in a sentence, and the command that would mend it.

use std::process::ExitCode;

use serde_json::json;

use super::{age, body, columns, hanging};
use crate::cli::{printable, printable_within};
use crate::domain::disposition::Reason;
use crate::domain::letter::LetterStatus;
use crate::platform::config::Config;
use crate::platform::time;
use crate::store::dead_letters::{Whole, whole};
use crate::store::letter_edits::{self, EditLine};
use crate::store::operator_log::{LogLine, history};

/// Where values begin, behind their names.
const VALUE_COLUMN: usize = 14;

#[derive(clap::Args)]
pub struct Show {
    id: String,
    /// The whole body, however long
    #[arg(long)]
    full: bool,
    #[arg(long)]
    json: bool,
}

impl Show {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        let postgres = crate::cli::database(config).await?;
        let mut db = postgres.pool.acquire().await?;
        let Some(whole) = whole(&mut db, &self.id).await? else {
            anyhow::bail!("there is no dead letter `{}`", printable(&self.id));
        };
        let history = history(&mut db, &self.id).await?;
        let edits = letter_edits::of_letter(&mut db, &self.id).await?;
        if self.json {
            crate::cli::print_json(&as_json(&whole, &history, &edits))?;
        } else {
            crate::cli::print_text(&self.text(&whole, &history, &edits))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn text(&self, whole: &Whole, history: &[LogLine], edits: &[EditLine]) -> String {
        let width = columns();
        let letter = &whole.letter;
        let at = |at: chrono::DateTime<chrono::Utc>| at.format("%Y-%m-%d %H:%M:%S UTC").to_string();
        let money =
            letter.amount.as_ref().zip(letter.currency.as_ref()).map(|(amount, code)| format!("{amount} {code}"));
        let state = match (&whole.resolved_as, &letter.entry_id) {
            (Some(how), Some(entry)) => format!("resolved: {how} as {entry}"),
            (Some(how), None) => format!("resolved: {how}"),
            _ => letter.status.to_string(),
        };
        let seen = format!("{} ({} ago)", at(letter.first_seen_at), age(time::now(), letter.first_seen_at));
        let facts = [
            ("id", Some(letter.id.clone())),
            ("state", Some(state)),
            ("reason", Some(letter.reason.clone())),
            ("detail", Some(letter.detail.clone())),
            ("at fault", fault(&letter.detail).map(ToOwned::to_owned)),
            ("tenant", letter.tenant_id.clone()),
            ("event", letter.event_id.clone()),
            ("type", whole.event_type.clone()),
            ("money", money),
            ("routing key", Some(letter.routing_key.clone())),
            ("lane", Some(whole.lane.clone())),
            ("attempts", Some(letter.attempts.to_string())),
            ("first seen", Some(seen)),
            ("last seen", Some(at(whole.last_seen_at))),
            ("settled", whole.settled_at.map(at)),
            ("group", Some(letter.group_id.clone())),
            ("replay", whole.replay_id.map(|id| id.to_string())),
            ("message id", whole.message_id.clone()),
            ("correlation", whole.correlation_id.clone()),
            ("payload hash", whole.payload_hash.clone()),
            ("properties", Some(said(&whole.properties))),
        ];
        let mut text = String::new();
        for (name, value) in facts.iter().filter_map(|(name, value)| Some((name, value.as_ref()?))) {
            let most = if matches!(*name, "detail" | "properties") { 1100 } else { width.saturating_sub(15).max(120) };
            text.push_str(&fact(name, &printable_within(value, most), width));
        }
        text.push_str(&format!("body          {} bytes\n", whole.body.len()));
        text.push_str(&body::shown(&whole.body, width, if self.full { usize::MAX } else { body::LINES_MAX }));
        for edit in edits {
            let line = format!("edit {} by {} at {}: {}", edit.edit_no, edit.edited_by, at(edit.edited_at), edit.why);
            text.push_str(&format!("{}\n", hanging(&printable_within(&line, 400), 4, width)));
        }
        if !history.is_empty() {
            text.push_str("history\n");
        }
        for line in history {
            let reason = line.reason.as_deref().unwrap_or_default();
            let told =
                format!("{}  {:<8} by {}: {} [{reason}: {}]", at(line.at), line.act, line.by, line.why, line.detail);
            text.push_str(&format!("    {}\n", hanging(&printable_within(&told, 400), 8, width)));
        }
        let (cause, commands) = remedy(whole);
        text.push_str(&format!("\n{}\n", hanging(&cause, 0, width)));
        for command in commands {
            text.push_str(&format!("    {command}\n"));
        }
        text
    }
}

/// The properties that were set; most are not.
fn said(properties: &str) -> String {
    let Ok(serde_json::Value::Object(mut said)) = serde_json::from_str(properties) else {
        return properties.to_owned();
    };
    said.retain(|_, value| !value.is_null());
    let said: Vec<String> = said.iter().map(|(name, value)| format!("{}: {value}", json!(name))).collect();
    format!("{{{}}}", said.join(", "))
}

/// A name and its value beside it; what is too long for that, and could be copied, has a line of its own.
fn fact(name: &str, value: &str, width: usize) -> String {
    let length = value.chars().count();
    if VALUE_COLUMN + length >= width && length + 4 < width && !value.contains(' ') {
        return format!("{name}\n    {value}\n");
    }
    format!("{name:<13} {}\n", hanging(value, VALUE_COLUMN, width))
}

/// The first thing that the detail puts into quotes: the field, the expression, the account at fault.
fn fault(detail: &str) -> Option<&str> {
    let detail = match detail.strip_prefix("rule `") {
        Some(rest) => rest.split_once('`')?.1,
        None => detail,
    };
    detail.split('`').nth(1).filter(|fault| !fault.is_empty())
}

/// The nearest cause in a sentence, and what would mend it.
fn remedy(whole: &Whole) -> (String, Vec<String>) {
    let letter = &whole.letter;
    match letter.status {
        LetterStatus::Resolved => return ("It is settled; nothing is to be done.".to_owned(), Vec::new()),
        LetterStatus::Discarded => {
            return ("It was given up for good; if it comes again it is parked again.".to_owned(), Vec::new());
        }
        LetterStatus::Replaying => {
            let follow = whole.replay_id.map(|id| format!("fis dlq replay --resume {id}"));
            return ("It is on its way through the books.".to_owned(), follow.into_iter().collect());
        }
        LetterStatus::Parked => {}
    }
    let Some(reason) = Reason::from_code(&letter.reason) else {
        return (format!("This program does not know the reason `{}`.", printable(&letter.reason)), Vec::new());
    };
    let (id, group) = (&letter.id, &letter.group_id);
    let tenant = letter.tenant_id.as_deref().map_or_else(|| "TENANT".to_owned(), printable);
    let replay = || format!("fis dlq replay --group {group} --dry-run");
    let books = || vec![format!("fis books show --tenant {tenant}"), "fis books apply FILE".to_owned(), replay()];
    let edit = |set: &str| vec![format!("fis dlq edit {id} --why WHY{set}")];
    let commands = match reason {
        Reason::RuleNotFound
        | Reason::Unbalanced
        | Reason::UnknownAccount
        | Reason::AccountClosed
        | Reason::PeriodClosed
        | Reason::UnknownTenant
        | Reason::FxRateMissing
        | Reason::PeriodNotOpen => books(),
        Reason::RuleFailed | Reason::BadAmount | Reason::BadCurrency => [books(), edit("")].concat(),
        Reason::MalformedJson | Reason::NotUtf8 => edit(" --body FILE"),
        Reason::MissingField | Reason::BadField => edit(" --set /FIELD=VALUE"),
        Reason::TooLarge | Reason::IdempotencyConflict | Reason::AlreadyReversed => {
            vec![format!("fis dlq discard {id} --why WHY")]
        }
        Reason::AttemptsExhausted | Reason::OriginalNotPosted => vec![replay()],
        Reason::DeliveryLimit | Reason::DatabaseRefused => vec![format!("fis dlq replay {id} --dry-run")],
    };
    (format!("{}: {}.", reason.code(), reason.advice()), commands)
}

fn as_json(whole: &Whole, history: &[LogLine], edits: &[EditLine]) -> serde_json::Value {
    let letter = &whole.letter;
    let (cause, commands) = remedy(whole);
    let text = std::str::from_utf8(&whole.body).ok();
    json!({
        "id": letter.id, "tenantId": letter.tenant_id, "eventId": letter.event_id, "eventType": whole.event_type,
        "routingKey": letter.routing_key, "lane": whole.lane, "reason": letter.reason, "detail": letter.detail,
        "fault": fault(&letter.detail), "rule": whole.rule_name, "fingerprint": whole.fingerprint, "group": letter.group_id,
        "status": letter.status, "resolvedAs": whole.resolved_as, "entryId": letter.entry_id, "settledAt": whole.settled_at,
        "attempts": letter.attempts, "amount": letter.amount, "currency": letter.currency,
        "firstSeenAt": letter.first_seen_at, "lastSeenAt": whole.last_seen_at, "messageId": whole.message_id,
        "correlationId": whole.correlation_id, "payloadHash": whole.payload_hash, "replayId": whole.replay_id,
        "properties": serde_json::from_str::<serde_json::Value>(&whole.properties).ok(),
        "body": text, "bodyHex": text.is_none().then(|| hex::encode(&whole.body)),
        "history": history, "edits": edits, "cause": cause, "commands": commands,
    })
}

#[cfg(test)]
mod tests {
    use super::{fact, fault, hanging, said};

    #[test]
    fn a_long_text_is_broken_between_words_and_hangs_below_itself() {
        assert_eq!(hanging("one two three", 4, 12), "one two\n    three");
        assert_eq!(hanging("one", 4, 12), "one");
        assert_eq!(hanging("a word_that_is_too_long", 2, 12), "a\n  word_that_is_too_long");
    }

    #[test]
    fn a_value_that_does_not_fit_beside_its_name_stands_below_it_whole() {
        assert_eq!(fact("event", "o-1", 30), "event         o-1\n");
        assert_eq!(fact("event", "evt_0123456789012345", 30), "event\n    evt_0123456789012345\n");
        assert_eq!(
            fact("event", "evt_012345678901234567890123456789", 30),
            "event         evt_012345678901234567890123456789\n"
        );
        assert_eq!(
            fact("detail", "it is a matter of words", 30),
            "detail        it is a matter\n              of words\n"
        );
        assert_eq!(said(r#"{"a": null, "b": 2, "c": {"d": "e,f"}}"#), r#"{"b": 2, "c": {"d":"e,f"}}"#);
        assert_eq!(said("{"), "{");
    }

    #[test]
    fn the_fault_is_what_the_detail_quotes_behind_the_rule() {
        assert_eq!(fault("account `9999` is not in the books of acme"), Some("9999"));
        assert_eq!(fault("rule `order`: `payload.total` is missing"), Some("payload.total"));
        assert_eq!(fault("rule `order`: nothing"), None);
        assert_eq!(fault("nothing"), None);
    }
}
