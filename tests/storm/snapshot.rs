//! The tables as they are, read once, for all checks.

use std::collections::{BTreeMap, HashMap};

use anyhow::Result;
use chrono::{DateTime, NaiveDate, Utc};
use rust_decimal::Decimal;
use sqlx::{FromRow, PgConnection};

use crate::model::Line;

#[derive(Debug, Clone, FromRow)]
pub struct EntryRow {
    pub tenant_id: String,
    pub seq: i64,
    pub entry_id: String,
    pub event_id: String,
    pub event_type: String,
    pub payload_hash: String,
    pub accounting_date: NaiveDate,
    pub original_date: Option<NaiveDate>,
    pub posted_at: DateTime<Utc>,
    pub description: String,
    pub rule_name: String,
    pub rule_version: i32,
    pub reverses_entry_id: Option<String>,
    pub previous_hash: String,
    pub hash: String,
}

#[derive(Debug, Clone, FromRow)]
pub struct LetterRow {
    pub id: String,
    pub tenant_id: Option<String>,
    pub event_id: Option<String>,
    pub routing_key: String,
    pub reason: String,
    pub detail: String,
    pub status: String,
    pub properties: String,
    pub body: Vec<u8>,
}

#[derive(Debug, Clone, FromRow)]
pub struct HeldRow {
    pub tenant_id: String,
    pub event_id: String,
    pub payload_hash: String,
    pub reason: String,
}

#[derive(Debug, Clone, FromRow)]
pub struct BatchRow {
    pub tenant_id: String,
    pub batch_id: String,
    pub posted: i64,
    pub rejected: i64,
    pub ignored: i64,
    pub completed_at: Option<DateTime<Utc>>,
}

#[derive(Debug, FromRow)]
struct LineRow {
    tenant_id: String,
    seq: i64,
    account_code: String,
    side: String,
    amount: Decimal,
    currency: String,
    base_amount: Decimal,
}

#[derive(Debug, Default)]
pub struct Snapshot {
    pub entries: Vec<EntryRow>,
    pub lines: HashMap<(String, i64), Vec<Line>>,
    pub letters: Vec<LetterRow>,
    pub held: HashMap<(String, String), Vec<HeldRow>>,
    pub batches: HashMap<(String, String), BatchRow>,
    pub heads: BTreeMap<String, (i64, String)>,
    pub balances: BTreeMap<(String, String, String), (Decimal, Decimal)>,
}

impl Snapshot {
    /// One state of the tables, in one transaction.
    pub async fn take(session: &mut PgConnection) -> Result<Self> {
        let mut whole = Self::default();
        sqlx::raw_sql("begin isolation level repeatable read read only").execute(&mut *session).await?;
        whole.entries = sqlx::query_as(
            "select tenant_id, seq, entry_id, event_id, event_type, payload_hash, accounting_date, original_date, posted_at,
                    description, rule_name, rule_version, reverses_entry_id, previous_hash, hash
               from fis_journal_entry order by tenant_id, seq",
        )
        .fetch_all(&mut *session)
        .await?;
        let lines: Vec<LineRow> = sqlx::query_as(
            "select tenant_id, seq, account_code, side, amount, currency, base_amount
               from fis_journal_line order by tenant_id, seq, line_no",
        )
        .fetch_all(&mut *session)
        .await?;
        for line in lines {
            whole.lines.entry((line.tenant_id, line.seq)).or_default().push(Line {
                account: line.account_code,
                debit: line.side == "debit",
                amount: line.amount,
                currency: line.currency,
                base: line.base_amount,
            });
        }
        whole.letters = sqlx::query_as(
            "select id, tenant_id, event_id, routing_key, reason, detail, status, properties, body
               from fis_dead_letter order by id",
        )
        .fetch_all(&mut *session)
        .await?;
        let held: Vec<HeldRow> = sqlx::query_as("select tenant_id, event_id, payload_hash, reason from fis_held")
            .fetch_all(&mut *session)
            .await?;
        for row in held {
            whole.held.entry((row.tenant_id.clone(), row.event_id.clone())).or_default().push(row);
        }
        let batches: Vec<BatchRow> =
            sqlx::query_as("select tenant_id, batch_id, posted, rejected, ignored, completed_at from fis_batch")
                .fetch_all(&mut *session)
                .await?;
        whole.batches = batches.into_iter().map(|row| ((row.tenant_id.clone(), row.batch_id.clone()), row)).collect();
        let heads: Vec<(String, i64, String)> =
            sqlx::query_as("select tenant_id, seq, hash from fis_chain_head").fetch_all(&mut *session).await?;
        whole.heads = heads.into_iter().map(|(tenant, seq, hash)| (tenant, (seq, hash))).collect();
        let balances: Vec<(String, String, String, Decimal, Decimal)> =
            sqlx::query_as("select tenant_id, account_code, currency, debit, credit from fis_account_balance")
                .fetch_all(&mut *session)
                .await?;
        whole.balances = balances.into_iter().map(|(t, a, c, debit, credit)| ((t, a, c), (debit, credit))).collect();
        sqlx::raw_sql("commit").execute(&mut *session).await?;
        Ok(whole)
    }

    pub fn entry_of(&self) -> HashMap<(&str, &str), &EntryRow> {
        self.entries.iter().map(|entry| ((entry.tenant_id.as_str(), entry.event_id.as_str()), entry)).collect()
    }

    pub fn lines_of(&self, entry: &EntryRow) -> &[Line] {
        self.lines.get(&(entry.tenant_id.clone(), entry.seq)).map_or(&[], Vec::as_slice)
    }
}
