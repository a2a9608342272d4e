//! Rejections: what the batch says of each dead letter enters, one row per letter is written, and what is new about it is counted. A rejection
//! is told once, also where its message comes again.

use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, NaiveDate, Utc};
use sqlx::PgConnection;

use super::plan::RejectedRow;
use super::received::Counts;
use crate::domain::dead_letter::DeadLetter;
use crate::domain::letter::LetterStatus;
use crate::store::dead_letters::{self, LetterRow, Written};
use crate::store::received::Outcome;

/// One dead letter of the batch, with every rejection of it.
struct LetterRejections<'a> {
    letter: &'a DeadLetter,
    rows: Vec<&'a RejectedRow>,
}

impl LetterRejections<'_> {
    /// The day on which it is counted if it is new: that of the held event that it was, else of its receipt.
    fn day(&self) -> Option<NaiveDate> {
        let reception = &self.rows.first()?.reception;
        self.letter.identity.tenant_id.as_ref().map(|_| reception.day())
    }

    fn event_date(&self) -> Option<NaiveDate> {
        self.rows.first().map(|row| row.reception.arrival.event_date)
    }

    fn deliveries(&self) -> i64 {
        self.rows.iter().map(|row| row.reception.arrival.deliveries).max().unwrap_or(0)
    }

    fn row(&self, replay: Option<i64>) -> LetterRow<'_> {
        LetterRow {
            letter: self.letter,
            attempts: i32::try_from(self.rows.len()).unwrap_or(i32::MAX),
            received_on: self.day(),
            event_date: self.event_date(),
            deliveries: self.deliveries(),
            replay_id: replay.filter(|_| self.rows.iter().any(|row| row.replayed)),
        }
    }
}

/// Drops the rejections that are committed already: the session ended before the broker heard of them, so the message came once
/// more. A publisher that sends it again is another matter: that message has not been delivered before. Returns which
/// letters there are, and in which state; locked, so that it stays so.
pub async fn forget_told(
    db: &mut PgConnection,
    rejected: &mut Vec<RejectedRow>,
) -> Result<HashMap<String, LetterStatus>, sqlx::Error> {
    if rejected.is_empty() {
        return Ok(HashMap::new());
    }
    let ids: Vec<&str> = rejected.iter().map(|row| row.letter.id.as_str()).collect();
    let known = dead_letters::lock_known(&mut *db, &ids).await?;
    let parked = known.iter().filter(|letter| letter.status == LetterStatus::Parked);
    let mut parked: HashMap<&str, i64> = parked.map(|letter| (letter.id.as_str(), letter.deliveries)).collect();
    let mut again: HashMap<String, i64> = HashMap::new();
    rejected.retain(|row| {
        let deliveries = row.reception.arrival.deliveries;
        let is_told = parked.get_mut(row.letter.id.as_str()).filter(|told| deliveries > **told);
        if let Some(told) = is_told {
            *told = deliveries;
            again.insert(row.letter.id.clone(), deliveries);
            return false;
        }
        true
    });
    if !again.is_empty() {
        let again: Vec<(&str, i64)> = again.iter().map(|(id, deliveries)| (id.as_str(), *deliveries)).collect();
        dead_letters::set_deliveries(db, &again).await?;
    }
    Ok(known.into_iter().map(|letter| (letter.id, letter.status)).collect())
}

/// Writes each rejected letter once, with all of its rejections, and counts it.
pub async fn upsert_dead_letters(
    db: &mut PgConnection,
    rejected: &[RejectedRow],
    before: &HashMap<String, LetterStatus>,
    replay: Option<i64>,
    now: DateTime<Utc>,
    counts: &mut Counts,
) -> Result<(), sqlx::Error> {
    let mut told: BTreeMap<&str, LetterRejections<'_>> = BTreeMap::new();
    for row in rejected {
        let letter = &row.letter;
        let known = told.entry(&letter.id).or_insert_with(|| LetterRejections { letter, rows: Vec::new() });
        known.letter = letter;
        known.rows.push(row);
    }
    let letters: Vec<LetterRejections<'_>> = told.into_values().collect();
    if letters.is_empty() {
        return Ok(());
    }
    let rows: Vec<LetterRow<'_>> = letters.iter().map(|letter| letter.row(replay)).collect();
    let written = dead_letters::upsert_rejected(db, &rows, now).await?;
    count_letters(&letters, before, &written, counts);
    Ok(())
}

/// A letter that is new, or was resolved and is open again, is counted as parked; every other message of it is a copy.
fn count_letters(
    letters: &[LetterRejections<'_>],
    before: &HashMap<String, LetterStatus>,
    written: &[Written],
    counts: &mut Counts,
) {
    let mut fresh = HashMap::with_capacity(written.len());
    for letter in written {
        let is_fresh = match before.get(&letter.id) {
            Some(status) => *status == LetterStatus::Resolved,
            None => letter.is_new,
        };
        if let (true, Some(day)) = (is_fresh, letter.received_on) {
            fresh.insert(letter.id.as_str(), (day, letter.money));
        }
    }
    for told in letters {
        let Some(tenant) = &told.letter.identity.tenant_id else { continue };
        let mut own = fresh.remove(told.letter.id.as_str());
        for row in &told.rows {
            match own.take() {
                Some((day, money)) => {
                    counts.add(tenant, day, Outcome::Parked, 1, money);
                    counts.no_longer_held(tenant, &row.reception);
                }
                None => {
                    counts.copy(tenant, &row.reception);
                    counts.held_to(tenant, row.reception.held, Outcome::Duplicate);
                }
            }
        }
    }
}
