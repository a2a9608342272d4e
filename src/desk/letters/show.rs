//! Letters whole: one with its past, the nearest cause and what would mend it; or page by page, for a file. Nothing is changed.

use chrono::{DateTime, Utc};
use serde::ser::{Serialize, SerializeStruct, Serializer};

use super::remedy::{mark, remedy};
use super::{EditLine, Filter, Letter, LogLine};
use crate::desk::{Desk, DeskError};
use crate::domain::event::BODY_CUT;
use crate::domain::letter::Resolution;
use crate::store::dead_letters::{Whole, whole, whole_page};
use crate::store::letter_edits::of_letter;
use crate::store::operator_log::history;

/// Letters per page; a body may have 256 KiB, and a million letters need no memory.
const PAGE: i64 = 200;

/// A body as it came. In JSON it is text, or hex where it is none.
#[derive(Debug, Clone)]
pub struct LetterBody(pub Vec<u8>);

impl LetterBody {
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    /// The bytes of a body that is no text.
    #[must_use]
    pub fn hex(&self) -> Option<String> {
        self.text().is_none().then(|| hex::encode(&self.0))
    }
}

impl Serialize for LetterBody {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut body = serializer.serialize_struct("LetterBody", 2)?;
        body.serialize_field("body", &self.text())?;
        body.serialize_field("bodyHex", &self.hex())?;
        body.end()
    }
}

/// A letter with its message.
#[derive(Debug, Clone, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WholeLetter {
    #[serde(flatten)]
    pub letter: Letter,
    pub event_type: Option<String>,
    pub lane: String,
    pub payload_hash: Option<String>,
    pub last_seen_at: DateTime<Utc>,
    pub resolved_as: Option<Resolution>,
    /// JSON, as text; any text where it is damaged.
    #[serde(serialize_with = "as_json")]
    pub properties: String,
    #[serde(flatten)]
    pub body: LetterBody,
}

fn as_json<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    // What is damaged is shown as it stands.
    serde_json::from_str(text).unwrap_or_else(|_| serde_json::Value::from(text)).serialize(serializer)
}

impl From<Whole> for WholeLetter {
    fn from(whole: Whole) -> Self {
        Self {
            letter: whole.letter,
            event_type: whole.event_type,
            lane: whole.lane,
            payload_hash: whole.payload_hash,
            last_seen_at: whole.last_seen_at,
            resolved_as: whole.resolved_as,
            properties: whole.properties,
            body: LetterBody(whole.body),
        }
    }
}

/// Everything about one letter.
#[derive(Debug, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LetterStory {
    #[serde(flatten)]
    pub whole: WholeLetter,
    /// The field, expression or account at fault.
    pub fault: Option<String>,
    pub rule: Option<String>,
    pub fingerprint: String,
    pub settled_at: Option<DateTime<Utc>>,
    pub message_id: Option<String>,
    pub correlation_id: Option<String>,
    pub replay_id: Option<i64>,
    /// The length and the hash of the whole body, where only its beginning was kept.
    pub whole_body: Option<String>,
    pub history: Vec<LogLine>,
    pub edits: Vec<EditLine>,
    /// The nearest cause, and what to do about it, in a sentence.
    pub cause: String,
    /// The commands that would mend it.
    pub commands: Vec<String>,
}

/// The place behind a letter, for the next page.
pub type Behind = (DateTime<Utc>, String);

/// A page of whole letters, oldest first; the last one is empty.
#[derive(Debug, serde::Serialize)]
pub struct WholePage {
    pub letters: Vec<WholeLetter>,
    /// The start of the next page.
    pub next: Option<Behind>,
}

impl Desk {
    /// # Errors
    /// There is no such letter, or the database is away.
    pub async fn show_letter(&self, id: &str) -> Result<LetterStory, DeskError> {
        let mut db = self.postgres.pool.acquire().await?;
        let Some(mut whole) = whole(&mut db, id).await? else {
            return Err(DeskError::NoLetters { ids: vec![id.to_owned()] });
        };
        let (history, edits) = (history(&mut db, id).await?, of_letter(&mut db, id).await?);
        let (cause, commands) = remedy(&whole);
        let mark = mark(&whole.properties);
        Ok(LetterStory {
            fault: fault(&whole.letter.detail).map(ToOwned::to_owned),
            rule: whole.rule_name.take(),
            fingerprint: std::mem::take(&mut whole.fingerprint),
            settled_at: whole.settled_at,
            message_id: whole.message_id.take(),
            correlation_id: whole.correlation_id.take(),
            replay_id: whole.replay_id,
            whole_body: mark.as_deref().and_then(|mark| mark.strip_prefix(BODY_CUT)).map(ToOwned::to_owned),
            history,
            edits,
            cause,
            commands,
            whole: whole.into(),
        })
    }

    /// The letters behind `after`, whole, a page at a time.
    ///
    /// # Errors
    /// The database is away.
    pub async fn export_letters(&self, filter: &Filter, after: Option<Behind>) -> Result<WholePage, DeskError> {
        let page = whole_page(&mut *self.postgres.pool.acquire().await?, filter, after, PAGE).await?;
        let next = page.last().map(|whole| (whole.letter.first_seen_at, whole.letter.id.clone()));
        Ok(WholePage { letters: page.into_iter().map(WholeLetter::from).collect(), next })
    }
}

/// The first thing that the detail puts into quotes: the field, the expression, the account at fault.
fn fault(detail: &str) -> Option<&str> {
    let detail = match detail.strip_prefix("rule `") {
        Some(rest) => rest.split_once('`')?.1,
        None => detail,
    };
    detail.split('`').nth(1).filter(|fault| !fault.is_empty())
}

#[cfg(test)]
mod tests {
    use super::fault;

    #[test]
    fn the_fault_is_what_the_detail_quotes_behind_the_rule() {
        assert_eq!(fault("account `9999` is not in the books of acme"), Some("9999"));
        assert_eq!(fault("rule `order`: `payload.total` is missing"), Some("payload.total"));
        assert_eq!(fault("rule `order`: nothing"), None);
        assert_eq!(fault("nothing"), None);
    }
}
