//! What posting means for the dead letters. Verdicts enter; letters whose event is in the books, or is none of their business,
//! become resolved in the same transaction, with the entry that proves it. Which letter a message is, its content says:
//! a header that a publisher could forge decides nothing here.

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use sqlx::PgConnection;

use super::item::Item;
use super::received::Counts;
use super::verdict::Verdict;
use crate::domain::chain::ChainedEntry;
use crate::domain::letter::Resolution;
use crate::store::dead_letters::{self, Ended};
use crate::store::received::Outcome;

/// The content ids of the messages that say they are replays, by place.
pub fn replayed(items: &[Item<'_>]) -> Vec<Option<String>> {
    items.iter().map(|item| item.source.replayed()).collect()
}

/// Resolves the letters whose replays came to an end.
pub async fn settle_replays(
    db: &mut PgConnection,
    verdicts: &[Verdict],
    replayed: &[Option<String>],
    now: DateTime<Utc>,
    counts: &mut Counts,
) -> Result<(), sqlx::Error> {
    let mut ended = Vec::new();
    for (verdict, letter) in verdicts.iter().zip(replayed) {
        let Some(id) = letter else { continue };
        let (entry_id, how) = match verdict {
            Verdict::Posted(receipt) => (Some(&*receipt.entry_id), Resolution::Posted),
            Verdict::Duplicate(receipt) => (receipt.as_ref().map(|r| &*r.entry_id), Resolution::Duplicate),
            Verdict::Ignored => (None, Resolution::Ignored),
            // Held: its retry carries the header on. Rejected: the letter is parked again, with the new reason.
            Verdict::Held(_) | Verdict::Rejected { .. } => continue,
        };
        ended.push(Ended { id, entry_id, how });
    }
    if ended.is_empty() {
        return Ok(());
    }
    let mut booked: HashSet<String> = HashSet::new();
    for letter in dead_letters::resolve(db, &ended, now).await? {
        let (tenant, day, money) = (&letter.tenant_id, letter.received_on, letter.money);
        // The entry has taken its place on its day; of several that were edited into one message, that of the first.
        let mut is_booked = |entry: Option<String>| entry.is_some_and(|entry| booked.insert(entry));
        match letter.how {
            Resolution::Posted if is_booked(letter.entry_id) => counts.add(tenant, day, Outcome::Parked, -1, money),
            Resolution::Ignored => counts.move_over(tenant, Some(day), money, Outcome::Parked, Outcome::Ignored),
            Resolution::Posted | Resolution::Duplicate | Resolution::Superseded => {
                counts.move_over(tenant, Some(day), money, Outcome::Parked, Outcome::Duplicate);
            }
        }
    }
    Ok(())
}

/// The event behind an open letter was posted from another message: the publisher has sent it again, as it was or corrected.
pub async fn supersede(
    db: &mut PgConnection,
    entries: &[ChainedEntry],
    now: DateTime<Utc>,
    counts: &mut Counts,
) -> Result<(), sqlx::Error> {
    if entries.is_empty() {
        return Ok(());
    }
    for letter in dead_letters::supersede(db, entries, now).await? {
        counts.move_over(&letter.tenant_id, letter.received_on, letter.money, Outcome::Parked, Outcome::Duplicate);
    }
    Ok(())
}
