//! Idempotency keys in Redis: events enter, and for each a hint leaves whether it is worth asking PostgreSQL. With `ledger`
//! the only place where Redis is asked anything; `progress` only tells it. Redis hurries, PostgreSQL decides: no answer of
//! Redis, and no silence, can lose an event or post it twice. Whoever can write to Redis cannot either: a COMPLETED carries a code
//! that only fis can make (ADR 38).
//!
//! | found | payload hash | then |
//! |---|---|---|
//! | nothing (claimed) | – | post |
//! | PROCESSING, FAILED | any | post: the transaction decides |
//! | COMPLETED of this ledger | same | duplicate, without touching PostgreSQL |
//! | COMPLETED of this ledger | other | post: only PostgreSQL's own hash makes it a conflict |
//! | COMPLETED of another ledger | any | post: PostgreSQL was restored or failed over since |
//! | COMPLETED without the code of this event, content and ledger | any | post: fis did not write it |
//! | Redis away, slow, full, flushed | – | post: slower, never wrong |

use std::borrow::Cow;
use std::io::{self, Write};

use chrono::{DateTime, Utc};
use deadpool_redis::redis::{Cmd, FromRedisValue, Pipeline, RedisWrite, Value};
use serde::{Deserialize, Serialize};

use super::ledger::{self, Ledger, Reached};
use crate::domain::chain::instant_text;
use crate::domain::ids::{EventId, TenantId};
use crate::faults::mutants::{self, mutant};
use crate::platform::metrics;
use crate::platform::redis::Redis;

/// 72 hours: a long weekend of retries.
const LIFE_SECONDS: u64 = 259_200;

/// `SET key value NX EX life`, and room for a usual one.
const SET_ARGUMENTS: usize = 6;
const SET_BYTES_USUAL: usize = 512;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Status {
    Processing,
    Completed,
    Failed,
}

/// The value of a key, as it is written.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct KeyValue<'a> {
    status: Status,
    payload_hash: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_body: Option<Response<'a>>,
    created_at: &'a str,
    /// The ledger whose commit stands behind a COMPLETED.
    ledger: &'a str,
    /// The proof that it does. What else stands here is for people, and believed by nobody.
    #[serde(skip_serializing_if = "Option::is_none")]
    mac: Option<String>,
}

/// The value of a key, as far as it is read again.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Found<'a> {
    status: Status,
    #[serde(borrow)]
    payload_hash: Cow<'a, str>,
    #[serde(borrow, default)]
    ledger: Cow<'a, str>,
    #[serde(borrow, default)]
    mac: Cow<'a, str>,
}

/// The outcome of the event.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Response<'a> {
    #[serde(rename_all = "camelCase")]
    Posted {
        entry_id: &'a str,
        sequence: i64,
        hash: &'a str,
    },
    Rejected {
        reason: &'static str,
        detail: &'a str,
    },
}

/// One event's key.
#[derive(Debug, Clone, Copy)]
pub struct Key<'a> {
    pub tenant_id: &'a TenantId,
    pub event_id: &'a EventId,
    pub payload_hash: &'a str,
}

impl Key<'_> {
    fn write(&self, mut to: impl Write) -> io::Result<()> {
        write!(to, "fis:ik:{}:{}", self.tenant_id, self.event_id)
    }
}

/// The answer of Redis about a batch.
#[derive(Default)]
pub struct Claims {
    /// By key: known to be posted in this ledger with the same content.
    pub known: Vec<bool>,
    /// Every key was claimed; none was there before.
    pub all_new: bool,
}

