//! The SQL of posting, in the order of the phase table. Each statement takes the caller's connection and can only run inside
//! the caller's transaction. Batches travel as arrays.

use std::collections::{BTreeMap, HashMap};

use sqlx::{PgConnection, Row};

use super::decide::{EventKey, Original, Posted, Receipt};
use super::item::Item;
use super::read;
use crate::domain::chain::ChainHead;
use crate::domain::ids::{EventId, TenantId};
use crate::platform::mutants::{self, mutant};

#[derive(Debug, PartialEq, Eq)]
pub struct LockedHead {
    pub chain: ChainHead,
    pub books_version: i32,
}

/// Locks in tenant order; otherwise two batches could wait on each other.
pub async fn lock_heads(
    db: &mut PgConnection,
    tenants: &[&str],
) -> Result<BTreeMap<TenantId, LockedHead>, sqlx::Error> {
    if tenants.is_empty() {
        return Ok(BTreeMap::new());
    }
    let query = if mutant(mutants::HEAD_NOT_LOCKED) {
        "select tenant_id, seq, hash, books_version from fis_chain_head where tenant_id = any($1)"
    } else {
        "select tenant_id, seq, hash, books_version
           from fis_chain_head
          where tenant_id = any($1)
          order by tenant_id
            for update"
    };
    let rows = sqlx::query(query).bind(tenants).fetch_all(db).await?;
    let mut heads = BTreeMap::new();
    for row in rows {
        let chain = ChainHead { seq: row.try_get("seq")?, hash: row.try_get("hash")? };
        heads.insert(read::tenant(&row)?, LockedHead { chain, books_version: row.try_get("books_version")? });
    }
    Ok(heads)
}

/// What of the batch is posted, and whether anything at all is held, for whomever: mostly nothing is, and every batch asks. Each
/// event is looked up by the index, in a part of the query that cannot be turned around (`offset 0`): a plan that was made while
/// the journal was small would otherwise read all of it (ADR 26).
pub async fn find_posted(
    db: &mut PgConnection,
    items: &[Item<'_>],
) -> Result<(HashMap<EventKey, Posted>, bool), sqlx::Error> {
    let (tenants, events): (Vec<&str>, Vec<&str>) = items
        .iter()
        .filter_map(|item| item.facts.as_ref())
        .map(|facts| (facts.tenant_id.as_str(), facts.event_id.as_str()))
        .unzip();
    if tenants.is_empty() {
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
          where exists (select from fis_held)",
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
        posted.insert(event_key(&row)?, Posted { payload_hash: row.try_get("payload_hash")?, receipt });
    }
    Ok((posted, any_held))
}

fn event_key(row: &sqlx::postgres::PgRow) -> Result<EventKey, sqlx::Error> {
    let event: &str = row.try_get("event_id")?;
    Ok((read::tenant(row)?, EventId::parse(event).map_err(|error| sqlx::Error::Decode(Box::new(error)))?))
}

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
        let key = event_key(&row)?;
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

/// Before statements that find letters or held events for the rows of a batch: until the end of the transaction they are planned
/// anew. A plan that was kept from when few were open would walk through all of them for each batch (ADR 26).
pub async fn plan_anew(db: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::query("set local plan_cache_mode = force_custom_plan").execute(db).await?;
    Ok(())
}

/// Whether the transaction is whole, as the last statement where others came behind the writing one: in a broken transaction it
/// fails, so that `commit` cannot pretend.
pub async fn is_whole(db: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::query("select").execute(db).await?;
    Ok(())
}
