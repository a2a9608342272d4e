//! Somebody who can write to Redis: he forges, garbles and deletes keys, above all those of events that are yet to come. None of it may lose an event or
//! have one posted twice.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result};
use deadpool_redis::redis;
use fastrand::Rng;
use serde_json::Value;

use crate::model::{Meaning, Script};
use crate::publisher::Publisher;
use crate::servers::Servers;

/// Acts follow each other after so many milliseconds.
const GAP: std::ops::Range<u64> = 100..500;
const PATIENCE: Duration = Duration::from_secs(2);

pub struct Forger {
    servers: Servers,
    script: Arc<Script>,
    publisher: Arc<Publisher>,
    /// The keys that he wrote: they prove nothing about fis.
    pub forged: Mutex<HashSet<String>>,
}

impl Forger {
    pub fn new(servers: &Servers, script: Arc<Script>, publisher: Arc<Publisher>) -> Arc<Self> {
        Arc::new(Self { servers: servers.clone(), script, publisher, forged: Mutex::default() })
    }

    /// Acts until it is dropped.
    pub async fn run(self: Arc<Self>, seed: u64) {
        let mut rng = Rng::with_seed(seed ^ 0x0f03_9e55);
        loop {
            tokio::time::sleep(Duration::from_millis(rng.u64(GAP))).await;
            // Redis may be away: then there is nothing to forge.
            let _ = tokio::time::timeout(PATIENCE, self.act(&mut rng)).await;
        }
    }

    async fn act(&self, rng: &mut Rng) -> Result<()> {
        let mut redis = self.servers.redis().await?;
        let number = self.publisher.unsent(rng).context("everything is sent")?;
        let Meaning::Event { case, variant } = self.script.messages[number].meaning else { return Ok(()) };
        let case = &self.script.cases[case];
        let key = format!("fis:ik:{}:{}", case.tenant, case.event_id);
        let hash = &case.variants[variant].payload_hash;
        // Whoever reads one key knows the ledger's name, and a code that is right for another event.
        let other: Option<String> = redis::cmd("RANDOMKEY").query_async(&mut redis).await?;
        let other = other.filter(|name| name.starts_with("fis:ik:")).unwrap_or_default();
        let seen: Option<String> = redis::cmd("GET").arg(&other).query_async(&mut redis).await.unwrap_or_default();
        let seen: Value = seen.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        let text = |name: &str| seen[name].as_str().unwrap_or_default().to_owned();
        let value = |status: &str, mac: &str| {
            let value = serde_json::json!({
                "status": status, "payloadHash": hash, "createdAt": "2026-02-25T10:00:00.000000Z",
                "responseBody": {"entryId": format!("{}/1", case.tenant), "sequence": 1, "hash": "0"},
                "ledger": text("ledger"), "mac": mac,
            });
            value.to_string().into_bytes()
        };
        let mut command = redis::cmd("SET");
        match rng.u8(..10) {
            0..4 => command.arg(&key).arg(value("COMPLETED", &text("mac"))),
            4 => command.arg(&key).arg(value("COMPLETED", "")),
            5 => command.arg(&key).arg(value("PROCESSING", &text("mac"))),
            6 => command.arg(&key).arg(&b"\xff\x00{\"status\": \"COMPLETED\""[..]),
            7 => command.arg(&key).arg("9".repeat(200_000)),
            8 => {
                // No text at all.
                command = redis::cmd("RPUSH");
                command.arg(&key).arg("COMPLETED")
            }
            _ => {
                command = redis::cmd("DEL");
                command.arg(&other)
            }
        };
        self.forged.lock().unwrap().insert(key);
        Ok(command.query_async::<redis::Value>(&mut redis).await.map(drop)?)
    }
}
