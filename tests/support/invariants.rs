//! The invariants of the protocol, checked from outside: from the tables, the feed and the broker. The services must have
//! been stopped, so that whatever was unacknowledged is back in its queue and can be counted.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use deadpool_redis::redis;
use fis::domain::event::{BODY_BYTES_MAX, RawMessage, decode};
use fis::domain::ids::TenantId;
use serde_json::Value;

use super::broker::{AUDIT, DLQ, LANES, Reader, ready_count};
use super::events::{Expect, Message};
use super::process::Run;
use super::wait::wait_within;
use super::world::World;

/// What may have happened to the servers on the way.
#[derive(Debug, Clone, Copy, Default)]
pub struct Disturbed {
    /// Keys may be missing, or left at PROCESSING.
    pub redis: bool,
}

impl World {
    /// Waits until everything published has found its place and nothing is on its way, then stops the service. What the
    /// service could not finish because it was stopped is finished by `fis run --once`; nothing may be left then.
    pub async fn rest(&self, run: &mut Run) {
        self.quiet().await;
        run.terminate().await;
        let mut left = Vec::new();
        self.check_at_rest(&mut left).await;
        if !left.is_empty() {
            self.fis(&["run", "--once"]).await.expect(0, &[]);
        }
    }

    /// Waits until all queues are empty and every event has its place, several times in a row: what the service has taken
    /// and not settled yet cannot be seen from outside. Held events whose retry is far off count as placed.
    pub async fn quiet(&self) {
        self.quiet_within(Duration::from_secs(60)).await;
    }

    pub async fn quiet_within(&self, within: Duration) {
        const LOOKS: u32 = 3;
        let connection = self.connect().await.unwrap();
        let mut quiet = 0;
        wait_within("everything has come to rest", within, async || {
            quiet = self.look(&connection).await.map(|()| quiet + 1).inspect_err(|_| quiet = 0)?;
            if quiet < LOOKS { Err("quiet, but only just".to_owned()) } else { Ok(()) }
        })
        .await;
        let _ = connection.close(200, "bye".into()).await;
    }

    async fn look(&self, connection: &lapin::Connection) -> Result<(), String> {
        for queue in LANES.into_iter().chain([DLQ]) {
            let ready = ready_count(connection, queue).await.map_err(|error| error.to_string())?;
            if ready > 0 {
                return Err(format!("{ready} messages in {queue}"));
            }
        }
        let left = self.count("select count(*) from fis_outbox").await;
        if left > 0 {
            return Err(format!("{left} rows in the outbox"));
        }
        let due = self.count("select count(*) from fis_held where due_at < now() + interval '15 seconds'").await;
        if due > 0 {
            return Err(format!("{due} held events are due"));
        }
        let places = self.places().await;
        let mut missing =
            places.iter().filter(|(message, places)| message.expect != Expect::Ignored && places.is_empty());
        match missing.next() {
            None => Ok(()),
            Some((first, _)) => {
                let (first, more) = (String::from_utf8_lossy(&first.body).into_owned(), missing.count());
                Err(format!("an event has no place yet, and {more} more: {first}"))
            }
        }
    }

    pub async fn invariants(&self) -> Reader {
        self.invariants_after(Disturbed::default()).await
    }

    /// Checks all invariants and panics with every breach; returns the feed for further questions.
    pub async fn invariants_after(&self, disturbed: Disturbed) -> Reader {
        let mut breaches = Vec::new();
        self.check_places(&mut breaches).await;
        self.check_sums(&mut breaches).await;
        self.check_tied_out(&mut breaches).await;
        self.check_at_rest(&mut breaches).await;
        if !disturbed.redis {
            self.check_keys(&mut breaches).await;
        }
        let mut feed = self.reader(AUDIT).await;
        feed.drain().await;
        self.check_feed(&feed, &mut breaches).await;
        let verified = self.fis(&["verify", "--json"]).await;
        if verified.code != Some(0) {
            breaches.push(format!("fis verify: {verified:?}"));
        }
        assert!(breaches.is_empty(), "{} invariants are broken:\n{}", breaches.len(), breaches.join("\n"));
        feed
    }

