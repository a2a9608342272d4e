//! A property of posting, without a database: random events, in random batches, through the real decoder, rules and verdicts, and
//! one by one through a tiny ledger that is obviously right. Same verdicts, same entries, same balances, same hashes.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use fis::domain::batch::{BatchMember, BatchProgress, Progress};
use fis::domain::books::{Books, Mapped};
use fis::domain::chain::{ChainedEntry, GENESIS};
use fis::domain::dead_letter::DeadLetter;
use fis::domain::disposition::Failure;
use fis::domain::entry::Side;
use fis::domain::event::{Identity, InboundEvent, RawMessage, decode};
use fis::domain::ids::entry_id;
use fis::domain::retry::RetryPolicy;
use fis::journal::{Arrival, Came, Item, ItemFacts, KeptMessage, LedgerView, Original, Source, Step, Verdict, decide};
use proptest::prelude::*;
use rust_decimal::Decimal;
use sha2::{Digest, Sha256};
use std::sync::Arc;

const BOOKS: &str = crate::shared::SALES;

/// An event as the generator makes it. Few ids, so that duplicates, conflicts and reversals of reversals happen all the time.
#[derive(Debug, Clone)]
enum Sent {
    Order { id: u8, cents: u16, tax: u16 },
    Cancel { id: u8, of: u8 },
}

impl Sent {
    fn id(&self) -> String {
        let (Self::Order { id, .. } | Self::Cancel { id, .. }) = self;
        format!("e{id}")
    }

