//! What must become of each event, in the fewest words. A message is an event of a case, or poison known by its bytes. A case is a
//! tenant's event id with the contents that were sent under it; where order decides, several ends are legal.

use std::sync::Arc;

use rust_decimal::Decimal;

use crate::json::Json;
use crate::wire::Properties;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub account: String,
    pub debit: bool,
    pub amount: Decimal,
    pub currency: String,
    pub base: Decimal,
}

impl Line {
    pub fn mirrored(&self) -> Self {
        Self { debit: !self.debit, ..self.clone() }
    }
}

/// An entry as it must be in the books.
#[derive(Debug, Clone)]
pub struct Entry {
    pub rule: &'static str,
    /// None: the day on which it was received.
    pub date: Option<String>,
    pub original_date: Option<String>,
    pub lines: Vec<Line>,
}

/// What must become of one content of an event id.
#[derive(Debug, Clone)]
pub enum Fate {
    Posted(Entry),
    /// Posted as the mirror of another case's entry; of several reversals of one case, one is, and the others are dead letters.
    Reversal {
        of: usize,
    },
    Ignored,
    /// For longer than a storm lasts, with this reason.
    Held(&'static str),
    Dead(&'static str),
}

/// What an event says, whatever the dialect.
#[derive(Debug, Clone)]
pub struct Draft {
    pub tenant: usize,
    pub event_id: String,
    pub event_type: String,
    pub time: Option<String>,
    pub payload: Json,
    pub batch: Option<(String, Option<usize>)>,
    pub attempts_max: Option<u32>,
}

#[derive(Debug, Clone)]
pub struct Variant {
    pub draft: Draft,
    pub payload_hash: String,
    pub fate: Fate,
}

/// All that was sent under one event id of one tenant.
#[derive(Debug, Clone)]
pub struct Case {
    pub tenant: &'static str,
    pub event_id: String,
    pub variants: Vec<Variant>,
    /// What the admin makes of it: nobody sends this content, and in the end it is posted instead of the one that was sent.
    pub edited: Option<Variant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    Event { case: usize, variant: usize },
    Poison(&'static str),
}

/// A message to publish.
#[derive(Debug, Clone)]
pub struct Message {
    pub exchange: &'static str,
    pub routing_key: String,
    pub content_type: &'static str,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub meaning: Meaning,
    /// Part of a rush: published as fast as can be.
    pub rush: bool,
    /// Bytes that no library would send, in place of key, type and headers. These say then how they are read.
    pub odd: Option<Arc<Odd>>,
}

/// A routing key and properties as they go over the wire.
#[derive(Debug)]
pub struct Odd {
    pub routing_key: Vec<u8>,
    pub properties: Properties,
}

/// A publisher's batch: its members with what each must come to.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    pub tenant: &'static str,
    pub id: String,
    pub size: Option<usize>,
    pub posted: i64,
    pub rejected: i64,
    pub ignored: i64,
}

/// The whole script of a storm.
#[derive(Debug, Clone, Default)]
pub struct Script {
    pub messages: Vec<Message>,
    pub cases: Vec<Case>,
    pub batches: Vec<Batch>,
    /// How often the hostile publisher had his turn.
    pub hostile: usize,
}

impl Script {
    pub fn reversals_of(&self, case: usize) -> impl Iterator<Item = (usize, &Case)> {
        self.cases.iter().enumerate().filter(move |(_, other)| {
            other.variants.iter().any(|variant| matches!(variant.fate, Fate::Reversal { of } if of == case))
        })
    }
}