    /// What was counted as received is what the rows say, for every tenant and day, in events and in money.
    async fn check_tied_out(&self, breaches: &mut Vec<String>) {
        let sql = "with letters as (select * from fis_dead_letter where received_on is not null and status <> 'resolved'),
            found (tenant_id, received_on, outcome, currency, value) as (
                select tenant_id, received_on, 'posted', 'events', count(*)
                  from fis_journal_entry where received_on is not null group by 1, 2
                union all
                select tenant_id, received_on, 'posted', currency, sum(amount)
                  from fis_journal_entry join fis_journal_line using (tenant_id, seq)
                 where received_on is not null and side = 'debit' group by 1, 2, 4
                union all
                select tenant_id, received_on, 'held', 'events', count(*)
                  from fis_held where received_on is not null group by 1, 2
                union all
                select tenant_id, received_on, 'held', currency, sum(amount)
                  from fis_held where received_on is not null and amount <> 0 group by 1, 2, 4
                union all
                select tenant_id, received_on, 'parked', 'events', count(*) from letters group by 1, 2
                union all
                select tenant_id, received_on, 'parked', currency, sum(amount) from letters where amount <> 0 group by 1, 2, 4),
            counted as (
                select tenant_id, received_on, outcome, 'events' as currency, sum(events) as value from fis_received group by 1, 2, 3
                union all
                select tenant_id, received_on, outcome, currency, amount from fis_received where currency <> '')
            select concat_ws(' ', tenant_id, received_on, outcome, currency, 'counted', c.value, 'found', f.value)
              from (select * from counted where outcome in ('posted', 'held', 'parked')) c
              full join found f using (tenant_id, received_on, outcome, currency)
             where coalesce(c.value, 0) <> coalesce(f.value, 0)
             union all
            select concat_ws(' ', tenant_id, received_on, outcome, currency, 'is', value)
              from counted where value < 0 and currency = 'events'";
        let differences: Vec<String> = sqlx::query_scalar(sql).fetch_all(&self.pool).await.unwrap();
        breaches.extend(differences.into_iter().map(|difference| format!("it does not tie out: {difference}")));
    }

    /// Where each published message is now.
    async fn places(&self) -> Vec<(Message, Vec<String>)> {
        let keyed = |rows: Vec<(String, String, String)>| rows.into_iter().collect::<HashSet<_>>();
        let posted = sqlx::query_as("select tenant_id, event_id, payload_hash from fis_journal_entry");
        let posted = keyed(posted.fetch_all(&self.pool).await.unwrap());
        let held = sqlx::query_as("select tenant_id, event_id, payload_hash from fis_held");
        let held = keyed(held.fetch_all(&self.pool).await.unwrap());
        type Letter = (String, Vec<u8>, String, Option<String>, Option<String>, Option<String>);
        let dead = sqlx::query_as::<_, Letter>(
            "select routing_key, body, reason, tenant_id, event_id, payload_hash from fis_dead_letter where status <> 'resolved'",
        );
        let dead = dead.fetch_all(&self.pool).await.unwrap();
        // What waited with a copy of itself ended with it, as one letter.
        let ended_together: HashMap<(String, String, String), &str> = dead
            .iter()
            .filter_map(|(.., reason, tenant, event, hash)| {
                Some(((tenant.clone()?, event.clone()?, hash.clone()?), reason.as_str()))
            })
            .collect();
        // Of a body that no event could have, a letter keeps the beginning, which may be another message's whole body.
        let is_cut = |body: &[u8], reason: &str| body.len() == BODY_BYTES_MAX && reason == "too_large";
        let dead: HashMap<(&str, &[u8], bool), &str> = dead
            .iter()
            .map(|(key, body, reason, ..)| ((key.as_str(), body.as_slice(), is_cut(body, reason)), reason.as_str()))
            .collect();
        let published = self.published.lock().unwrap().clone();
        published
            .into_iter()
            .map(|message| {
                let mut places = Vec::new();
                let key = event_key(&message);
                if let Some(key) = &key {
                    places.extend(posted.contains(key).then(|| "posted".to_owned()));
                    places.extend(held.contains(key).then(|| "held".to_owned()));
                }
                // PostgreSQL cannot store NUL.
                let routing_key = message.routing_key.replace('\0', "\u{fffd}");
                let kept = message.body.get(..BODY_BYTES_MAX).unwrap_or(&message.body);
                let letter = dead.get(&(routing_key.as_str(), kept, kept.len() < message.body.len()));
                if let Some(reason) = letter.or_else(|| ended_together.get(&key?)) {
                    places.push(format!("rejected {reason}"));
                }
                (message, places)
            })
            .collect()
    }

    /// 1: every confirmed event is exactly one of posted, ignored, held, dead-lettered.
    async fn check_places(&self, breaches: &mut Vec<String>) {
        for (message, places) in self.places().await {
            let fits = match message.expect {
                Expect::Any => places.len() == 1,
                Expect::Posted => places == ["posted"],
                Expect::Held => places == ["held"],
                Expect::Rejected(reason) => places == [format!("rejected {reason}")],
                Expect::Ignored => places.is_empty(),
            };
            if !fits {
                let body = String::from_utf8_lossy(&message.body[..message.body.len().min(300)]).into_owned();
                breaches
                    .push(format!("expected {:?}, found {places:?}: {} {body}", message.expect, message.routing_key));
            }
        }
    }

