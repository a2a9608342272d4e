//! What posting means for the dead letters. Verdicts enter; letters whose event is in the books, or is none of their business,
//! become resolved in the same transaction, with the entry that proves it. Which letter a message is, its content says:
//! a header that a publisher could forge decides nothing here.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use sqlx::{PgConnection, Row};

use super::decide::{RejectedRow, Verdict};
use super::item::Item;
use super::received::{Column, Counts};
use crate::domain::chain::ChainedEntry;
use crate::domain::ids::entry_id;
use crate::store::rows;

/// The content ids of the messages that say they are replays, by place.
pub fn replayed(items: &[Item<'_>]) -> Vec<Option<String>> {
    items.iter().map(|item| item.source.replayed()).collect()
}

/// An edited copy that is rejected goes by the name of the letter it was made from: one event, one letter.
pub async fn adopt(db: &mut PgConnection, rejected: &mut [RejectedRow]) -> Result<(), sqlx::Error> {
    if rejected.is_empty() {
        return Ok(());
    }
    let ids: Vec<&str> = rejected.iter().map(|row| row.letter.id.as_str()).collect();
    let copies: HashMap<String, String> =
        sqlx::query_as("select copy_id, letter_id from fis_dead_letter_edit where copy_id = any($1) order by edit_no")
            .bind(ids)
            .fetch_all(db)
            .await?
            .into_iter()
            .collect();
    for RejectedRow { letter, .. } in rejected {
        if let Some(original) = copies.get(&letter.id) {
            letter.id.clone_from(original);
        }
    }
    Ok(())
}

/// Resolves the letters whose replays came to an end.
pub async fn settle_replays(
    db: &mut PgConnection,
    verdicts: &[Verdict],
    replayed: &[Option<String>],
    now: DateTime<Utc>,
    counts: &mut Counts,
) -> Result<(), sqlx::Error> {
    let mut done = Done::default();
    for (verdict, letter) in verdicts.iter().zip(replayed) {
        let Some(id) = letter else { continue };
        match verdict {
            Verdict::Posted(receipt) => done.push(id, Some(&receipt.entry_id), "posted"),
            Verdict::Duplicate(receipt) => done.push(id, receipt.as_ref().map(|r| &*r.entry_id), "duplicate"),
            Verdict::Ignored => done.push(id, None, "ignored"),
            // Held: its retry carries the header on. Rejected: the letter is parked again, with the new reason.
            Verdict::Held(_) | Verdict::Rejected { .. } => {}
        }
    }
    if !done.ids.is_empty() {
        resolve(db, &done, now, counts).await?;
    }
    Ok(())
}

#[derive(Default)]
struct Done<'a> {
    ids: Vec<&'a str>,
    entries: Vec<Option<&'a str>>,
    outcomes: Vec<&'static str>,
}

impl<'a> Done<'a> {
    fn push(&mut self, id: &'a str, entry: Option<&'a str>, outcome: &'static str) {
        self.ids.push(id);
        self.entries.push(entry);
        self.outcomes.push(outcome);
    }
}

async fn resolve(
    db: &mut PgConnection,
    done: &Done<'_>,
    now: DateTime<Utc>,
    counts: &mut Counts,
) -> Result<(), sqlx::Error> {
    // Delivered twice in one batch it is posted and its own duplicate: `posted` comes first.
    let resolved = sqlx::query(
        "with done (id, entry_id, outcome) as (select * from unnest($1::text[], $2::text[], $3::text[])),
              own as (select distinct on (1) coalesce(e.letter_id, done.id) as id, done.entry_id, done.outcome, e.edit_no
                        from done
                        left join fis_dead_letter_edit e on e.copy_id = done.id
                       order by 1, done.outcome desc, e.edit_no desc),
              resolved as (update fis_dead_letter d
                              set status = 'resolved', resolved_as = own.outcome, entry_id = own.entry_id, settled_at = $4
                             from own
                            where d.id = own.id and d.status in ('parked', 'replaying')
                        returning d.id, d.tenant_id, d.received_on, d.amount, d.currency, own.entry_id, own.outcome, own.edit_no),
              edited as (insert into fis_entry_edit (entry_id, letter_id, edit_no, edited_by, why, edited_at)
                         select r.entry_id, e.letter_id, e.edit_no, e.edited_by, e.why, e.edited_at
                           from resolved r
                           join fis_dead_letter_edit e on e.letter_id = r.id and e.edit_no = r.edit_no
                          where r.outcome = 'posted'
                             on conflict do nothing)
         select tenant_id, received_on, amount, currency, entry_id, outcome
           from resolved
          where received_on is not null
          order by id",
    )
    .bind(&done.ids)
    .bind(&done.entries)
    .bind(&done.outcomes)
    .bind(now)
    .fetch_all(db)
    .await?;
    let mut booked: HashSet<String> = HashSet::new();
    for row in &resolved {
        let (tenant, day, money) = (rows::tenant(row)?, row.try_get("received_on")?, rows::worth(row)?);
        match row.try_get("outcome")? {
            // The entry has taken its place on its day; of several that were edited into one message, that of the first.
            "posted" if booked.insert(row.try_get("entry_id")?) => counts.add(&tenant, day, Column::Parked, -1, money),
            "ignored" => counts.move_over(&tenant, Some(day), money, Column::Parked, Column::Ignored),
            _ => counts.move_over(&tenant, Some(day), money, Column::Parked, Column::Duplicate),
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
    macro_rules! column {
        ($entry:ident => $value:expr) => {
            entries.iter().map(|$entry| $value).collect::<Vec<_>>()
        };
    }
    let superseded = sqlx::query(
        "update fis_dead_letter d
            set status = 'resolved', entry_id = posted.entry_id, settled_at = $5,
                resolved_as = case when d.payload_hash = posted.payload_hash then 'posted' else 'superseded' end
           from unnest($1::text[], $2::text[], $3::text[], $4::text[]) as posted (tenant_id, event_id, entry_id, payload_hash)
          where d.tenant_id = posted.tenant_id and d.event_id = posted.event_id and d.status in ('parked', 'replaying')
            -- A conflict comes behind what is posted, perhaps in this very batch: nothing was corrected by that.
            and d.reason <> 'idempotency_conflict'
      returning d.tenant_id, d.received_on, d.amount, d.currency",
    )
    .bind(column!(entry => entry.origin.tenant_id.as_str()))
    .bind(column!(entry => entry.origin.event_id.as_str()))
    .bind(column!(entry => entry_id(&entry.origin.tenant_id, entry.seq)))
    .bind(column!(entry => entry.origin.payload_hash.as_str()))
    .bind(now)
    .fetch_all(db)
    .await?;
    for row in &superseded {
        let (tenant, day, money) = (rows::tenant(row)?, row.try_get("received_on")?, rows::worth(row)?);
        counts.move_over(&tenant, day, money, Column::Parked, Column::Duplicate);
    }
    Ok(())
}
