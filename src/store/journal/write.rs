//! The statement that writes a batch's entries: the only one that writes the journal, and the only one that writes tables of other files too
//! (`fis_outbox`, `fis_received`, `fis_chain_head`): each round trip would be a pause of everybody who waits for the head (ADR 20).

use std::collections::BTreeMap;

use chrono::NaiveDate;
use rust_decimal::Decimal;
use sqlx::postgres::PgArguments;
use sqlx::{Arguments, PgConnection, PgPool};

use crate::domain::chain::{ChainHead, ChainedEntry};
use crate::domain::entry::Side;
use crate::domain::ids::TenantId;
use crate::platform::postgres::Numeric;
use crate::store::received::Totals;

/// Facts that the writing statement saw beside what it wrote.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    /// The position that the write-ahead log has reached.
    pub position: i64,
    /// A dead letter is open, of whomever.
    pub letters: bool,
    /// Something is held under the id of one of the batch's events.
    pub held: bool,
    /// Something that is held waits for an event of one of the batch's tenants.
    pub awaited: bool,
}

/// Parts of a statement do not see one another's rows and need not: nothing below reads what another part writes. The arrays are
/// unfolded in the list of columns, side by side and row by row; behind `from`, each would first be put down as a table of its
/// own, which costs PostgreSQL a tenth of the whole statement.
const WRITE: &str = "with entries as (
         insert into fis_journal_entry
             (tenant_id, seq, event_id, event_type, payload_hash, accounting_date, original_date, posted_at, description,
              rule_name, rule_version, reverses_entry_id, previous_hash, hash, lane, message_id, correlation_id, traceparent,
              received_on)
         select unnest($1::text[]), unnest($2::bigint[]), unnest($3::text[]), unnest($4::text[]), unnest($5::text[]),
                unnest($6::date[]), unnest($7::date[]), unnest($8::timestamptz[]), unnest($9::text[]),
                unnest($10::text[]), unnest($11::integer[]), unnest($12::text[]), unnest($13::text[]),
                unnest($14::text[]), unnest($15::text[]), unnest($16::text[]), unnest($17::text[]), unnest($18::text[]),
                unnest($36::date[])),
     lines as (
         insert into fis_journal_line (tenant_id, seq, line_no, account_code, side, amount, currency, base_amount)
         select unnest($19::text[]), unnest($20::bigint[]), unnest($21::smallint[]), unnest($22::text[]),
                unnest($23::text[]), unnest($24::numeric[]), unnest($25::text[]), unnest($26::numeric[])),
     balances as (
         insert into fis_account_balance as b (tenant_id, account_code, currency, debit, credit)
         select unnest($27::text[]), unnest($28::text[]), unnest($29::text[]), unnest($30::numeric[]),
                unnest($31::numeric[])
             on conflict (tenant_id, account_code, currency)
             do update set debit = b.debit + excluded.debit, credit = b.credit + excluded.credit),
     outbox as (
         insert into fis_outbox (tenant_id, seq, lines)
         select unnest($1::text[]), unnest($2::bigint[]), unnest($32::integer[])),
     received as (
         insert into fis_received as r (tenant_id, received_on, outcome, currency, events, amount)
         select unnest($37::text[]), unnest($38::date[]), unnest($39::text[]), unnest($40::text[]),
                unnest($41::bigint[]), unnest($42::numeric[])
             on conflict (tenant_id, received_on, outcome, currency)
             do update set events = r.events + excluded.events, amount = r.amount + excluded.amount)
     update fis_chain_head h
        set seq = moved.seq, hash = moved.hash
       from unnest($33::text[], $34::bigint[], $35::text[]) as moved (tenant_id, seq, hash)
      where h.tenant_id = moved.tenant_id
  returning (pg_current_wal_insert_lsn() - '0/0')::bigint,
            -- The index of groups answers, whatever the table's statistics say; from its end, because replays begin with the oldest
            -- and leave dead entries there until a vacuum.
            (select true from fis_dead_letter where status in ('parked', 'replaying')
              order by group_id desc, first_seen_at desc, id desc limit 1) is not null,
            -- Event by event only for tenants of which something is held; that too is looked for from its end.
            case when exists (select
                                from unnest($33::text[]) as tenant (id)
                               cross join lateral (select from fis_held h where h.tenant_id = tenant.id
                                                    order by h.event_id desc limit 1) h)
                 then exists (select
                                from unnest($1::text[], $3::text[]) as posted (tenant_id, event_id)
                               cross join lateral (select from fis_held h
                                                    where h.tenant_id = posted.tenant_id and h.event_id = posted.event_id
                                                    limit 1) h)
                 else false end,
            exists (select
                      from unnest($33::text[]) as tenant (id)
                     cross join lateral (select from fis_held h
                                          where h.tenant_id = tenant.id and h.waits_for >= 'event:' and h.waits_for < 'event;'
                                          limit 1) h)";

