//! The limit: the same rows in the same tables, chain and outbox included, posted by a loop that does nothing else: no
//! broker, no Redis, no rules, no duplicates to look for. In a tenant of its own.

use std::time::Instant;

use rust_decimal::Decimal;
use sha2::{Digest, Sha256};
use sqlx::PgPool;

const BATCH: usize = 500;

/// Events per second.
pub async fn bare_posting(pool: &PgPool, events: usize) -> anyhow::Result<u64> {
    let mut hash = "0".repeat(64);
    sqlx::query("insert into fis_chain_head (tenant_id, seq, hash, books_version) values ('bare', 0, $1, 1)")
        .bind(&hash)
        .execute(pool)
        .await?;
    let started = Instant::now();
    for start in (0..events).step_by(BATCH) {
        let count = BATCH.min(events - start);
        hash = post(pool, i64::try_from(start)?, count, hash).await?;
    }
    let rate = super::rate(events, started.elapsed());
    sqlx::query("truncate fis_outbox").execute(pool).await?;
    Ok(rate)
}

async fn post(pool: &PgPool, start: i64, count: usize, mut hash: String) -> anyhow::Result<String> {
    let mut transaction = pool.begin().await?;
    sqlx::query("select seq from fis_chain_head where tenant_id = 'bare' for update")
        .execute(&mut *transaction)
        .await?;
    let seqs: Vec<i64> = (start + 1..).take(count).collect();
    let (mut previous, mut hashes) = (Vec::with_capacity(count), Vec::with_capacity(count));
    for seq in &seqs {
        let next = hex::encode(Sha256::digest(format!("{hash}{seq}{}", "x".repeat(300))));
        previous.push(std::mem::replace(&mut hash, next.clone()));
        hashes.push(next);
    }
    let events: Vec<String> = seqs.iter().map(|seq| format!("bench-{seq}")).collect();
    sqlx::query(
        "insert into fis_journal_entry (tenant_id, seq, event_id, event_type, payload_hash, accounting_date, posted_at,
                description, rule_name, rule_version, previous_hash, hash, lane, message_id, correlation_id)
         select 'bare', seq, event, 'ecommerce.order.completed', 'sha256:' || hash, date '2026-02-25', now(),
                'Order ' || event, 'order-completed', 1, previous, hash, 'live', event, event
           from unnest($1::bigint[], $2::text[], $3::text[], $4::text[]) as e (seq, event, previous, hash)",
    )
    .bind(&seqs)
    .bind(&events)
    .bind(&previous)
    .bind(&hashes)
    .execute(&mut *transaction)
    .await?;
    let lines: Vec<i64> = seqs.iter().flat_map(|seq| [*seq; 3]).collect();
    let numbers: Vec<i16> = seqs.iter().flat_map(|_| [1, 2, 3]).collect();
    let accounts: Vec<&str> = seqs.iter().flat_map(|_| ["1100", "4000", "2200"]).collect();
    let sides: Vec<&str> = seqs.iter().flat_map(|_| ["debit", "credit", "credit"]).collect();
    let amounts: Vec<Decimal> =
        seqs.iter().flat_map(|_| [Decimal::new(11_900, 2), Decimal::new(10_000, 2), Decimal::new(1_900, 2)]).collect();
    sqlx::query(
        "insert into fis_journal_line (tenant_id, seq, line_no, account_code, side, amount, currency, base_amount)
         select 'bare', seq, number, account, side, amount, 'EUR', amount
           from unnest($1::bigint[], $2::smallint[], $3::text[], $4::text[], $5::numeric[]) as l (seq, number, account, side, amount)",
    )
    .bind(&lines)
    .bind(&numbers)
    .bind(&accounts)
    .bind(&sides)
    .bind(&amounts)
    .execute(&mut *transaction)
    .await?;
    sqlx::query(
        "insert into fis_account_balance as b (tenant_id, account_code, currency, debit, credit)
         values ('bare', '1100', 'EUR', $1, 0), ('bare', '2200', 'EUR', 0, $1), ('bare', '4000', 'EUR', 0, $1)
             on conflict (tenant_id, account_code, currency)
             do update set debit = b.debit + excluded.debit, credit = b.credit + excluded.credit",
    )
    .bind(Decimal::from(count))
    .execute(&mut *transaction)
    .await?;
    sqlx::query("insert into fis_outbox (tenant_id, seq, lines) select 'bare', unnest($1::bigint[]), 3")
        .bind(&seqs)
        .execute(&mut *transaction)
        .await?;
    sqlx::query("update fis_chain_head set seq = $1, hash = $2 where tenant_id = 'bare'")
        .bind(seqs.last())
        .bind(&hash)
        .execute(&mut *transaction)
        .await?;
    transaction.commit().await?;
    Ok(hash)
}