/// Claims the keys in one round trip and reads the losers in another.
pub async fn claim(redis: &Redis, ledger: &Ledger, keys: &[Key<'_>], now: DateTime<Utc>) -> Claims {
    match try_claim(redis, ledger, keys, now).await {
        Some(claims) => claims,
        None => {
            metrics::redis_away();
            Claims { known: vec![false; keys.len()], all_new: false }
        }
    }
}

async fn try_claim(redis: &Redis, ledger: &Ledger, keys: &[Key<'_>], now: DateTime<Utc>) -> Option<Claims> {
    // A batch of nothing but poison has no keys; Redis answers an empty pipeline with an error, which is not an outage.
    if keys.is_empty() {
        return Some(Claims::default());
    }
    let created_at = instant_text(now);
    let mut claims = Pipeline::with_capacity(keys.len());
    for key in keys {
        let value = KeyValue {
            status: Status::Processing,
            payload_hash: key.payload_hash,
            response_body: None,
            created_at: &created_at,
            ledger: ledger.name(),
            mac: None,
        };
        claims.add_command(set(key, &value, Some("NX")));
    }
    let answers = redis.run(&mut claims).await.ok()?;
    // Nil: somebody was here before. An error (out of memory, read-only) is silence, not an answer.
    let lost: Vec<usize> =
        answers.iter().enumerate().filter(|(_, answer)| matches!(answer, Ok(Value::Nil))).map(|(i, _)| i).collect();
    let mut known = vec![false; keys.len()];
    if lost.is_empty() {
        return Some(Claims { known, all_new: answers.iter().all(Result::is_ok) });
    }
    let mut read = Cmd::new();
    read.arg("MGET");
    for key in lost.iter().filter_map(|i| keys.get(*i)) {
        let _ = key.write(read.writer_for_next_arg());
    }
    let mut reads = Pipeline::with_capacity(1);
    reads.add_command(read);
    let values = redis.run(&mut reads).await.ok()?.pop()?.ok()?;
    let values: Vec<Option<String>> = FromRedisValue::from_redis_value(values).ok()?;
    for (index, value) in lost.into_iter().zip(values) {
        if let (Some(value), Some(key), Some(known)) = (value, keys.get(index), known.get_mut(index)) {
            *known = is_posted(&value, key, ledger);
        }
    }
    Some(Claims { known, all_new: false })
}

fn is_posted(value: &str, key: &Key<'_>, ledger: &Ledger) -> bool {
    let Ok(value) = serde_json::from_str::<Found<'_>>(value) else { return false };
    if value.payload_hash != key.payload_hash || value.ledger != ledger.name() || ledger.name().is_empty() {
        return false;
    }
    match value.status {
        Status::Completed => {
            ledger.proves(key.tenant_id, key.event_id, key.payload_hash, &value.mac)
                || mutant(mutants::FORGED_KEY_BELIEVED)
        }
        Status::Processing => mutant(mutants::PROCESSING_IS_DUPLICATE),
        Status::Failed => false,
    }
}

/// The status and the response that a key is to hold after the commit.
pub struct Mark<'a> {
    pub key: Key<'a>,
    pub status: Status,
    pub response_body: Response<'a>,
}

/// Removes the keys that do not say COMPLETED: somebody else may have posted the event meanwhile.
const FORGET: &str = r#"for _, key in ipairs(KEYS) do
  local value = redis.call('GET', key)
  if value and not string.find(value, '"status":"COMPLETED"', 1, true) then redis.call('UNLINK', key) end
end
return 0"#;

/// Forgets the keys of events that wait and are about to be decided: were the process to die right after the commit, nobody would come again to
/// mark them, and they would go on saying PROCESSING or FAILED of a posted event. Silence costs the next duplicate a moment, and no more.
pub async fn forget(redis: &Redis, keys: &[Key<'_>]) {
    if keys.is_empty() {
        return;
    }
    let mut forget = Cmd::new();
    forget.arg("EVAL").arg(FORGET).arg(keys.len());
    for key in keys {
        let _ = key.write(forget.writer_for_next_arg());
    }
    let mut pipeline = Pipeline::with_capacity(1);
    pipeline.add_command(forget);
    if redis.run(&mut pipeline).await.is_err() {
        metrics::redis_away();
    }
}

/// Marks the keys in one round trip. A failure is not one: the ledger has committed, and a key that says PROCESSING only
/// makes the next duplicate slower.
pub async fn mark(
    redis: &Redis,
    ledger: &Ledger,
    reached: Option<Reached<'_>>,
    marks: Vec<Mark<'_>>,
    now: DateTime<Utc>,
) {
    if marks.is_empty() {
        return;
    }
    let created_at = instant_text(now);
    let mut pipeline = Pipeline::with_capacity(marks.len() + 1);
    // First: a COMPLETED must not be there without it.
    if let Some(reached) = reached {
        ledger::remember(&mut pipeline, ledger.name(), reached);
    }
    for mark in marks {
        let Key { tenant_id, event_id, payload_hash } = mark.key;
        let value = KeyValue {
            status: mark.status,
            payload_hash,
            response_body: Some(mark.response_body),
            created_at: &created_at,
            ledger: ledger.name(),
            mac: match mark.status {
                Status::Completed => ledger.prove(tenant_id, event_id, payload_hash),
                Status::Processing | Status::Failed => None,
            },
        };
        // What is committed is true, also where the key was forgotten meanwhile; that an event failed is not worth a key of its own.
        let when = if mark.status == Status::Completed { None } else { Some("XX") };
        pipeline.add_command(set(&mark.key, &value, when));
    }
    if redis.run(&mut pipeline).await.is_err() {
        metrics::redis_away();
    }
}

/// Written in place: every event has two of them.
fn set(key: &Key<'_>, value: &KeyValue<'_>, when: Option<&'static str>) -> Cmd {
    let mut command = Cmd::with_capacity(SET_ARGUMENTS, SET_BYTES_USUAL);
    command.arg("SET");
    // Writing to memory cannot fail, and strings and numbers cannot fail to serialise; an unreadable value would be treated as
    // "post" anyway.
    let _ = key.write(command.writer_for_next_arg());
    let _ = serde_json::to_writer(command.writer_for_next_arg(), value);
    if let Some(when) = when {
        command.arg(when);
    }
    command.arg("EX").arg(LIFE_SECONDS);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(name: &str) -> Ledger {
        Ledger::of(name, b"a secret of PostgreSQL")
    }

    #[test]
    fn only_completed_of_this_ledger_with_the_same_hash_and_our_code_is_a_duplicate() {
        let (tenant, event, other) =
            (TenantId::parse("acme").unwrap(), EventId::parse("evt").unwrap(), EventId::parse("other").unwrap());
        let key = |event_id, payload_hash| Key { tenant_id: &tenant, event_id, payload_hash };
        let value = |status: &str, ledger: &str, mac: Option<String>| {
            let mac = mac.unwrap_or_default();
            format!(
                r#"{{"status":"{status}","payloadHash":"sha256:a","createdAt":"2026-02-25T10:00:00Z","ledger":"{ledger}","mac":"{mac}"}}"#
            )
        };
        let (ours, theirs) = (known("L1"), Ledger::of("L1", b"somebody's own secret"));
        let proof = |ledger: &Ledger| ledger.prove(&tenant, &event, "sha256:a");
        let rows = [
            (value("COMPLETED", "L1", proof(&ours)), key(&event, "sha256:a"), &ours, true),
            (value("COMPLETED", "L1", proof(&ours)), key(&event, "sha256:b"), &ours, false),
            (value("COMPLETED", "L1", proof(&ours)), key(&other, "sha256:a"), &ours, false),
            (value("COMPLETED", "L1", proof(&theirs)), key(&event, "sha256:a"), &ours, false),
            (value("COMPLETED", "L1", None), key(&event, "sha256:a"), &ours, false),
            (value("COMPLETED", "L0", proof(&known("L0"))), key(&event, "sha256:a"), &ours, false),
            (value("COMPLETED", "L1", proof(&known("L0"))), key(&event, "sha256:a"), &ours, false),
            (value("COMPLETED", "", proof(&known(""))), key(&event, "sha256:a"), &known(""), false),
            (value("COMPLETED", "", None), key(&event, "sha256:a"), &Ledger::default(), false),
            (value("PROCESSING", "L1", proof(&ours)), key(&event, "sha256:a"), &ours, false),
            (value("FAILED", "L1", proof(&ours)), key(&event, "sha256:a"), &ours, false),
            ("rubbish".to_owned(), key(&event, "sha256:a"), &ours, false),
        ];
        for (value, key, ledger, expected) in rows {
            assert_eq!(is_posted(&value, &key, ledger), expected, "{value} {key:?} {}", ledger.name());
        }
    }
}
