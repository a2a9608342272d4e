//! The SQL of posting, in the order of the phase table. Each statement takes the caller's connection and can only run inside
//! the caller's transaction. Batches travel as arrays.

use std::collections::{BTreeMap, HashMap};

use rust_decimal::Decimal;
use sqlx::{PgConnection, Row};

use super::decide::{EventKey, Original, Plan, Posted, Receipt};
use super::item::Item;
use super::read;
use super::received::Counts;
use crate::domain::chain::{ChainHead, ChainedEntry};
use crate::domain::entry::Side;
use crate::domain::ids::{EventId, TenantId};
use crate::platform::mutants::{self, mutant};

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

/// What of the batch is posted, and whether anything at all is held, for whomever: mostly nothing is, and every batch asks.
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
        "select e.tenant_id, e.event_id, e.payload_hash, e.seq, e.entry_id, e.hash
           from unnest($1::text[], $2::text[]) as wanted (tenant_id, event_id)
           join fis_journal_entry e using (tenant_id, event_id)
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
        let receipt =
            Receipt { seq: row.try_get("seq")?, entry_id: row.try_get("entry_id")?, hash: row.try_get("hash")? };
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
           join fis_journal_entry e using (tenant_id, event_id)
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

/// What a writing statement saw beside what it wrote.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    /// How far the write-ahead log has come.
    pub position: i64,
    /// A dead letter is open, of whomever.
    pub letters: bool,
}

/// Writes the entries: rows, lines, balances, outbox, what was received, and the heads that point to the last of them. One statement, because each
/// round trip is a pause of the one transaction at a time that a tenant has. It must find every head: a head that is gone
/// means that the lock was not held.
pub async fn insert_entries(
    db: &mut PgConnection,
    plan: &Plan,
    heads: &BTreeMap<TenantId, ChainHead>,
    received: &Counts,
) -> Result<Seen, sqlx::Error> {
    let Plan { entries, moved, .. } = plan;
    macro_rules! column {
        ($entry:ident => $value:expr) => {
            entries.iter().map(|$entry| $value).collect::<Vec<_>>()
        };
    }
    let lines = Lines::of(entries);
    let balances = Balances::of(entries);
    let received = received.columns();
    let moved: Vec<_> = heads.iter().filter(|(tenant, _)| moved.contains(*tenant)).collect();
    // Parts of a statement do not see one another's rows and need not: nothing below reads what another part writes.
    let rows: Vec<(i64, bool)> = sqlx::query_as(
        "with entries as (
             insert into fis_journal_entry
                 (tenant_id, seq, event_id, event_type, payload_hash, accounting_date, original_date, posted_at, description,
                  rule_name, rule_version, reverses_entry_id, previous_hash, hash, lane, message_id, correlation_id, traceparent,
                  received_on)
             select * from unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::date[], $7::date[],
                  $8::timestamptz[], $9::text[], $10::text[], $11::integer[], $12::text[], $13::text[], $14::text[], $15::text[],
                  $16::text[], $17::text[], $18::text[], $36::date[])),
         lines as (
             insert into fis_journal_line (tenant_id, seq, line_no, account_code, side, amount, currency, base_amount)
             select * from unnest($19::text[], $20::bigint[], $21::smallint[], $22::text[], $23::text[], $24::numeric[],
                  $25::text[], $26::numeric[])),
         balances as (
             insert into fis_account_balance as b (tenant_id, account_code, currency, debit, credit)
             select * from unnest($27::text[], $28::text[], $29::text[], $30::numeric[], $31::numeric[])
                 on conflict (tenant_id, account_code, currency)
                 do update set debit = b.debit + excluded.debit, credit = b.credit + excluded.credit),
         outbox as (
             insert into fis_outbox (tenant_id, seq, lines)
             select * from unnest($1::text[], $2::bigint[], $32::integer[])),
         received as (
             insert into fis_received as r (tenant_id, received_on, outcome, currency, events, amount)
             select * from unnest($37::text[], $38::date[], $39::text[], $40::text[], $41::bigint[], $42::numeric[])
                 on conflict (tenant_id, received_on, outcome, currency)
                 do update set events = r.events + excluded.events, amount = r.amount + excluded.amount)
         update fis_chain_head h
            set seq = moved.seq, hash = moved.hash
           from unnest($33::text[], $34::bigint[], $35::text[]) as moved (tenant_id, seq, hash)
          where h.tenant_id = moved.tenant_id
      returning (pg_current_wal_insert_lsn() - '0/0')::bigint,
                -- The smallest index answers, whatever the table's statistics say.
                (select true from fis_dead_letter where status in ('parked', 'replaying')
                  order by tenant_id, event_id limit 1) is not null",
    )
    .bind(column!(e => e.origin.tenant_id.as_str()))
    .bind(column!(e => e.seq))
    .bind(column!(e => e.origin.event_id.as_str()))
    .bind(column!(e => e.origin.event_type.as_str()))
    .bind(column!(e => e.origin.payload_hash.as_str()))
    .bind(column!(e => e.accounting_date))
    .bind(column!(e => e.original_date))
    .bind(column!(e => e.posted_at))
    .bind(column!(e => e.description.as_str()))
    .bind(column!(e => e.origin.rule_name.as_str()))
    .bind(column!(e => e.origin.rule_version))
    .bind(column!(e => e.reverses_entry_id.as_deref()))
    .bind(column!(e => e.previous_hash.as_str()))
    .bind(column!(e => e.hash.as_str()))
    .bind(column!(e => e.origin.lane))
    .bind(column!(e => e.origin.message_id.as_deref()))
    .bind(column!(e => e.origin.correlation_id.as_deref()))
    .bind(column!(e => e.origin.traceparent.as_deref()))
    .bind(lines.tenants)
    .bind(lines.seqs)
    .bind(lines.numbers)
    .bind(lines.accounts)
    .bind(lines.sides)
    .bind(lines.amounts)
    .bind(lines.currencies)
    .bind(lines.base_amounts)
    .bind(balances.tenants)
    .bind(balances.accounts)
    .bind(balances.currencies)
    .bind(balances.debits)
    .bind(balances.credits)
    .bind(column!(e => i32::try_from(e.lines.len()).unwrap_or(i32::MAX)))
    .bind(moved.iter().map(|(tenant, _)| tenant.as_str()).collect::<Vec<_>>())
    .bind(moved.iter().map(|(_, head)| head.seq).collect::<Vec<_>>())
    .bind(moved.iter().map(|(_, head)| head.hash.as_str()).collect::<Vec<_>>())
    .bind(&plan.received_on)
    .bind(received.tenants)
    .bind(received.days)
    .bind(received.outcomes)
    .bind(received.currencies)
    .bind(received.events)
    .bind(received.amounts)
    .fetch_all(db)
    .await?;
    if rows.len() != moved.len() {
        return Err(sqlx::Error::RowNotFound);
    }
    let (position, letters) = rows.into_iter().max().ok_or(sqlx::Error::RowNotFound)?;
    Ok(Seen { position, letters })
}

