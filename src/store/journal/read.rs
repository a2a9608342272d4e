//! Reading the journal back: rows enter, the same values that were posted leave. The relay, the resend and the audit all
//! read through here, so there is one way to make an entry from its rows.

use std::collections::HashMap;

use rust_decimal::Decimal;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use crate::domain::chain::{ChainedEntry, Provenance};
use crate::domain::entry::{Line, Side};
use crate::domain::ids::{EntryPlace, EventId, EventType};
use crate::store::rows::{account, currency, impossible, name, tenant};

/// The lines of the entries at these places, in line order.
///
/// # Errors
/// The database is away, or holds what no version of this program has written.
pub async fn lines(
    db: &mut PgConnection,
    places: &[EntryPlace],
) -> Result<HashMap<EntryPlace, Vec<Line>>, sqlx::Error> {
    let (tenants, firsts, lasts) = runs(places);
    // A range of the primary key for each run; `offset 0` keeps the planner from joining the whole table instead.
    let rows = sqlx::query(
        "select l.tenant_id, l.seq, l.account_code, l.side, l.amount, l.currency, l.base_amount, l.line_no
           from unnest($1::text[], $2::bigint[], $3::bigint[]) as run (tenant_id, first, last)
          cross join lateral (
                select *
                  from fis_journal_line
                 where tenant_id = run.tenant_id and seq between run.first and run.last
                 order by seq, line_no
                offset 0) as l",
    )
    .bind(tenants)
    .bind(firsts)
    .bind(lasts)
    .fetch_all(db)
    .await?;
    let mut numbered: HashMap<EntryPlace, Vec<(i16, Line)>> = HashMap::with_capacity(places.len());
    let mut rows = rows.iter().peekable();
    while let Some(first) = rows.next() {
        let place = (tenant(first)?, first.try_get(1)?);
        let mut lines = vec![(first.try_get(7)?, line(first)?)];
        // The lines of an entry come together.
        while let Some(next) = rows.peek()
            && next.try_get::<i64, _>(1)? == place.1
            && next.try_get::<&str, _>(0)? == place.0.as_str()
        {
            lines.push((next.try_get(7)?, line(next)?));
            rows.next();
        }
        numbered.entry(place).or_default().append(&mut lines);
    }
    let in_order = |(place, mut lines): (EntryPlace, Vec<(i16, Line)>)| {
        // They are in order already; nobody but the plan of the statement says so.
        lines.sort_by_key(|(number, _)| *number);
        (place, lines.into_iter().map(|(_, line)| line).collect())
    };
    Ok(numbered.into_iter().map(in_order).collect())
}

/// EntryPlaces that follow one another, each run once: tenants, first and last sequences.
fn runs(places: &[EntryPlace]) -> (Vec<&str>, Vec<i64>, Vec<i64>) {
    let mut sorted: Vec<(&str, i64)> = places.iter().map(|(tenant, seq)| (tenant.as_str(), *seq)).collect();
    sorted.sort_unstable();
    let (mut tenants, mut firsts, mut lasts): (Vec<&str>, Vec<i64>, Vec<i64>) = Default::default();
    for (tenant, seq) in sorted {
        match (tenants.last(), lasts.last_mut()) {
            (Some(same), Some(last)) if *same == tenant && (seq == *last || last.checked_add(1) == Some(seq)) => {
                *last = seq;
            }
            _ => {
                tenants.push(tenant);
                firsts.push(seq);
                lasts.push(seq);
            }
        }
    }
    (tenants, firsts, lasts)
}

pub(super) fn line(row: &PgRow) -> Result<Line, sqlx::Error> {
    Ok(Line {
        account: account(row)?,
        side: Side::parse(row.try_get("side")?).ok_or_else(|| impossible("side"))?,
        amount: row.try_get::<Decimal, _>("amount")?,
        currency: currency(row)?,
        base_amount: row.try_get::<Decimal, _>("base_amount")?,
    })
}

/// The entries at these places, whole. A place without an entry is left out.
///
/// # Errors
/// The database is away, or holds what no version of this program has written.
pub async fn entries(
    db: &mut PgConnection,
    places: &[EntryPlace],
) -> Result<HashMap<EntryPlace, ChainedEntry>, sqlx::Error> {
    // An entry may be asked for twice, by its own announcement and by a resend; it is read once, with its lines.
    let (tenants, firsts, lasts) = runs(places);
    let rows = sqlx::query(
        "select e.*
           from unnest($1::text[], $2::bigint[], $3::bigint[]) as run (tenant_id, first, last)
          cross join lateral (
                select *
                  from fis_journal_entry
                 where tenant_id = run.tenant_id and seq between run.first and run.last
                 order by seq
                offset 0) as e",
    )
    .bind(tenants)
    .bind(firsts)
    .bind(lasts)
    .fetch_all(&mut *db)
    .await?;
    let mut lines = lines(db, places).await?;
    let mut entries = HashMap::with_capacity(rows.len());
    for row in rows {
        let mut entry = entry(&row)?;
        let place = (entry.origin.tenant_id.clone(), entry.seq);
        entry.lines = lines.remove(&place).unwrap_or_default();
        entries.insert(place, entry);
    }
    Ok(entries)
}

/// An entry without its lines.
pub(super) fn entry(row: &PgRow) -> Result<ChainedEntry, sqlx::Error> {
    let lane: &str = row.try_get("lane")?;
    Ok(ChainedEntry {
        seq: row.try_get("seq")?,
        origin: Provenance {
            tenant_id: tenant(row)?,
            event_id: name(row, "event_id", EventId::parse)?,
            event_type: name(row, "event_type", EventType::parse)?,
            payload_hash: row.try_get("payload_hash")?,
            rule_name: row.try_get("rule_name")?,
            rule_version: row.try_get("rule_version")?,
            lane: ["urgent", "live", "backfill", "hand"]
                .into_iter()
                .find(|known| *known == lane)
                .ok_or_else(|| impossible("lane"))?,
            message_id: row.try_get("message_id")?,
            correlation_id: row.try_get("correlation_id")?,
            traceparent: row.try_get("traceparent")?,
        },
        accounting_date: row.try_get("accounting_date")?,
        original_date: row.try_get("original_date")?,
        posted_at: row.try_get("posted_at")?,
        description: row.try_get("description")?,
        reverses_entry_id: row.try_get("reverses_entry_id")?,
        lines: Vec::new(),
        previous_hash: row.try_get("previous_hash")?,
        hash: row.try_get("hash")?,
    })
}
