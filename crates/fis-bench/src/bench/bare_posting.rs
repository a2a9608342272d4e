//! The limit: the same rows in the same tables, chain and outbox included, posted by a loop that does nothing else: no
//! broker, no Redis, no rules, no duplicates to look for.

use std::time::Instant;

use rust_decimal::Decimal;
use sha2::{Digest, Sha256};
use sqlx::PgPool;

use super::orders::{Order, TENANT};

/// Events per transaction, as the service has it.
pub const BATCH: usize = 500;
/// About what the service hashes of an entry with three lines.
const HASHED_BYTES: usize = 600;

/// The end of the chain that the loop writes to.
pub struct Chain {
    run: String,
    seq: i64,
    hash: String,
    /// The outbox gets whole messages, as is usual, and not pointers to the journal, as the service has it.
    messages: bool,
}

impl Chain {
    pub async fn read(pool: &PgPool, run: &str) -> anyhow::Result<Self> {
        let (seq, hash) = sqlx::query_as("select seq, hash from fis_chain_head where tenant_id = $1")
            .bind(TENANT)
            .fetch_one(pool)
            .await?;
        Ok(Self { run: run.to_owned(), seq, hash, messages: false })
    }

    /// The usual shape of an outbox: the announcement itself is written in the posting transaction.
    pub fn with_messages(self) -> Self {
        Self { messages: true, ..self }
    }

    /// Posts that many events and says how many per second.
    pub async fn post_all(&mut self, pool: &PgPool, events: usize, batch: usize) -> anyhow::Result<u64> {
        let started = Instant::now();
        for start in (0..events).step_by(batch) {
            self.post(pool, batch.min(events - start)).await?;
        }
        Ok(super::rate(events, started.elapsed()))
    }

    /// One transaction. The chain's end moves with it, so an error leaves this value behind the table.
    pub async fn post(&mut self, pool: &PgPool, count: usize) -> anyhow::Result<()> {
        let mut transaction = pool.begin().await?;
        sqlx::query("select seq from fis_chain_head where tenant_id = $1 for update")
            .bind(TENANT)
            .execute(&mut *transaction)
            .await?;
        let seqs: Vec<i64> = (self.seq + 1..).take(count).collect();
        let numbers: Vec<usize> = seqs.iter().map(|seq| usize::try_from(*seq)).collect::<Result<_, _>>()?;
        let orders: Vec<Order<'_>> = numbers.into_iter().map(|number| Order { run: &self.run, number }).collect();
        let (mut previous, mut hashes) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let mut hash = self.hash.clone();
        let filling = "x".repeat(HASHED_BYTES - 64);
        for seq in &seqs {
            let next = hex::encode(Sha256::digest(format!("{hash}{seq}{filling}")));
            previous.push(std::mem::replace(&mut hash, next.clone()));
            hashes.push(next);
        }
        insert_entries(&mut transaction, &seqs, &orders, &previous, &hashes).await?;
        insert_lines(&mut transaction, &seqs, &orders).await?;
        if self.messages {
            insert_messages(&mut transaction, &seqs, &orders, &previous, &hashes).await?;
        } else {
            sqlx::query("insert into fis_outbox (tenant_id, seq, lines) select $1, unnest($2::bigint[]), 3")
                .bind(TENANT)
                .bind(&seqs)
                .execute(&mut *transaction)
                .await?;
        }
        sqlx::query("update fis_chain_head set seq = $2, hash = $3 where tenant_id = $1")
            .bind(TENANT)
            .bind(seqs.last())
            .bind(&hash)
            .execute(&mut *transaction)
            .await?;
        transaction.commit().await?;
        self.seq += i64::try_from(count)?;
        self.hash = hash;
        Ok(())
    }
}

async fn insert_entries(
    db: &mut sqlx::PgConnection,
    seqs: &[i64],
    orders: &[Order<'_>],
    previous: &[String],
    hashes: &[String],
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into fis_journal_entry (tenant_id, seq, event_id, event_type, payload_hash, accounting_date, posted_at,
                description, rule_name, rule_version, previous_hash, hash, lane, message_id, correlation_id,
                received_on)
         select $1, seq, event, 'ecommerce.order.completed', 'sha256:' || hash, date '2026-02-25', now(),
                'Order ' || correlation, 'order-completed', 1, previous, hash, 'live', message, correlation, current_date
           from unnest($2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[])
                as e (seq, event, message, correlation, previous, hash)",
    )
    .bind(TENANT)
    .bind(seqs)
    .bind(orders.iter().map(Order::event_id).collect::<Vec<_>>())
    .bind(orders.iter().map(Order::message_id).collect::<Vec<_>>())
    .bind(orders.iter().map(Order::correlation_id).collect::<Vec<_>>())
    .bind(previous)
    .bind(hashes)
    .execute(db)
    .await?;
    Ok(())
}

