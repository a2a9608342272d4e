//! What the messages of a batch find of themselves: the events that are held, and the letters that they are replays of. Read under
//! the lock of the tenants' heads, before anything is decided.

use std::collections::HashMap;

use sqlx::{PgConnection, Row};

use super::decide::EventKey;
use super::read;
use super::received::{OwnLetter, Standing, money};
use crate::domain::ids::{EventId, TenantId};
use crate::store::dead_letters;

/// An event that is held, as the ledger knows it.
#[derive(Debug)]
pub struct Waiting {
    pub payload_hash: String,
    pub standing: Standing,
}

/// What of the batch is held.
pub(super) async fn find_held(
    db: &mut PgConnection,
    wanted: impl Iterator<Item = (&TenantId, &EventId)>,
) -> Result<HashMap<EventKey, Waiting>, sqlx::Error> {
    let (tenants, events): (Vec<&str>, Vec<&str>) =
        wanted.map(|(tenant, event)| (tenant.as_str(), event.as_str())).unzip();
    let rows = sqlx::query(
        "select wanted.tenant_id, wanted.event_id, h.payload_hash, h.received_on, h.amount, h.currency
           from unnest($1::text[], $2::text[]) as wanted (tenant_id, event_id)
          cross join lateral (
                select payload_hash, received_on, amount, currency
                  from fis_held
                 where tenant_id = wanted.tenant_id and event_id = wanted.event_id
                offset 0) h",
    )
    .bind(tenants)
    .bind(events)
    .fetch_all(db)
    .await?;
    let mut held = HashMap::with_capacity(rows.len());
    for row in rows {
        let key: EventKey = (read::tenant(&row)?, read::event(&row, "event_id")?);
        let standing = Standing { day: row.try_get("received_on")?, money: money(&row)? };
        held.insert(key, Waiting { payload_hash: row.try_get("payload_hash")?, standing });
    }
    Ok(held)
}

/// The letters that messages of the batch are replays of, by place; locked until the end, so that what is decided about their
/// day stays true.
pub(super) async fn find_letters(
    db: &mut PgConnection,
    replayed: &[Option<String>],
) -> Result<Vec<Option<OwnLetter>>, sqlx::Error> {
    let ids: Vec<&str> = replayed.iter().flatten().map(String::as_str).collect();
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let found = dead_letters::lock_replayed(db, &ids).await?;
    let mut letters: HashMap<String, OwnLetter> = HashMap::with_capacity(found.len());
    for found in found {
        let own = OwnLetter { open: found.open, day: found.received_on };
        let letter = letters.entry(found.id).or_insert(own);
        // Where several letters were edited into one message, the first open one is booked; the others were in its way.
        if !letter.open && own.open {
            *letter = own;
        }
    }
    Ok(replayed.iter().map(|id| letters.get(id.as_ref()?).copied()).collect())
}
