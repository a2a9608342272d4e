//! A feed of many thousands without posting them one by one: entries and their announcements written by SQL, for tests in which
//! only the relay is under test; and the finance team's check of what arrived.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use futures::StreamExt;
use lapin::options::BasicConsumeOptions;
use lapin::types::FieldTable;

use super::wait::{same, wait_within};
use super::world::World;

impl World {
    /// So many more entries for each of these tenants, with two lines each, and their announcements, one tenant after the
    /// other. Their hashes are made up.
    pub async fn fill(&self, tenants: &[&str], each: i64) {
        let mut transaction = self.pool.begin().await.unwrap();
        for statement in [
            "create temporary table filled on commit drop as
             select tenant, n + coalesce((select max(seq) from fis_journal_entry where tenant_id = tenant), 0) as seq
               from unnest($1::text[]) as tenant, generate_series(1, $2) as n",
            "insert into fis_journal_entry (tenant_id, seq, event_id, event_type, payload_hash, accounting_date, posted_at,
                                            description, rule_name, rule_version, previous_hash, hash, lane)
             select tenant, seq, 'evt-' || seq, 'ecommerce.order.completed', repeat('0', 64), date '2026-01-31',
                    timestamptz '2026-01-31 12:00:00Z', 'Order evt-' || seq, 'order', 1, repeat('0', 64),
                    lpad(seq::text, 32, '0') || repeat('0', 32), 'live' from filled where $1::text[] <> '{}' and $2 > 0",
            "insert into fis_journal_line (tenant_id, seq, line_no, account_code, side, amount, currency, base_amount)
             select tenant, seq, no, '1000', side, seq, 'EUR', seq
               from filled, (values (1, 'debit'), (2, 'credit')) as line (no, side) where $1::text[] <> '{}' and $2 > 0",
            "insert into fis_outbox (tenant_id, seq, lines)
             select tenant, seq, 2 from filled where $1::text[] <> '{}' and $2 > 0 order by seq, tenant",
        ] {
            sqlx::query(statement).bind(tenants).bind(each).execute(&mut *transaction).await.unwrap();
        }
        transaction.commit().await.unwrap();
    }

    pub async fn announcements_left(&self) -> i64 {
        self.count("select count(*) from fis_outbox").await
    }

    /// Waits until everything has left.
    pub async fn all_announced(&self, within: Duration) {
        wait_within("everything is announced", within, async || same(self.announcements_left().await, 0)).await;
    }

    /// Reads a queue to its end: every sequence of every tenant is there, for the first time in order, and what came twice is
    /// the same byte by byte. Returns the number of repetitions.
    pub async fn check_whole_feed(&self, queue: &str) -> usize {
        let expected: Vec<(String, i64)> =
            sqlx::query_as("select tenant_id, max(seq) from fis_journal_entry group by tenant_id")
                .fetch_all(&self.pool)
                .await
                .unwrap();
        let expected: BTreeMap<String, i64> = expected.into_iter().collect();
        let connection = self.connect().await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        let options = BasicConsumeOptions { no_ack: true, ..BasicConsumeOptions::default() };
        let mut consumer =
            channel.basic_consume(queue.into(), "check".into(), options, FieldTable::default()).await.unwrap();
        let mut last: BTreeMap<String, i64> = BTreeMap::new();
        let mut bodies: HashMap<String, Vec<u8>> = HashMap::new();
        let mut repeated = 0;
        // The end of a queue is when it is silent; everything was confirmed before.
        while let Ok(Some(delivery)) = tokio::time::timeout(Duration::from_secs(3), consumer.next()).await {
            let delivery = delivery.unwrap();
            let id = delivery.properties.message_id().as_ref().unwrap().as_str().to_owned();
            let mut parts = id.split('/');
            let (tenant, seq) = (parts.next().unwrap().to_owned(), parts.next().unwrap().parse::<i64>().unwrap());
            let last = last.entry(tenant.clone()).or_default();
            assert!(seq <= *last + 1, "{tenant}: {seq} came first, after {last}");
            *last = (*last).max(seq);
            match bodies.entry(id) {
                Entry::Vacant(place) => _ = place.insert(delivery.data),
                Entry::Occupied(first) => {
                    repeated += 1;
                    assert_eq!(*first.get(), delivery.data, "the same bytes");
                }
            }
        }
        assert_eq!(last, expected, "the last sequence of each tenant");
        let _ = connection.close(200, "bye".into()).await;
        repeated
    }
}