    /// 2, 3, 4, 5, 7: what SQL can tell by itself, so that `fis verify` is not the only witness.
    async fn check_sums(&self, breaches: &mut Vec<String>) {
        let checks = [
            (
                "an event is posted twice",
                "select count(*) from (select from fis_journal_entry group by tenant_id, event_id having count(*) > 1) x",
            ),
            (
                "debits differ from credits in the base currency",
                "select count(*) from (
                     select from fis_journal_line group by tenant_id, seq
                     having sum(case side when 'debit' then base_amount else -base_amount end) <> 0) x",
            ),
            (
                "debits differ from credits in a single currency",
                "select count(*) from (
                     select from fis_journal_line group by tenant_id, seq
                     having count(distinct currency) = 1
                        and sum(case side when 'debit' then amount else -amount end) <> 0) x",
            ),
            (
                "entries without lines",
                "select count(*) from fis_journal_entry e
                  where not exists (select from fis_journal_line l where (l.tenant_id, l.seq) = (e.tenant_id, e.seq))",
            ),
            (
                "balances are not the sums of the lines",
                "select count(*) from (
                     (select tenant_id, account_code, currency, debit, credit from fis_account_balance
                      except all
                      select tenant_id, account_code, currency,
                             coalesce(sum(amount) filter (where side = 'debit'), 0),
                             coalesce(sum(amount) filter (where side = 'credit'), 0)
                        from fis_journal_line group by 1, 2, 3)
                     union all
                     (select tenant_id, account_code, currency,
                             coalesce(sum(amount) filter (where side = 'debit'), 0),
                             coalesce(sum(amount) filter (where side = 'credit'), 0)
                        from fis_journal_line group by 1, 2, 3
                      except all
                      select tenant_id, account_code, currency, debit, credit from fis_account_balance)) x",
            ),
            (
                "gaps in a sequence",
                "select count(*) from (
                     select from fis_journal_entry group by tenant_id having count(*) <> max(seq) or min(seq) <> 1) x",
            ),
            (
                "heads that are not the last entry",
                "select count(*) from fis_chain_head h
                  where seq > 0
                    and not exists (select from fis_journal_entry e
                                     where (e.tenant_id, e.seq, e.hash) = (h.tenant_id, h.seq, h.hash))",
            ),
            (
                "entries in a closed period",
                "select count(*) from fis_journal_entry where accounting_date < '2026-01-01'",
            ),
            (
                "entries reversed twice",
                "select count(*) from (select from fis_journal_entry where reverses_entry_id is not null
                                        group by tenant_id, reverses_entry_id having count(*) > 1) x",
            ),
            (
                "letters that wait without a held event, or held events without their letter",
                "select (select count(*) from fis_dead_letter d
                          where d.status = 'replaying' and not exists (select from fis_held h where h.letter_id = d.id))
                      + (select count(*) from fis_held h
                          where h.letter_id is not null
                            and not exists (select from fis_dead_letter d where d.id = h.letter_id and d.status = 'replaying'))",
            ),
            (
                "replays that are done and not decided, or count what is not theirs",
                "select count(*) from fis_replay
                  where (state = 'done') <> (decided = letters and state <> 'chosen') and state <> 'stopped'
                     or skipped + failed > decided",
            ),
            (
                "batches whose counts are not their members",
                "select count(*) from fis_batch b
                  where (posted, rejected, ignored) is distinct from (
                     select (count(*) filter (where outcome = 'posted'), count(*) filter (where outcome = 'rejected'),
                             count(*) filter (where outcome = 'ignored'))
                       from fis_batch_member m where (m.tenant_id, m.batch_id) = (b.tenant_id, b.batch_id))",
            ),
            (
                "batches that are complete and do not say so",
                "select count(*) from fis_batch where posted + rejected + ignored >= size and completed_at is null",
            ),
        ];
        for (what, sql) in checks {
            match self.count(sql).await {
                0 => {}
                count => breaches.push(format!("{what}: {count}")),
            }
        }
    }

    /// 8: nothing unacknowledged, nothing due.
    async fn check_at_rest(&self, breaches: &mut Vec<String>) {
        let connection = self.connect().await.unwrap();
        for queue in LANES.into_iter().chain([DLQ]) {
            match ready_count(&connection, queue).await.unwrap() {
                0 => {}
                ready => breaches.push(format!("{ready} messages are left in {queue}")),
            }
        }
        let _ = connection.close(200, "bye".into()).await;
        match self.count("select count(*) from fis_outbox").await {
            0 => {}
            left => breaches.push(format!("{left} rows are left in the outbox")),
        }
        match self.count("select count(*) from fis_held where due_at <= now()").await {
            0 => {}
            due => breaches.push(format!("{due} held events are due")),
        }
    }

    /// 8: no PROCESSING key of a posted event; and a COMPLETED key tells the truth.
    async fn check_keys(&self, breaches: &mut Vec<String>) {
        let entries: Vec<(String, String, String, String)> =
            sqlx::query_as("select tenant_id, event_id, payload_hash, entry_id from fis_journal_entry")
                .fetch_all(&self.pool)
                .await
                .unwrap();
        if entries.is_empty() {
            return;
        }
        let mut redis = self.redis().await;
        let names: Vec<String> = entries.iter().map(|(tenant, event, ..)| format!("fis:ik:{tenant}:{event}")).collect();
        let values: Vec<Option<String>> = redis::cmd("MGET").arg(&names).query_async(&mut redis).await.unwrap();
        for ((name, value), (_, _, hash, entry)) in names.iter().zip(values).zip(&entries) {
            let value: Value = value.map_or(Value::Null, |text| serde_json::from_str(&text).unwrap());
            let says = (&value["status"], &value["payloadHash"], &value["responseBody"]["entryId"]);
            if says != (&Value::from("COMPLETED"), &Value::from(hash.as_str()), &Value::from(entry.as_str())) {
                breaches.push(format!("{name} of a posted event says {value}"));
            }
        }
    }

    /// 6: the feed holds every entry, in order per tenant, duplicates byte by byte; and every rejection.
    async fn check_feed(&self, feed: &Reader, breaches: &mut Vec<String>) {
        let entries: Vec<(String, i64, String)> =
            sqlx::query_as("select tenant_id, seq, hash from fis_journal_entry order by tenant_id, seq")
                .fetch_all(&self.pool)
                .await
                .unwrap();
        let mut bodies: HashMap<String, &[u8]> = HashMap::new();
        let mut places_told: BTreeMap<String, Vec<(i64, String)>> = BTreeMap::new();
        let mut told: HashSet<String> = HashSet::new();
        let mut complete: BTreeMap<(String, String), HashSet<String>> = BTreeMap::new();
        for message in &feed.messages {
            let first = bodies.entry(message.message_id()).or_insert(&message.body);
            if *first != message.body.as_slice() {
                breaches.push(format!("the feed has two messages {}", message.message_id()));
            }
            let data = message.data();
            if message.routing_key == "fis.batch.completed" {
                let batch = (data["tenantId"].to_string(), data["batchId"].to_string());
                complete.entry(batch).or_default().insert(message.message_id());
                continue;
            }
            if message.routing_key == "fis.event.rejected" {
                told.extend(data["deadLetterId"].as_str().map(ToOwned::to_owned));
                continue;
            }
            let tenant = data["tenantId"].as_str().unwrap().to_owned();
            let place = (data["sequence"].as_i64().unwrap(), data["hash"].as_str().unwrap().to_owned());
            let places = places_told.entry(tenant).or_default();
            if !places.contains(&place) {
                places.push(place);
            }
        }
        let batches = self.count("select count(*) from fis_batch where completed_at is not null").await;
        if complete.values().any(|ids| ids.len() != 1) || i64::try_from(complete.len()).unwrap() != batches {
            breaches.push(format!("{batches} batches are complete, the feed tells of {complete:?}"));
        }
        let mut expected: BTreeMap<String, Vec<(i64, String)>> = BTreeMap::new();
        for (tenant, seq, hash) in entries {
            expected.entry(tenant).or_default().push((seq, hash));
        }
        for (tenant, places) in &expected {
            let seen = places_told.remove(tenant).unwrap_or_default();
            if seen != *places {
                let at = seen.iter().zip(places).position(|(seen, place)| seen != place);
                let (seen, entries) = (seen.len(), places.len());
                breaches.push(format!(
                    "the feed of {tenant} has {seen} of {entries} entries, or another order (at {at:?})"
                ));
            }
        }
        breaches.extend(places_told.keys().map(|tenant| format!("the feed tells of {tenant}, the ledger does not")));
        let letters: Vec<String> =
            sqlx::query_scalar("select id from fis_dead_letter").fetch_all(&self.pool).await.unwrap();
        let untold = letters.iter().filter(|id| !told.contains(*id)).count();
        if untold > 0 {
            breaches.push(format!("{untold} of {} rejections were told to nobody", letters.len()));
        }
    }
}

/// Tenant, event id and payload hash of a message that is an event.
pub fn event_key(message: &Message) -> Option<(String, String, String)> {
    let header = |name: &str| message.header_text(name);
    let raw = RawMessage {
        body: &message.body,
        routing_key: &message.routing_key,
        content_type: message.properties.content_type().as_ref().map(|text| text.as_str()),
        header: &header,
    };
    let event = decode(raw, TenantId::parse("acme").ok().as_ref()).ok()?;
    Some((event.tenant_id.to_string(), event.event_id.to_string(), event.payload_hash))
}