/// The rows of a posting.
pub struct PostingRows<'a> {
    pub entries: &'a [ChainedEntry],
    /// The day of receipt of each entry; `None` for what nobody sent.
    pub received_on: &'a [Option<NaiveDate>],
    /// The heads that move, and where to.
    pub moved: Vec<(&'a TenantId, &'a ChainHead)>,
    /// The totals of what the entries were received as.
    pub received: &'a Totals,
}

/// The writing of a posting, ready to be sent.
pub struct Write {
    arguments: PgArguments,
    heads: usize,
}

impl Write {
    /// Writes the entries: rows, lines, balances, outbox, what was received, and the heads that point to the last of them. One statement, because each
    /// round trip is a pause of the one transaction at a time that a tenant has. It must find every head: a head that is gone
    /// means that the lock was not held.
    ///
    /// # Errors
    /// The database is away or refuses a row; a head is not there.
    pub async fn run(self, db: &mut PgConnection) -> Result<Seen, sqlx::Error> {
        let rows: Vec<(i64, bool, bool, bool)> = sqlx::query_as_with(WRITE, self.arguments).fetch_all(db).await?;
        if rows.len() != self.heads {
            return Err(sqlx::Error::RowNotFound);
        }
        let (position, letters, held, awaited) = rows.into_iter().max().ok_or(sqlx::Error::RowNotFound)?;
        Ok(Seen { position, letters, held, awaited })
    }

    /// Makes the arguments ready, so that the lock of the heads need not wait for it.
    ///
    /// # Errors
    /// A value cannot be sent.
    pub fn of(rows: &PostingRows<'_>) -> Result<Self, sqlx::Error> {
        let PostingRows { entries, received_on, moved, received } = rows;
        let mut arguments = PgArguments::default();
        macro_rules! bind {
            ($value:expr) => {
                arguments.add($value).map_err(sqlx::Error::Encode)?
            };
            ($entry:ident => $value:expr) => {
                bind!(entries.iter().map(|$entry| $value).collect::<Vec<_>>())
            };
        }
        let lines = Lines::of(entries);
        let balances = Balances::of(entries);
        let received = received.columns();
        bind!(e => e.origin.tenant_id.as_str());
        bind!(e => e.seq);
        bind!(e => e.origin.event_id.as_str());
        bind!(e => e.origin.event_type.as_str());
        bind!(e => e.origin.payload_hash.as_str());
        bind!(e => e.accounting_date);
        bind!(e => e.original_date);
        bind!(e => e.posted_at);
        bind!(e => e.description.as_str());
        bind!(e => e.origin.rule_name.as_str());
        bind!(e => e.origin.rule_version);
        bind!(e => e.reverses_entry_id.as_deref());
        bind!(e => e.previous_hash.as_str());
        bind!(e => e.hash.as_str());
        bind!(e => e.origin.lane);
        bind!(e => e.origin.message_id.as_deref());
        bind!(e => e.origin.correlation_id.as_deref());
        bind!(e => e.origin.traceparent.as_deref());
        bind!(lines.tenants);
        bind!(lines.seqs);
        bind!(lines.numbers);
        bind!(lines.accounts);
        bind!(lines.sides);
        bind!(lines.amounts);
        bind!(lines.currencies);
        bind!(lines.base_amounts);
        bind!(balances.tenants);
        bind!(balances.accounts);
        bind!(balances.currencies);
        bind!(balances.debits);
        bind!(balances.credits);
        bind!(e => i32::try_from(e.lines.len()).unwrap_or(i32::MAX));
        bind!(moved.iter().map(|(tenant, _)| tenant.as_str()).collect::<Vec<_>>());
        bind!(moved.iter().map(|(_, head)| head.seq).collect::<Vec<_>>());
        bind!(moved.iter().map(|(_, head)| head.hash.as_str()).collect::<Vec<_>>());
        bind!(*received_on);
        bind!(received.tenants);
        bind!(received.days);
        bind!(received.outcomes);
        bind!(received.currencies);
        bind!(received.events);
        bind!(received.amounts);
        Ok(Self { arguments, heads: moved.len() })
    }
}

#[derive(Default)]
struct Lines<'a> {
    tenants: Vec<&'a str>,
    seqs: Vec<i64>,
    numbers: Vec<i16>,
    accounts: Vec<&'a str>,
    sides: Vec<&'static str>,
    amounts: Vec<Numeric>,
    currencies: Vec<&'a str>,
    base_amounts: Vec<Numeric>,
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
                all.amounts.push(Numeric(line.amount));
                all.currencies.push(line.currency.code());
                all.base_amounts.push(Numeric(line.base_amount));
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

/// Takes the unique index away that keeps an event from being posted twice: a half of the deliberate bug `unique_dropped`.
///
/// # Errors
/// The database is away.
pub async fn drop_unique(db: &PgPool) -> Result<(), sqlx::Error> {
    let drop = "alter table fis_journal_entry drop constraint if exists fis_journal_entry_tenant_id_event_id_key";
    sqlx::query(drop).execute(db).await?;
    Ok(())
}
