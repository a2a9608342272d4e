//! Edits: the original stays, and an edited copy is replayed under the same event id. A letter and a new body enter, a draft that is
//! checked leaves; drafts enter, and are rehearsed or replayed. Copy and replay are one transaction, so that never both copies are booked.

use super::difference::{Difference, difference};
use super::rehearse::waiting;
use super::{Filter, Letter, Rehearsed, WholeLetter, parked, with_reason};
use crate::desk::{Desk, DeskError};
use crate::domain::event::{BODY_BYTES_MAX, RawMessage, decode};
use crate::domain::ids::TenantId;
use crate::domain::operator::Operator;
use crate::parking::imagined;
use crate::parking::mend::edit;
use crate::store::dead_letters::whole_page;
use crate::store::letter_edits::Edit;

/// The most letters that one edit may change: their bodies are held in memory, and one transaction stores them.
pub const EDITS_MAX: usize = 1_000;

/// An edited copy that differs from its letter, fits, and is the same event. Only the desk makes one.
pub struct DraftEdit {
    edit: Edit,
    before: Vec<u8>,
    letter: Letter,
    properties: String,
}

impl DraftEdit {
    #[must_use]
    pub fn letter_id(&self) -> &str {
        &self.edit.letter_id
    }

    #[must_use]
    pub fn difference(&self) -> Difference {
        difference(&self.before, &self.edit.body)
    }
}

/// Drafts that are to be booked instead of their letters.
pub struct EditLetters {
    pub drafts: Vec<DraftEdit>,
    pub confirmed: bool,
    pub operator: Operator,
}

/// The replay of edited copies.
#[derive(Debug, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EditedLetters {
    pub replay_id: i64,
    pub letters: i64,
    /// Not parked any more when the copies were stored.
    pub left_out: i64,
}

impl Desk {
    /// The letters that a filter would have edited, whole.
    ///
    /// # Errors
    /// Nothing is named, a letter that is named does not exist, nothing parked is selected, more are selected than can be edited at once, or the database is away.
    pub async fn letters_to_edit(&self, filter: &Filter) -> Result<Vec<WholeLetter>, DeskError> {
        let filter = parked(filter, false)?;
        self.named_letters(&filter.ids).await?;
        let most = i64::try_from(EDITS_MAX + 1).unwrap_or(i64::MAX);
        let letters = whole_page(&mut *self.postgres.pool.acquire().await?, &filter, None, most).await?;
        if letters.len() > EDITS_MAX {
            return Err(DeskError::Invalid { why: format!("more than {EDITS_MAX} are selected; edit them in parts") });
        }
        if letters.is_empty() {
            return Err(super::nothing());
        }
        Ok(letters.into_iter().map(WholeLetter::from).collect())
    }

    /// A draft of a letter with a new body.
    ///
    /// # Errors
    /// The body is the old one, too long, no event, or another event.
    pub fn draft_edit(&self, whole: &WholeLetter, body: Vec<u8>) -> Result<DraftEdit, DeskError> {
        let invalid = |why: String| DeskError::Invalid { why };
        let letter = &whole.letter;
        if body == whole.body.0 {
            return Err(invalid("nothing was edited".to_owned()));
        }
        if body.len() > BODY_BYTES_MAX {
            return Err(invalid(format!("the body has more than {BODY_BYTES_MAX} bytes")));
        }
        let message = imagined(&letter.routing_key, &whole.properties, body.clone());
        let header = |name: &str| message.properties.header(name);
        let raw = RawMessage {
            body: &message.body,
            routing_key: &message.routing_key,
            content_type: message.properties.content_type(),
            header: &header,
        };
        let default_tenant = TenantId::parse(&self.config.intake.default_tenant).ok();
        let event = decode(raw, default_tenant.as_ref()).map_err(|bad| invalid(bad.failure.to_string()))?;
        let same = |known: Option<&str>, now: &str| known.is_none_or(|known| known == now);
        if !same(letter.event_id.as_deref(), event.event_id.as_str())
            || !same(letter.tenant_id.as_deref(), event.tenant_id.as_str())
        {
            let why = "an edit keeps the event's id and tenant; another event is published, not edited";
            return Err(invalid(why.to_owned()));
        }
        let edit = Edit { letter_id: letter.id.clone(), body };
        Ok(DraftEdit {
            edit,
            before: whole.body.0.clone(),
            letter: letter.clone(),
            properties: whole.properties.clone(),
        })
    }

    /// # Errors
    /// The database is away, or its books cannot be read or change all the time.
    pub async fn rehearse_edits(&self, drafts: &[DraftEdit]) -> Result<Rehearsed, DeskError> {
        let messages: Vec<_> =
            drafts.iter().map(|draft| waiting(&draft.letter, &draft.properties, draft.edit.body.clone())).collect();
        self.rehearse_messages(&messages).await
    }

    /// Starts a replay that books the copies instead of their letters; `watch_replay` watches it.
    ///
    /// # Errors
    /// Nothing was stored: nobody has confirmed it, there is no reason, there are none or too many, none of the letters is parked any more, or
    /// the database is away.
    pub async fn edit_letters(&self, request: EditLetters) -> Result<EditedLetters, DeskError> {
        let EditLetters { drafts, confirmed, operator } = request;
        with_reason(&operator)?;
        if drafts.is_empty() || drafts.len() > EDITS_MAX {
            return Err(DeskError::Invalid { why: format!("an edit changes 1 to {EDITS_MAX} letters") });
        }
        if !confirmed {
            return Err(DeskError::NotConfirmed { what: format!("{} letters are replayed as edited", drafts.len()) });
        }
        let edits: Vec<Edit> = drafts.into_iter().map(|draft| draft.edit).collect();
        let replay = edit(&self.postgres.pool, &edits, &operator).await?;
        let asked = i64::try_from(edits.len()).unwrap_or(i64::MAX);
        Ok(EditedLetters { replay_id: replay.id, letters: replay.letters, left_out: asked - replay.letters })
    }
}
