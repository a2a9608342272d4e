//! `fis dlq show`: everything about one letter, the nearest cause in a sentence, and the command that would mend it.

use std::process::ExitCode;

use serde_json::{Value, json};

use super::args::with_hint;
use super::{age, body, columns, hanging};
use crate::cli::print_json;
use crate::cli::printable_within;
use crate::desk::Desk;
use crate::desk::letters::LetterStory;
use crate::platform::config::Config;
use crate::platform::time;

/// Where values begin, behind their names.
const VALUE_COLUMN: usize = 14;
/// Characters of a cause or a command; longer than any that is made.
const TOLD_MAX: usize = 1_000;

#[derive(clap::Args)]
pub struct Show {
    /// The id of the dead letter
    id: String,
    /// Show the whole body, however long it is
    #[arg(long)]
    full: bool,
    #[arg(long)]
    json: bool,
}

impl Show {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        let desk = Desk::open(config).await?;
        let story = desk.show_letter(&self.id).await.map_err(|error| with_hint(error, None))?;
        if self.json {
            print_json(&story)?;
        } else {
            crate::cli::print_text(&self.text(&story))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn text(&self, story: &LetterStory) -> String {
        let (width, whole) = (columns(), &story.whole);
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
            ("at fault", story.fault.clone()),
            ("tenant", letter.tenant_id.clone()),
            ("event", letter.event_id.clone()),
            ("type", whole.event_type.clone()),
            ("money", money),
            ("routing key", Some(letter.routing_key.clone())),
            ("lane", Some(whole.lane.clone())),
            ("attempts", Some(letter.attempts.to_string())),
            ("first seen", Some(seen)),
            ("last seen", Some(at(whole.last_seen_at))),
            ("settled", story.settled_at.map(at)),
            ("group", Some(letter.group_id.clone())),
            ("replay", story.replay_id.map(|id| id.to_string())),
            ("message id", story.message_id.clone()),
            ("correlation", story.correlation_id.clone()),
            ("payload hash", whole.payload_hash.clone()),
            ("properties", Some(said(&whole.properties))),
        ];
        let mut text = String::new();
        for (name, value) in facts.iter().filter_map(|(name, value)| Some((name, value.as_ref()?))) {
            let most = if matches!(*name, "detail" | "properties") { 1100 } else { width.saturating_sub(15).max(120) };
            text.push_str(&fact(name, &printable_within(value, most), width));
        }
        let body = match &story.whole_body {
            Some(of) => format!("{} bytes, the beginning of {of}; it cannot be booked", whole.body.0.len()),
            None => format!("{} bytes", whole.body.0.len()),
        };
        text.push_str(&fact("body", &printable_within(&body, TOLD_MAX), width));
        text.push_str(&body::shown(&whole.body.0, width, if self.full { usize::MAX } else { body::LINES_MAX }));
        for edit in &story.edits {
            let line = format!("edit {} by {} at {}: {}", edit.edit_no, edit.edited_by, at(edit.edited_at), edit.why);
            text.push_str(&format!("{}\n", hanging(&printable_within(&line, 400), 4, width)));
        }
        if !story.history.is_empty() {
            text.push_str("history\n");
        }
        for line in &story.history {
            let reason = line.reason.as_deref().unwrap_or_default();
            let told =
                format!("{}  {:<8} by {}: {} [{reason}: {}]", at(line.at), line.act, line.by, line.why, line.detail);
            text.push_str(&format!("    {}\n", hanging(&printable_within(&told, 400), 8, width)));
        }
        text.push_str(&format!("\n{}\n", hanging(&printable_within(&story.cause, TOLD_MAX), 0, width)));
        for command in &story.commands {
            text.push_str(&format!("    {}\n", printable_within(command, TOLD_MAX)));
        }
        text
    }
}

/// The properties that were set; most are not.
fn said(properties: &str) -> String {
    let Ok(Value::Object(mut said)) = serde_json::from_str(properties) else {
        return properties.to_owned();
    };
    said.retain(|_, value| !value.is_null());
    let said: Vec<String> =
        said.into_iter().map(|(name, value)| format!("{}: {}", json!(name), as_text(value))).collect();
    format!("{{{}}}", said.join(", "))
}

/// A value with the texts in it as texts: AMQP's long strings may hold any bytes, and are stored as such.
fn as_text(value: Value) -> Value {
    let Value::Object(members) = value else { return value };
    let bytes = members.get("LongString").filter(|_| members.len() == 1).and_then(|bytes| bytes.as_array());
    let byte = |byte: &Value| byte.as_u64().and_then(|byte| u8::try_from(byte).ok());
    let bytes = bytes.and_then(|bytes| bytes.iter().map(byte).collect::<Option<Vec<u8>>>());
    match bytes.and_then(|bytes| String::from_utf8(bytes).ok()) {
        Some(text) => Value::from(text),
        None => members.into_iter().map(|(name, value)| (name, as_text(value))).collect(),
    }
}

/// A name and its value beside it; what is too long for that, and could be copied, has a line of its own.
fn fact(name: &str, value: &str, width: usize) -> String {
    let length = value.chars().count();
    if VALUE_COLUMN + length >= width && length + 4 < width && !value.contains(' ') {
        return format!("{name}\n    {value}\n");
    }
    format!("{name:<13} {}\n", hanging(value, VALUE_COLUMN, width))
}

#[cfg(test)]
mod tests {
    use super::{fact, hanging, said};

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
        let headers =
            r#"{"headers": {"a": {"LongString": [104, 105]}, "b": {"LongString": [255]}, "c": {"Void": null}}}"#;
        assert_eq!(said(headers), r#"{"headers": {"a":"hi","b":{"LongString":[255]},"c":{"Void":null}}}"#);
    }
}