#[derive(Default)]
struct Lines<'a> {
    tenants: Vec<&'a str>,
    seqs: Vec<i64>,
    numbers: Vec<i16>,
    accounts: Vec<&'a str>,
    sides: Vec<&'static str>,
    amounts: Vec<Decimal>,
    currencies: Vec<&'a str>,
    base_amounts: Vec<Decimal>,
}

impl<'a> Lines<'a> {
    fn of(entries: &'a [ChainedEntry]) -> Self {
        let mut all = Self::default();
        for entry in entries {
            for (line, number) in entry.lines.iter().zip(1i16..) {
                all.tenants.push(entry.origin.tenant_id.as_str());
                all.seqs.push(entry.seq);
                all.numbers.push(number);
                all.accounts.push(line.account.as_str());
                all.sides.push(line.side.as_str());
                all.amounts.push(line.amount);
                all.currencies.push(line.currency.code());
                all.base_amounts.push(line.base_amount);
            }
        }
        all
    }
}

/// One row per account and currency, however many lines touch it, in key order.
#[derive(Default)]
struct Balances<'a> {
    tenants: Vec<&'a str>,
    accounts: Vec<&'a str>,
    currencies: Vec<&'a str>,
    debits: Vec<Decimal>,
    credits: Vec<Decimal>,
}

impl<'a> Balances<'a> {
    fn of(entries: &'a [ChainedEntry]) -> Self {
        let mut sums: BTreeMap<(&str, &str, &str), (Decimal, Decimal)> = BTreeMap::new();
        for entry in entries {
            for line in &entry.lines {
                let key = (entry.origin.tenant_id.as_str(), line.account.as_str(), line.currency.code());
                let sum = sums.entry(key).or_default();
                match line.side {
                    Side::Debit => sum.0 += line.amount,
                    Side::Credit => sum.1 += line.amount,
                }
            }
        }
        let mut all = Self::default();
        for ((tenant, account, currency), (debit, credit)) in sums {
            all.tenants.push(tenant);
            all.accounts.push(account);
            all.currencies.push(currency);
            all.debits.push(debit);
            all.credits.push(credit);
        }
        all
    }
}

/// Whether the transaction is whole, as the last statement where others came behind the writing one: in a broken transaction it
/// fails, so that `commit` cannot pretend.
pub async fn is_whole(db: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::query("select").execute(db).await?;
    Ok(())
}
