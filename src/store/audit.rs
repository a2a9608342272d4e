//! The questions of the audit: the whole journal as two streams of text from one snapshot, and what the tables keep beside the chain. Nothing is
//! believed or judged here.

use chrono::{DateTime, Utc};
use futures::stream::BoxStream;
use sqlx::{PgConnection, PgExecutor, Row};

use crate::domain::ids::TenantId;

/// Begins a transaction that sees one moment: a new one, or that of the named snapshot. Returns the snapshot's name.
///
/// # Errors
/// The database is away.
pub async fn begin(db: &mut PgConnection, snapshot: Option<&str>) -> Result<String, sqlx::Error> {
    sqlx::query("begin isolation level repeatable read, read only").execute(&mut *db).await?;
    let name = match snapshot {
        // The name comes from the server itself: hexadecimal digits and dashes.
        Some(name) => {
            sqlx::raw_sql(&format!("set transaction snapshot '{name}'")).execute(&mut *db).await?;
            name.to_owned()
        }
        None => sqlx::query_scalar("select pg_export_snapshot()").fetch_one(&mut *db).await?,
    };
    // A large ledger takes longer than any statement of the service may; while one stream is read, the others wait.
    sqlx::query("set local statement_timeout = 0").execute(&mut *db).await?;
    sqlx::query("set local idle_in_transaction_session_timeout = 0").execute(db).await?;
    Ok(name)
}

/// Ends a transaction that only read.
///
/// # Errors
/// The database is away.
pub async fn end(db: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::query("rollback").execute(db).await?;
    Ok(())
}

/// Every tenant that has a row in any table of the ledger. The recursions jump from tenant to tenant along the indexes of the large ones.
///
/// # Errors
/// The database is away.
pub async fn tenants(db: &mut PgConnection, tenant: Option<&TenantId>) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar(
        "with recursive posted (tenant_id) as (
             (select min(tenant_id) from fis_journal_entry)
             union all
             select (select min(e.tenant_id) from fis_journal_entry e where e.tenant_id > p.tenant_id)
               from posted p
              where p.tenant_id is not null
         ), lined (tenant_id) as (
             (select min(tenant_id) from fis_journal_line)
             union all
             select (select min(l.tenant_id) from fis_journal_line l where l.tenant_id > p.tenant_id)
               from lined p
              where p.tenant_id is not null
         )
         select tenant_id
           from (select tenant_id from posted
                 union select tenant_id from lined
                 union select tenant_id from fis_chain_head
                 union select tenant_id from fis_account_balance
                 union select tenant_id from fis_books) as known
          where tenant_id is not null and ($1::text is null or tenant_id = $1)
          order by tenant_id",
    )
    .bind(tenant.map(TenantId::as_str))
    .fetch_all(db)
    .await
}

/// The entries of a tenant behind a sequence, for `copy_out_raw`. A tenant's name has no quote.
#[must_use]
pub fn entries_query(tenant: &TenantId, after: i64) -> String {
    format!(
        "copy (select seq, previous_hash, event_id, event_type, payload_hash, rule_name, rule_version, accounting_date,
                      coalesce(original_date::text, ''), posted_at, description, coalesce(reverses_entry_id, ''), hash
                 from fis_journal_entry
                where tenant_id = '{tenant}' and seq > {after}
                order by seq) to stdout"
    )
}

/// The lines of a tenant behind a sequence, for `copy_out_raw`.
#[must_use]
pub fn lines_query(tenant: &TenantId, after: i64) -> String {
    format!(
        "copy (select seq, account_code, side, amount, currency, base_amount
                 from fis_journal_line
                where tenant_id = '{tenant}' and seq > {after}
                order by seq, line_no) to stdout"
    )
}

/// The hash of one entry, where there is one.
///
/// # Errors
/// The database is away.
pub async fn hash_at(db: impl PgExecutor<'_>, tenant: &str, seq: i64) -> Result<Option<String>, sqlx::Error> {
    sqlx::query_scalar("select hash from fis_journal_entry where tenant_id = $1 and seq = $2")
        .bind(tenant)
        .bind(seq)
        .fetch_optional(db)
        .await
}

/// The entries of a tenant that the feed has still to announce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unannounced {
    pub first: i64,
    pub last: i64,
    pub entries: i64,
}

