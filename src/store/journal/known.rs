//! What a posting asks before it decides: which events are in the journal already, and which entries a reversal mirrors. Read under the lock of
//! the tenants' heads.

use std::collections::HashMap;

use sqlx::{PgConnection, Row};

use super::read;
use crate::domain::ids::{EventId, EventKey, TenantId};
use crate::domain::receipt::{Original, Posted, Receipt};
use crate::faults::mutants::{self, mutant};
use crate::store::rows;

/// The events of a batch that are posted, and whether anything is held for its tenants: mostly nothing is, and every batch asks. Each
/// event is looked up by the index, in a part of the query that cannot be turned around (`offset 0`): a plan that was made while
/// the journal was small would otherwise read all of it (ADR 26).
///
/// # Errors
/// The database is away.
pub async fn find_posted(
    db: &mut PgConnection,
    wanted: impl Iterator<Item = (&TenantId, &EventId)>,
) -> Result<(HashMap<EventKey, Posted>, bool), sqlx::Error> {
    let (tenants, events): (Vec<&str>, Vec<&str>) =
        wanted.map(|(tenant, event)| (tenant.as_str(), event.as_str())).unzip();
    if tenants.is_empty() || mutant(mutants::UNIQUE_DROPPED) {
        return Ok((HashMap::new(), false));
    }
    let rows = sqlx::query(
        "select wanted.tenant_id, wanted.event_id, e.payload_hash, e.seq, e.entry_id, e.hash
           from unnest($1::text[], $2::text[]) as wanted (tenant_id, event_id)
          cross join lateral (
                select payload_hash, seq, entry_id, hash
                  from fis_journal_entry
                 where tenant_id = wanted.tenant_id and event_id = wanted.event_id
                offset 0) e
          union all
         select null, null, null, null, null, null
          where exists (select from fis_held where tenant_id = any($1))",
    )
    .bind(tenants)
    .bind(events)
    .fetch_all(db)
    .await?;
    let (mut posted, mut any_held) = (HashMap::with_capacity(rows.len()), false);
    for row in rows {
        if row.try_get::<Option<&str>, _>("tenant_id")?.is_none() {
            any_held = true;
            continue;
        }
        let text = |name| row.try_get::<&str, _>(name).map(Into::into);
        let receipt = Receipt { seq: row.try_get("seq")?, entry_id: text("entry_id")?, hash: text("hash")? };
        posted.insert(rows::event_key(&row)?, Posted { payload_hash: row.try_get("payload_hash")?, receipt });
    }
    Ok((posted, any_held))
}

/// The entries that a batch wants to reverse, by their events, with their lines.
///
/// # Errors
/// The database is away.
pub async fn find_originals(
    db: &mut PgConnection,
    wanted: &[EventKey],
) -> Result<HashMap<EventKey, Original>, sqlx::Error> {
    let (tenants, events): (Vec<&str>, Vec<&str>) =
        wanted.iter().map(|(tenant, event)| (tenant.as_str(), event.as_str())).unzip();
    let rows = sqlx::query(
        "select distinct on (e.tenant_id, e.seq)
                e.tenant_id, e.event_id, e.seq, e.entry_id, e.accounting_date,
                exists (select from fis_journal_entry r
                         where r.tenant_id = e.tenant_id and r.reverses_entry_id = e.entry_id) as reversed
           from unnest($1::text[], $2::text[]) as wanted (tenant_id, event_id)
          cross join lateral (
                select tenant_id, event_id, seq, entry_id, accounting_date
                  from fis_journal_entry
                 where tenant_id = wanted.tenant_id and event_id = wanted.event_id
                offset 0) e
          order by e.tenant_id, e.seq",
    )
    .bind(tenants)
    .bind(events)
    .fetch_all(&mut *db)
    .await?;
    let mut originals = HashMap::with_capacity(rows.len());
    let (mut places, mut events) = (Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len()));
    for row in rows {
        let key = rows::event_key(&row)?;
        places.push((key.0.clone(), row.try_get::<i64, _>("seq")?));
        events.push(key.clone());
        let original = Original {
            entry_id: row.try_get("entry_id")?,
            accounting_date: row.try_get("accounting_date")?,
            lines: Vec::new(),
            reversed: row.try_get("reversed")?,
        };
        originals.insert(key, original);
    }
    let mut lines = read::lines(db, &places).await?;
    for (event, place) in events.into_iter().zip(places) {
        if let Some(original) = originals.get_mut(&event) {
            original.lines = lines.remove(&place).unwrap_or_default();
        }
    }
    Ok(originals)
}

/// The event behind an entry.
///
/// # Errors
/// The database is away.
pub async fn event_at(db: &mut PgConnection, tenant: &TenantId, seq: i64) -> Result<Option<EventId>, sqlx::Error> {
    let row = sqlx::query("select event_id from fis_journal_entry where tenant_id = $1 and seq = $2")
        .bind(tenant.as_str())
        .bind(seq)
        .fetch_optional(db)
        .await?;
    row.map(|row| rows::event(&row, "event_id")).transpose()
}
