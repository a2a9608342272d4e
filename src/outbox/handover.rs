//! The handover from posting to relaying inside one process: entries that were just committed enter, the relay takes them. Mostly a row of the outbox is read milliseconds after its
//! entry was written, and reading the entry and its lines back would cost more than everything else about it. Only a shortcut: what
//! is not here, or may not be believed any more, is read from the journal, and gives the same bytes.
//!
//! What must never happen: an entry is announced that the ledger does not have in that place. After PostgreSQL was restored, a
//! sequence may belong to another entry. No connection survives that, so an entry is believed only for as long as no new
//! connection was made since before it was posted.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Mutex;

use tokio::sync::Notify;

use crate::domain::chain::ChainedEntry;
use crate::domain::ids::EntryPlace;

/// About what a relay that keeps up has before it: a window and what is committed meanwhile.
const ENTRIES_MAX: usize = 4096;
/// A longer entry is read back, so that what is kept here is bounded in bytes too.
const LINES_MAX: usize = 16;

/// The way from a commit to the relay of the same process: a bell, and the entries that were just committed.
#[derive(Default)]
pub struct Handover {
    kept: Mutex<Kept>,
    bell: Notify,
}

#[derive(Default)]
struct Kept {
    /// The connections that had been made when these were posted.
    connections: u64,
    /// The entries in the order in which they were posted, which is about the order in which they leave.
    entries: VecDeque<ChainedEntry>,
}

impl Handover {
    /// Gives the entries of a commit, and rings. Without a number of connections nobody knows whether the ledger is the same by now: then the relay
    /// reads them from the journal.
    pub fn give(&self, connections: Option<u64>, entries: Vec<ChainedEntry>) {
        if let Some(connections) = connections {
            self.keep(connections, entries);
        }
        self.bell.notify_one();
    }

    /// Waits for the next commit; one that came since the last call counts.
    pub async fn rung(&self) {
        self.bell.notified().await;
    }

    /// Keeps entries that were posted while that many connections had been made, before and after.
    fn keep(&self, connections: u64, entries: Vec<ChainedEntry>) {
        let Ok(mut kept) = self.kept.lock() else { return };
        if kept.connections != connections {
            *kept = Kept { connections, ..Kept::default() };
        }
        kept.entries.extend(entries.into_iter().filter(|entry| entry.lines.len() <= LINES_MAX));
        // What nobody takes, because another instance relays or this one is far behind, makes room for what comes.
        let surplus = kept.entries.len().saturating_sub(ENTRIES_MAX);
        kept.entries.drain(..surplus);
    }

    /// Takes what is kept of these places, if no connection was made since. What stands before the last of them was passed over, and
    /// is forgotten: the next places will be behind it.
    #[must_use]
    pub fn take(&self, connections: u64, places: &[EntryPlace]) -> HashMap<EntryPlace, ChainedEntry> {
        let Ok(mut kept) = self.kept.lock() else { return HashMap::new() };
        if kept.connections != connections {
            return HashMap::new();
        }
        let wanted: HashSet<(&str, i64)> = places.iter().map(|(tenant, seq)| (tenant.as_str(), *seq)).collect();
        let is_wanted = |entry: &ChainedEntry| wanted.contains(&(entry.origin.tenant_id.as_str(), entry.seq));
        let Some(last) = kept.entries.iter().rposition(is_wanted) else { return HashMap::new() };
        let passed = kept.entries.drain(..=last).filter(is_wanted);
        passed.map(|entry| ((entry.origin.tenant_id.clone(), entry.seq), entry)).collect()
    }
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, NaiveDate};

    use super::*;
    use crate::domain::chain::{GENESIS, Provenance};
    use crate::domain::ids::{EventId, EventType, TenantId};

    fn entry(seq: i64) -> ChainedEntry {
        ChainedEntry {
            seq,
            origin: Provenance {
                tenant_id: TenantId::parse("acme").unwrap(),
                event_id: EventId::parse(&format!("e{seq}")).unwrap(),
                event_type: EventType::parse("a.b.c").unwrap(),
                payload_hash: String::new(),
                rule_name: String::new(),
                rule_version: 1,
                lane: "live",
                message_id: None,
                correlation_id: None,
                traceparent: None,
            },
            accounting_date: NaiveDate::MIN,
            original_date: None,
            posted_at: DateTime::UNIX_EPOCH,
            description: String::new(),
            reverses_entry_id: None,
            lines: Vec::new(),
            previous_hash: GENESIS.to_owned(),
            hash: GENESIS.to_owned(),
        }
    }

    fn place(seq: i64) -> EntryPlace {
        (TenantId::parse("acme").unwrap(), seq)
    }

    #[test]
    fn an_entry_is_taken_once_and_only_from_the_connections_it_was_posted_with() {
        let handover = Handover::default();
        handover.keep(3, vec![entry(1), entry(2)]);
        assert!(handover.take(4, &[place(1)]).is_empty(), "a new connection may lead to a ledger that was restored");
        assert_eq!(handover.take(3, &[place(1), place(9)]).into_keys().collect::<Vec<_>>(), [place(1)]);
        assert!(handover.take(3, &[place(1)]).is_empty());
        handover.keep(4, vec![entry(3)]);
        assert!(handover.take(4, &[place(2)]).is_empty(), "it was posted before the connection was made");
        assert_eq!(handover.take(4, &[place(3)]).len(), 1);
    }

    #[test]
    fn what_nobody_takes_is_bounded() {
        let handover = Handover::default();
        let most = i64::try_from(ENTRIES_MAX).unwrap();
        for seq in 1..=most * 3 {
            handover.keep(1, vec![entry(seq)]);
        }
        let kept = handover.kept.lock().unwrap();
        assert_eq!(kept.entries.len(), ENTRIES_MAX);
        assert_eq!(kept.entries.back().map(|entry| entry.seq), Some(most * 3));
    }
}