/// Finds the entries of a tenant that the feed has still to announce; `None`: there are none.
///
/// # Errors
/// The database is away.
pub async fn unannounced(db: &mut PgConnection, tenant: &str) -> Result<Option<Unannounced>, sqlx::Error> {
    let row = sqlx::query("select min(seq) as first, max(seq) as last, count(*) as pending from fis_outbox where tenant_id = $1 and seq is not null")
        .bind(tenant)
        .fetch_one(db)
        .await?;
    let (first, last): (Option<i64>, Option<i64>) = (row.try_get("first")?, row.try_get("last")?);
    let entries = row.try_get("pending")?;
    Ok(first.zip(last).map(|(first, last)| Unannounced { first, last, entries }))
}

/// A version of a tenant's books with its seal.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct BooksVersion {
    pub version: i32,
    pub source: String,
    pub applied_at: DateTime<Utc>,
    pub applied_by: String,
    pub login: String,
    pub hash: String,
}

/// The versions of a tenant's books, in order, one at a time: a file may be large, and there may be many.
pub fn books<'d>(db: &'d mut PgConnection, tenant: &'d str) -> BoxStream<'d, Result<BooksVersion, sqlx::Error>> {
    sqlx::query_as(
        "select version, source, applied_at, applied_by, login, hash from fis_books where tenant_id = $1 order by version",
    )
    .bind(tenant)
    .fetch(db)
}

/// The seal of one version of the books, where there is one.
///
/// # Errors
/// The database is away.
pub async fn seal_at(db: impl PgExecutor<'_>, tenant: &str, version: i32) -> Result<Option<String>, sqlx::Error> {
    sqlx::query_scalar("select hash from fis_books where tenant_id = $1 and version = $2")
        .bind(tenant)
        .bind(version)
        .fetch_optional(db)
        .await
}

/// What waits and nothing will call back: held events whose time no policy can have set, and letters that wait for an event that nobody holds.
///
/// # Errors
/// The database is away.
pub async fn stranded(db: impl PgExecutor<'_>) -> Result<Vec<String>, sqlx::Error> {
    // No policy waits for more than 30 days and 30 days of chance (`domain::retry`).
    sqlx::query_scalar(
        "(select format('held event %s of %s comes back only on %s: no policy waits for so long', event_id, tenant_id, due_at)
            from fis_held
           where due_at > last_held_at + interval '60 days'
           order by tenant_id, event_id
           limit 100)
         union all
         (select format('dead letter %s is replaying, and nobody holds its event', d.id)
            from fis_dead_letter d
           where d.status = 'replaying'
             and not exists (select from fis_held h where h.letter_id = d.id)
             and not exists (select from fis_held h where h.tenant_id = d.tenant_id and h.event_id = d.event_id)
           order by d.id
           limit 100)",
    )
    .fetch_all(db)
    .await
}

/// A kept balance, its sums as text.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct KeptBalance {
    pub account_code: String,
    pub currency: String,
    pub debit: String,
    pub credit: String,
}

/// The kept balances of a tenant, in order.
///
/// # Errors
/// The database is away.
pub async fn balances(db: &mut PgConnection, tenant: &str) -> Result<Vec<KeptBalance>, sqlx::Error> {
    sqlx::query_as(
        "select account_code, currency, debit::text as debit, credit::text as credit
           from fis_account_balance
          where tenant_id = $1
          order by account_code, currency",
    )
    .bind(tenant)
    .fetch_all(db)
    .await
}

/// The first account, with its currency, whose kept balance is not the sum of its lines.
///
/// # Errors
/// The database is away.
pub async fn wrong_balance(db: &mut PgConnection, tenant: &str) -> Result<Option<(String, String)>, sqlx::Error> {
    sqlx::query_as(
        "select coalesce(b.account_code, l.account_code) as account, coalesce(b.currency, l.currency) as currency
           from (select account_code, currency, debit, credit from fis_account_balance where tenant_id = $1) b
           full join (select account_code, currency,
                             coalesce(sum(amount) filter (where side = 'debit'), 0) as debit,
                             coalesce(sum(amount) filter (where side = 'credit'), 0) as credit
                        from fis_journal_line
                       where tenant_id = $1
                       group by account_code, currency) l using (account_code, currency)
          where b.debit is distinct from l.debit or b.credit is distinct from l.credit
          order by 1, 2
          limit 1",
    )
    .bind(tenant)
    .fetch_optional(db)
    .await
}
