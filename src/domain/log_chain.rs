//! The proof of letters and of the operators' log: the hash of what was parked, of an edited copy, and of a block of the log behind the block before it.
//! Rows enter, hashes leave, in the written forms of `docs/hash-chain.md`. The tables make the first two when the rows are written; all are made
//! anew here to compare. Change nothing here without a new version word.

use chrono::{DateTime, Utc};
use sha2::{Digest, Sha256};

use super::chain::{GENESIS, Netstrings, instant_text};

/// The first text of each form.
const LETTER: &str = "fis-letter-v1";
const EDIT: &str = "fis-edit-v1";
const BLOCK: &str = "fis-log-v1";

/// The part of a letter that no statement changes after it was parked.
#[derive(Debug, Clone, Copy)]
pub struct ParkedContent<'a> {
    pub id: &'a str,
    pub tenant_id: Option<&'a str>,
    pub event_id: Option<&'a str>,
    pub event_type: Option<&'a str>,
    pub routing_key: &'a str,
    pub lane: &'a str,
    /// A decimal without zeros at its end.
    pub amount: Option<&'a str>,
    pub currency: Option<&'a str>,
    pub message_id: Option<&'a str>,
    pub correlation_id: Option<&'a str>,
    pub payload_hash: Option<&'a str>,
    pub first_seen_at: DateTime<Utc>,
    pub properties: &'a str,
    /// The SHA-256 of the body, in hexadecimal digits.
    pub body_hash: &'a str,
}

impl ParkedContent<'_> {
    #[must_use]
    pub fn hash(&self) -> String {
        let mut text = Netstrings::with_capacity(512 + self.properties.len());
        text.put(LETTER);
        text.put(self.id);
        for optional in [self.tenant_id, self.event_id, self.event_type] {
            text.put(optional.unwrap_or(""));
        }
        text.put(self.routing_key);
        text.put(self.lane);
        let optional = [self.amount, self.currency, self.message_id, self.correlation_id, self.payload_hash];
        for optional in optional {
            text.put(optional.unwrap_or(""));
        }
        text.put(&instant_text(self.first_seen_at));
        text.put(self.properties);
        text.put(self.body_hash);
        text.hash()
    }
}

/// An edited copy of a letter.
#[derive(Debug, Clone, Copy)]
pub struct EditedContent<'a> {
    pub letter_id: &'a str,
    pub edit_no: i32,
    pub edited_by: &'a str,
    pub why: &'a str,
    pub edited_at: DateTime<Utc>,
    /// The SHA-256 of the body, in hexadecimal digits.
    pub body_hash: &'a str,
}

impl EditedContent<'_> {
    #[must_use]
    pub fn hash(&self) -> String {
        let mut text = Netstrings::with_capacity(256);
        text.put(EDIT);
        text.put(self.letter_id);
        text.put_shown(self.edit_no);
        text.put(self.edited_by);
        text.put(self.why);
        text.put(&instant_text(self.edited_at));
        text.put(self.body_hash);
        text.hash()
    }
}

/// A row of the operators' log. Its words are whatever the table says.
#[derive(Debug, Clone, Default)]
pub struct LogRow {
    pub id: i64,
    pub at: DateTime<Utc>,
    pub by: String,
    pub login: String,
    pub act: String,
    pub why: String,
    pub through: String,
    pub letter_id: Option<String>,
    pub replay_id: Option<i64>,
    pub from_status: Option<String>,
    pub to_status: Option<String>,
    pub reason: Option<String>,
    pub detail: String,
    pub resolved_as: Option<String>,
    pub entry_id: Option<String>,
    pub content: Option<String>,
}

/// The place of a block in the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockHead {
    pub no: i64,
    pub last_id: i64,
    pub hash: String,
}

impl BlockHead {
    #[must_use]
    pub fn genesis() -> Self {
        Self { no: 0, last_id: 0, hash: GENESIS.to_owned() }
    }
}

/// A block of the log: rows in id order, sealed by a hash over them and the hash of the block before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogBlock {
    pub no: i64,
    pub first_id: i64,
    pub last_id: i64,
    pub rows: i64,
    pub previous_hash: String,
    pub hash: String,
    pub sealed_at: DateTime<Utc>,
}

impl LogBlock {
    #[must_use]
    pub fn head(&self) -> BlockHead {
        BlockHead { no: self.no, last_id: self.last_id, hash: self.hash.clone() }
    }
}

/// A block that is being made. It holds one row at a time.
pub struct OpenBlock {
    hash: Sha256,
    text: Netstrings,
    block: LogBlock,
}