    fn body(&self, batch: Batch) -> String {
        let id = self.id();
        let size = |size: Option<i64>| size.map(|size| format!(r#","size":{size}"#)).unwrap_or_default();
        let batch = batch.map(|(id, of)| format!(r#""batch":{{"id":"b{id}"{}}},"#, size(of))).unwrap_or_default();
        match self {
            Self::Order { cents, tax, .. } => format!(
                r#"{{"eventId":"{id}",{batch}"tenantId":"acme","occurredAt":"2026-02-25T10:00:00Z","payload":{{"total":{},"tax":{}}}}}"#,
                Decimal::new(i64::from(*cents), 2),
                Decimal::new(i64::from(*tax), 2)
            ),
            Self::Cancel { of, .. } => {
                format!(r#"{{"eventId":"{id}",{batch}"tenantId":"acme","payload":{{"of":"e{of}"}}}}"#)
            }
        }
    }

    fn key(&self) -> &'static str {
        match self {
            Self::Order { .. } => "shop.order.completed",
            Self::Cancel { .. } => "shop.order.cancelled",
        }
    }
}

fn sent() -> impl Strategy<Value = Sent> {
    prop_oneof![
        (0..12u8, 0..400u16, 0..300u16).prop_map(|(id, cents, tax)| Sent::Order { id, cents, tax }),
        (0..12u8, 0..12u8).prop_map(|(id, of)| Sent::Cancel { id, of }),
    ]
}

/// The batch that an event says it belongs to, and how large that says to be.
type Batch = Option<(u8, Option<i64>)>;

fn batch() -> impl Strategy<Value = Batch> {
    prop::option::of((0..2u8, prop::option::of(1..9i64)))
}

type Lines = Vec<(&'static str, Side, i64)>;

/// The tiny ledger: lists and maps, in cents.
#[derive(Default)]
struct Reference {
    entries: Vec<(String, Lines, Option<usize>)>,
    /// What each posted event said, and where it is.
    posted: BTreeMap<String, (String, usize)>,
    /// How each member of each batch ended, the size of each, and what was told at its completion.
    members: BTreeMap<(u8, String), &'static str>,
    sizes: BTreeMap<u8, i64>,
    completed: BTreeMap<u8, [usize; 2]>,
}

impl Reference {
    fn count(&mut self, sent: &Sent, batch: Batch, verdict: &'static str) {
        let Some((batch, size)) = batch else { return };
        if let Some(size) = size {
            let most = self.sizes.get(&batch).copied().unwrap_or(0).max(size);
            self.sizes.insert(batch, most);
        }
        let place = (batch, sent.id());
        match verdict {
            "posted" | "duplicate" => drop(self.members.insert(place, "posted")),
            "held" => {}
            _ => drop(self.members.entry(place).or_insert("rejected")),
        }
        let [posted, rejected] = self.counts(batch);
        if self.sizes.get(&batch).is_some_and(|size| i64::try_from(posted + rejected).unwrap() >= *size) {
            self.completed.entry(batch).or_insert([posted, rejected]);
        }
    }

    fn counts(&self, batch: u8) -> [usize; 2] {
        ["posted", "rejected"]
            .map(|word| self.members.iter().filter(|((of, _), ended)| *of == batch && **ended == word).count())
    }

    fn post(&mut self, sent: &Sent) -> &'static str {
        if let Some((said, _)) = self.posted.get(&sent.id()) {
            return if *said == format!("{sent:?}") { "duplicate" } else { "idempotency_conflict" };
        }
        let (lines, reverses) = match sent {
            Sent::Order { cents, tax, .. } => {
                let (total, tax) = (i64::from(*cents), i64::from(*tax));
                let mut lines = vec![("1100", Side::Debit, total), ("4000", Side::Credit, total - tax)];
                lines.extend((tax != 0).then_some(("2200", Side::Credit, tax)));
                if lines.iter().any(|(_, _, amount)| *amount <= 0) {
                    return "bad_amount";
                }
                (lines, None)
            }
            Sent::Cancel { of, .. } => {
                let Some((_, place)) = self.posted.get(&format!("e{of}")) else { return "held" };
                if self.entries.iter().any(|(_, _, reverses)| *reverses == Some(*place)) {
                    return "already_reversed";
                }
                let mirror = |(account, side, amount): &(&'static str, Side, i64)| (*account, side.opposite(), *amount);
                (self.entries[*place].1.iter().map(mirror).collect(), Some(*place))
            }
        };
        self.posted.insert(sent.id(), (format!("{sent:?}"), self.entries.len()));
        self.entries.push((sent.id(), lines, reverses));
        "posted"
    }
}

struct Nobody;

impl Source for Nobody {
    fn dead_letter(&self, failure: Failure) -> DeadLetter {
        DeadLetter {
            payload_hash: None,
            id: "dl".to_owned(),
            identity: Identity::default(),
            routing_key: String::new(),
            lane: "live",
            failure,
            money: None,
            message_id: None,
            traceparent: None,
            properties: String::new(),
            body: Vec::new(),
        }
    }

    fn kept(&self) -> KeptMessage {
        KeptMessage {
            routing_key: String::new(),
            properties: String::new(),
            body: Vec::new(),
            received_at: DateTime::UNIX_EPOCH,
        }
    }
}

fn item<'a>(event: &InboundEvent<'_>, books: &Arc<Books>, now: DateTime<Utc>) -> Item<'a> {
    let step = match books.map(event, now) {
        Ok(Mapped::Entry { entry, rule }) => Step::Post { entry, rule },
        Ok(Mapped::Reversal(request)) => Step::Reverse { request, books: Arc::clone(books) },
        Ok(Mapped::Ignored { rule }) => Step::Ignore { rule },
        Err(failure) => Step::Fail(failure),
    };
    let facts = ItemFacts {
        tenant_id: event.tenant_id.clone(),
        event_id: event.event_id.clone(),
        event_type: event.event_type.clone(),
        payload_hash: event.payload_hash.clone(),
        lane: "live",
        message_id: None,
        correlation_id: None,
        traceparent: None,
        books_version: Some(books.version),
        max_attempts: None,
        policy: RetryPolicy::default(),
    };
    let member = event.batch.clone().map(|batch| BatchMember {
        tenant_id: event.tenant_id.clone(),
        event_id: event.event_id.clone(),
        batch,
    });
    let day = now.date_naive();
    let arrival = Arrival { on: day, event_date: day, money: None, deliveries: 0 };
    Item { facts: Some(facts), step, member, arrival, came: Came::FromBroker, source: &Nobody }
}

fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Posted(_) => "posted",
        Verdict::Duplicate(_) => "duplicate",
        Verdict::Ignored => "ignored",
        Verdict::Held(_) => "held",
        Verdict::Gone => "gone",
        Verdict::Rejected { failure, .. } => failure.reason.code(),
    }
}

/// The hash of `docs/hash-chain.md`, written out once more.
fn reference_hash(entry: &ChainedEntry, seq: usize, previous: &str, lines: &Lines, reverses: Option<usize>) -> String {
    let mut texts = vec![
        "fis-entry-v1".to_owned(),
        "acme".to_owned(),
        seq.to_string(),
        previous.to_owned(),
        format!("acme/{seq}"),
        entry.origin.event_id.to_string(),
        entry.origin.event_type.to_string(),
        entry.origin.payload_hash.clone(),
        if reverses.is_some() { "cancel" } else { "sale" }.to_owned(),
        "3".to_owned(),
        "2026-02-25".to_owned(),
        String::new(),
        "2026-03-01T00:00:00.000000Z".to_owned(),
        entry.description.clone(),
        reverses.map(|place| format!("acme/{}", place + 1)).unwrap_or_default(),
        lines.len().to_string(),
    ];
    for (account, side, cents) in lines {
        let amount = Decimal::new(*cents, 2).normalize().to_string();
        texts.extend([(*account).to_owned(), side.as_str().to_owned(), amount.clone(), "EUR".to_owned(), amount]);
    }
    let bytes: String = texts.iter().map(|text| format!("{}:{text},", text.len())).collect();
    hex::encode(Sha256::digest(bytes))
}

fn check_entries(entries: &[ChainedEntry], reference: &Reference) {
    assert_eq!(entries.len(), reference.entries.len());
    let mut previous = GENESIS.to_owned();
    let mut balances: BTreeMap<&str, i64> = BTreeMap::new();
    for (place, (entry, (id, lines, reverses))) in entries.iter().zip(&reference.entries).enumerate() {
        assert_eq!((entry.seq, entry.origin.event_id.as_str()), (i64::try_from(place + 1).unwrap(), id.as_str()));
        let real: Vec<_> =
            entry.lines.iter().map(|line| (line.account.as_str().to_owned(), line.side, line.amount)).collect();
        let expected: Vec<_> = lines
            .iter()
            .map(|(account, side, cents)| ((*account).to_owned(), *side, Decimal::new(*cents, 2)))
            .collect();
        assert_eq!(real, expected, "entry {}", place + 1);
        let hash = reference_hash(entry, place + 1, &previous, lines, *reverses);
        assert_eq!((&entry.previous_hash, &entry.hash), (&previous, &hash), "entry {}", place + 1);
        previous = hash;
        for (account, side, cents) in lines {
            *balances.entry(*account).or_default() += if *side == Side::Debit { *cents } else { -*cents };
        }
    }
    assert_eq!(balances.values().sum::<i64>(), 0, "what one account gains another gives");
}

fn check_batches(completed: &[BatchProgress], known: &LedgerView, reference: &Reference) {
    let counts = |progress: &Progress| [progress.posted, progress.rejected].map(|n| usize::try_from(n).unwrap());
    let told: Vec<_> = completed.iter().map(|batch| (batch.batch_id.to_string(), counts(&batch.progress))).collect();
    let expected: BTreeMap<_, _> = reference.completed.iter().map(|(id, counts)| (format!("b{id}"), *counts)).collect();
    assert_eq!(told.len(), expected.len(), "each batch is told once");
    assert_eq!(told.into_iter().collect::<BTreeMap<_, _>>(), expected);
    for ((_, id), progress) in &known.tally.batches {
        let batch: u8 = id.as_str()[1..].parse().unwrap();
        assert_eq!((counts(progress), progress.size), (reference.counts(batch), reference.sizes.get(&batch).copied()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_batch_ends_as_its_events_one_by_one(stream in prop::collection::vec((sent(), batch(), any::<bool>()), 1..60)) {
        let books = Arc::new(Books::parse(BOOKS, 3).unwrap());
        let now = DateTime::parse_from_rfc3339("2026-03-01T00:00:00Z").unwrap().to_utc();
        let mut reference = Reference::default();
        let expected: Vec<_> = stream
            .iter()
            .map(|(sent, batch, _)| {
                let verdict = reference.post(sent);
                reference.count(sent, *batch, verdict);
                verdict
            })
            .collect();

        // The same stream in batches that end where the generator says; what the ledger knows goes on from batch to batch.
        let mut known = LedgerView::default();
        let (mut verdicts, mut entries, mut batch) = (Vec::new(), Vec::new(), Vec::new());
        let mut completed = Vec::new();
        for (index, (sent, batch_of, last)) in stream.iter().enumerate() {
            let body = sent.body(*batch_of);
            let header = |_: &str| None;
            let message = RawMessage { body: body.as_bytes(), routing_key: sent.key(), content_type: None, header: &header };
            let event = decode(message, None).map_err(|undecodable| undecodable.failure).unwrap();
            batch.push(item(&event, &books, now));
            if *last || index + 1 == stream.len() {
                let (ended, plan) = decide(std::mem::take(&mut batch), &mut known, now, &mut || 0);
                verdicts.extend(ended.iter().map(word));
                // As the database would find them for the next batch.
                for entry in &plan.entries {
                    let key = (entry.origin.tenant_id.clone(), entry.origin.event_id.clone());
                    known.originals.entry(key).or_insert_with(|| Original {
                        entry_id: entry_id(&entry.origin.tenant_id, entry.seq),
                        accounting_date: entry.accounting_date,
                        lines: entry.lines.clone(),
                        reversed: false,
                    });
                }
                entries.extend(plan.entries);
                completed.extend(plan.tally.completed);
            }
        }
        prop_assert_eq!(verdicts, expected);
        check_entries(&entries, &reference);
        check_batches(&completed, &known, &reference);
    }
}