/// Announcements of the length that the service's have.
async fn insert_messages(
    db: &mut sqlx::PgConnection,
    seqs: &[i64],
    orders: &[Order<'_>],
    previous: &[String],
    hashes: &[String],
) -> Result<(), sqlx::Error> {
    let bodies = seqs.iter().zip(orders).zip(previous.iter().zip(hashes)).map(|((seq, order), (previous, hash))| {
        let [total, net, tax] = order.amounts();
        let (event, correlation) = (order.event_id(), order.correlation_id());
        let line = |account: &str, side: &str, amount: Decimal| {
            format!(r#"{{"account":"{account}","side":"{side}","amount":"{amount}","currency":"EUR","baseAmount":"{amount}"}}"#)
        };
        format!(
            r#"{{"specversion":"1.0","id":"{TENANT}/{seq}","source":"/fis/{TENANT}","type":"fis.journal.posted","subject":"{TENANT}/{seq}","time":"2026-02-25T10:00:00.000000Z","datacontenttype":"application/json","data":{{"tenantId":"{TENANT}","entryId":"{TENANT}/{seq}","sequence":{seq},"eventId":"{event}","eventType":"ecommerce.order.completed","payloadHash":"sha256:{hash}","accountingDate":"2026-02-25","description":"Order {correlation}","lines":[{},{},{}],"rule":"order-completed","ruleVersion":1,"previousHash":"{previous}","hash":"{hash}"}}}}"#,
            line("1100", "debit", total),
            line("4000", "credit", net),
            line("2200", "credit", tax),
        )
        .into_bytes()
    });
    sqlx::query(
        "insert into fis_outbox (tenant_id, exchange, routing_key, message_id, properties, body)
         select $1, 'fis.domain.exchange', 'fis.journal.posted', $1 || '/' || seq, '{}', body
           from unnest($2::bigint[], $3::bytea[]) as m (seq, body)",
    )
    .bind(TENANT)
    .bind(seqs)
    .bind(bodies.collect::<Vec<_>>())
    .execute(db)
    .await?;
    Ok(())
}

/// The lines, and the balances of their three accounts.
async fn insert_lines(db: &mut sqlx::PgConnection, seqs: &[i64], orders: &[Order<'_>]) -> Result<(), sqlx::Error> {
    let lines: Vec<i64> = seqs.iter().flat_map(|seq| [*seq; 3]).collect();
    let numbers: Vec<i16> = seqs.iter().flat_map(|_| [1, 2, 3]).collect();
    let accounts: Vec<&str> = seqs.iter().flat_map(|_| ["1100", "4000", "2200"]).collect();
    let sides: Vec<&str> = seqs.iter().flat_map(|_| ["debit", "credit", "credit"]).collect();
    let amounts: Vec<Decimal> = orders.iter().flat_map(Order::amounts).collect();
    sqlx::query(
        "insert into fis_journal_line (tenant_id, seq, line_no, account_code, side, amount, currency, base_amount)
         select $1, seq, number, account, side, amount, 'EUR', amount
           from unnest($2::bigint[], $3::smallint[], $4::text[], $5::text[], $6::numeric[])
                as l (seq, number, account, side, amount)",
    )
    .bind(TENANT)
    .bind(&lines)
    .bind(&numbers)
    .bind(&accounts)
    .bind(&sides)
    .bind(&amounts)
    .execute(&mut *db)
    .await?;
    let sum = |line: usize| amounts.iter().skip(line).step_by(3).sum::<Decimal>();
    sqlx::query(
        "insert into fis_account_balance as b (tenant_id, account_code, currency, debit, credit)
         values ($1, '1100', 'EUR', $2, 0), ($1, '2200', 'EUR', 0, $3), ($1, '4000', 'EUR', 0, $4)
             on conflict (tenant_id, account_code, currency)
             do update set debit = b.debit + excluded.debit, credit = b.credit + excluded.credit",
    )
    .bind(TENANT)
    .bind(sum(0))
    .bind(sum(2))
    .bind(sum(1))
    .execute(db)
    .await?;
    Ok(())
}
