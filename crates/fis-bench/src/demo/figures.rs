//! The figures of a demo: what the ledger, the running service and the finance reader say, beside what must be.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fis::journal::audit;
use fis::platform::config::Config;
use fis::platform::metrics;
use fis::platform::postgres::Postgres;
use fis::store::outbox;
use rust_decimal::Decimal;
use sqlx::Row;

use super::finance::Finance;
use super::samples::Expected;
use crate::service::{Service, product};

const LOOK: Duration = Duration::from_millis(100);

/// Totals at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Figures {
    posted: u64,
    duplicates: u64,
    ignored: u64,
    rejected: BTreeMap<String, u64>,
    outbox: u64,
}

impl Figures {
    pub async fn read(postgres: &Postgres, service: &Service) -> anyhow::Result<Self> {
        let mut db = postgres.pool.acquire().await?;
        let posted: i64 =
            sqlx::query_scalar("select coalesce(sum(seq), 0)::bigint from fis_chain_head").fetch_one(&mut *db).await?;
        let letters =
            sqlx::query("select reason, sum(attempts)::bigint as attempts from fis_dead_letter group by reason")
                .fetch_all(&mut *db)
                .await?;
        let mut rejected = BTreeMap::new();
        for row in letters {
            rejected.insert(row.try_get("reason")?, u64::try_from(row.try_get::<i64, _>("attempts")?)?);
        }
        let outbox = u64::try_from(outbox::backlog(&mut db).await?.pending)?;
        let counter =
            async |outcome: &str| service.counter(metrics::INTAKE_DELIVERIES, &format!("outcome=\"{outcome}\"")).await;
        Ok(Self {
            posted: u64::try_from(posted)?,
            duplicates: counter("duplicate").await?,
            ignored: counter("ignored").await?,
            rejected,
            outbox,
        })
    }

    /// Reads until the figures are what they must be, or until they no longer change.
    pub async fn awaited(
        postgres: &Postgres,
        service: &Service,
        before: &Self,
        expected: &Expected,
        patience: Duration,
    ) -> anyhow::Result<Self> {
        let started = Instant::now();
        loop {
            let now = Self::read(postgres, service).await?;
            if now.since(before).matches(expected) || started.elapsed() > patience {
                return Ok(now);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    fn since(&self, before: &Self) -> Self {
        let rejected = self.rejected.iter().map(|(reason, count)| {
            (reason.clone(), count.saturating_sub(before.rejected.get(reason).copied().unwrap_or(0)))
        });
        Self {
            posted: self.posted.saturating_sub(before.posted),
            duplicates: self.duplicates.saturating_sub(before.duplicates),
            ignored: self.ignored.saturating_sub(before.ignored),
            rejected: rejected.filter(|(_, count)| *count > 0).collect(),
            outbox: self.outbox,
        }
    }

    fn matches(&self, expected: &Expected) -> bool {
        let rejected = expected.rejected.iter().map(|(reason, count)| ((*reason).to_owned(), *count)).collect();
        self.posted == expected.posted
            && self.duplicates == expected.duplicates
            && self.ignored == expected.ignored
            && self.rejected == rejected
            && self.outbox == 0
    }
}

/// Prints the table; true where every figure is as it must be.
pub async fn show(
    postgres: &Postgres,
    confirmed: u64,
    expected: &Expected,
    before: &Figures,
    after: &Figures,
    finance: &Finance,
    time: Duration,
) -> anyhow::Result<bool> {
    let got = after.since(before);
    let mut sheet = Comparison { table: crate::table(&["", "is", "must be", ""]), right: true };
    let total = expected.posted + expected.duplicates + expected.ignored + expected.rejections();
    sheet.row("published and confirmed", confirmed, total);
    sheet.row("posted", got.posted, expected.posted);
    sheet.row("duplicates", got.duplicates, expected.duplicates);
    sheet.row("ignored", got.ignored, expected.ignored);
    for (reason, count) in &expected.rejected {
        sheet.row(&format!("rejected: {reason}"), got.rejected.get(*reason).copied().unwrap_or(0), *count);
    }
    sheet.row("entries on the finance feed", finance.entries(), expected.posted);
    sheet.row("rejections told to publishers", finance.rejections, expected.rejections());
    sheet.row("left in the outbox", got.outbox, 0);
    for (tenant, feed) in finance.feeds() {
        sheet.row(&format!("gaps in the feed of {tenant} ({}–{})", feed.first, feed.last), feed.faults, 0);
    }
    for audit in audit::verify(&postgres.pool, &audit::Scope::default(), |_| ()).await? {
        let verdict = audit.fault.unwrap_or_else(|| "verified".to_owned());
        sheet.text(&format!("chain of {}, {} entries", audit.tenant_id, audit.entries), &verdict, "verified");
    }
    for (tenant, debit, credit) in trial_balance(postgres).await? {
        sheet.text(&format!("trial balance of {tenant}, debit = credit"), &debit.to_string(), &credit.to_string());
    }
    println!("{}", sheet.table);
    let milliseconds = time.as_millis().max(1);
    println!(
        "{} events per second, from the first publish to the last announcement ({milliseconds} ms)",
        u128::from(total) * 1000 / milliseconds
    );
    println!("{}", if sheet.right { "every figure adds up" } else { "NOT every figure adds up" });
    Ok(sheet.right)
}

struct Comparison {
    table: comfy_table::Table,
    right: bool,
}

impl Comparison {
    fn row(&mut self, name: &str, is: u64, must_be: u64) {
        self.text(name, &is.to_string(), &must_be.to_string());
    }

    fn text(&mut self, name: &str, is: &str, must_be: &str) {
        let right = is == must_be;
        self.right &= right;
        self.table.add_row([name, is, must_be, if right { "✓" } else { "✗" }]);
    }
}

/// Debits and credits of every tenant in its base currency.
async fn trial_balance(postgres: &Postgres) -> anyhow::Result<Vec<(String, Decimal, Decimal)>> {
    let rows = sqlx::query(
        "select tenant_id,
                coalesce(sum(base_amount) filter (where side = 'debit'), 0) as debit,
                coalesce(sum(base_amount) filter (where side = 'credit'), 0) as credit
           from fis_journal_line
          group by tenant_id
          order by tenant_id",
    )
    .fetch_all(&postgres.pool)
    .await?;
    rows.iter().map(|row| Ok((row.try_get("tenant_id")?, row.try_get("debit")?, row.try_get("credit")?))).collect()
}

/// Where to look next.
pub fn farther(config: &Config, service: &Service, kept: bool) -> anyhow::Result<()> {
    let fis = product()?;
    // As somebody types it who stands in the project.
    let here = std::env::current_dir()?;
    let fis = fis.strip_prefix(&here).unwrap_or(&fis).display();
    println!("\nTo look further (`set -a; eval \"$(./dev env)\"; set +a` gives these commands the addresses):");
    println!("  psql \"$FIS_DATABASE_URL\" -c 'select * from fis_journal_entry limit 5'");
    if !config.amqp.management_url.is_empty() {
        println!("  {}   RabbitMQ's management page, user fis_service, password secret", config.amqp.management_url);
    }
    println!("  {fis} dlq list        what could not be booked, and why");
    println!("  {fis} status          what is queued, held and waiting");
    println!("  {fis} verify          recompute every hash and balance");
    println!("  {}   the service's log", service.log.display());
    if kept {
        println!(
            "The service goes on at http://{}; stop it with `kill {}`, the servers with `./dev down`.",
            service.address,
            service.id()
        );
    } else {
        println!("The service is stopped; the servers go on until `./dev down`.");
    }
    Ok(())
}