impl OpenBlock {
    /// Begins the block behind another one.
    #[must_use]
    pub fn behind(before: &BlockHead, sealed_at: DateTime<Utc>) -> Self {
        let mut text = Netstrings::with_capacity(1024);
        text.put(BLOCK);
        text.put_shown(before.no + 1);
        text.put(&before.hash);
        text.put(&instant_text(sealed_at));
        let mut hash = Sha256::new();
        hash.update(text.bytes());
        let previous_hash = before.hash.clone();
        let (no, first_id, last_id, rows) = (before.no + 1, 0, 0, 0);
        Self {
            hash,
            text,
            block: LogBlock { no, first_id, last_id, rows, previous_hash, hash: String::new(), sealed_at },
        }
    }

    /// Adds the next row in id order.
    pub fn add(&mut self, row: &LogRow) {
        let text = &mut self.text;
        text.clear();
        text.put_shown(row.id);
        text.put(&instant_text(row.at));
        for said in [&row.by, &row.login, &row.act, &row.why, &row.through] {
            text.put(said);
        }
        text.put(row.letter_id.as_deref().unwrap_or(""));
        match row.replay_id {
            Some(replay) => text.put_shown(replay),
            None => text.put(""),
        }
        for state in [&row.from_status, &row.to_status, &row.reason] {
            text.put(state.as_deref().unwrap_or(""));
        }
        text.put(&row.detail);
        for became in [&row.resolved_as, &row.entry_id, &row.content] {
            text.put(became.as_deref().unwrap_or(""));
        }
        self.hash.update(text.bytes());
        if self.block.rows == 0 {
            self.block.first_id = row.id;
        }
        self.block.last_id = row.id;
        self.block.rows += 1;
    }

    /// The block with its hash; `None`: it has no rows.
    #[must_use]
    pub fn sealed(self) -> Option<LogBlock> {
        let hash = hex::encode(self.hash.finalize());
        (self.block.rows > 0).then_some(LogBlock { hash, ..self.block })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u32) -> DateTime<Utc> {
        DateTime::parse_from_rfc3339(&format!("2026-02-25T10:00:{second:02}.234567Z")).unwrap().to_utc()
    }

    fn row(id: i64) -> LogRow {
        let text = |text: &str| text.to_owned();
        LogRow {
            id,
            at: at(1),
            by: text("änna"),
            login: text("fis_service"),
            act: text("discard"),
            why: text("test data"),
            through: text("cli"),
            letter_id: Some(text("dl_1")),
            replay_id: Some(7),
            from_status: Some(text("parked")),
            to_status: Some(text("discarded")),
            reason: Some(text("bad_amount")),
            detail: text("too fine"),
            ..LogRow::default()
        }
    }

    fn block(rows: &[LogRow]) -> Option<LogBlock> {
        let mut open = OpenBlock::behind(&BlockHead::genesis(), at(2));
        rows.iter().for_each(|row| open.add(row));
        open.sealed()
    }

    /// Made by another program from the page.
    #[test]
    fn the_hashes_are_those_of_the_written_forms() {
        let sealed = block(&[row(3), row(5)]).unwrap();
        assert_eq!((sealed.no, sealed.first_id, sealed.last_id, sealed.rows), (1, 3, 5, 2));
        assert_eq!(sealed.hash, "81a9f1240ee5152198a5000957028eba940184d8b27587b6dc0f550b035009b2");
        let parked = ParkedContent {
            id: "dl_1",
            tenant_id: Some("acme"),
            event_id: None,
            event_type: None,
            routing_key: "a.b.c",
            lane: "live",
            amount: Some("1.5"),
            currency: Some("EUR"),
            message_id: None,
            correlation_id: None,
            payload_hash: None,
            first_seen_at: at(1),
            properties: "{}",
            body_hash: GENESIS,
        };
        assert_eq!(parked.hash(), "b46e83421e61cf0259c31ea897fa7c69051df686c2f55e283a766afa9bf6762f");
        let edited = EditedContent {
            letter_id: "dl_1",
            edit_no: 1,
            edited_by: "anna",
            why: "three decimals",
            edited_at: at(1),
            body_hash: GENESIS,
        };
        assert_eq!(edited.hash(), "802ecb989541c6ea3f6ceb0404d00b73a4e0f38f63dfb8b25ba49a2534621e42");
    }

    #[test]
    fn a_block_is_another_one_for_whatever_a_row_says() {
        let whole = block(&[row(3), row(5)]).unwrap().hash;
        let acts: [fn(&mut LogRow); 5] = [
            |row| row.by = "otto".to_owned(),
            |row| row.at = at(2),
            |row| row.entry_id = Some("acme/1".to_owned()),
            |row| row.content = Some("x".to_owned()),
            |row| row.replay_id = None,
        ];
        for alter in acts {
            let mut altered = row(5);
            alter(&mut altered);
            assert_ne!(block(&[row(3), altered]).unwrap().hash, whole);
        }
        assert_ne!(block(&[row(5)]).unwrap().hash, whole);
        assert_ne!(block(&[row(5), row(3)]).unwrap().hash, whole);
        assert_eq!(block(&[]), None);
    }
}
