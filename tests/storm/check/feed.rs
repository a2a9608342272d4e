//! Invariant 6: the feed holds every entry at least once, in order per tenant, duplicates with the same bytes; every rejection and
//! every complete batch is told.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::Value;

use super::Breach;
use crate::model::Script;
use crate::reader::Told;
use crate::snapshot::Snapshot;
use crate::world::Scars;

pub fn check(script: &Script, snapshot: &Snapshot, told: &[Told], scars: Scars) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let mut bodies: HashMap<&str, &[u8]> = HashMap::new();
    let mut entries: BTreeMap<String, Vec<(i64, String)>> = BTreeMap::new();
    let mut known: HashSet<(String, i64, String)> = HashSet::new();
    let mut rejections: HashSet<String> = HashSet::new();
    let mut batches: BTreeMap<(String, String), HashSet<&str>> = BTreeMap::new();
    for message in told {
        let first = bodies.entry(&message.message_id).or_insert(&message.body);
        if *first != message.body.as_slice() && !scars.forgot {
            breaches.push(Breach::new(6, format!("the feed has two messages {}", message.message_id)));
        }
        let body: Value = serde_json::from_slice(&message.body).unwrap_or_default();
        let data = &body["data"];
        let member = |name: &str| data[name].as_str().unwrap_or_default().to_owned();
        match message.routing_key.as_str() {
            "fis.batch.completed" => {
                let batch = (member("tenantId"), member("batchId"));
                batches.entry(batch).or_default().insert(&message.message_id);
            }
            "fis.event.rejected" => drop(rejections.insert(member("deadLetterId"))),
            "fis.journal.posted" | "fis.journal.reverted" => {
                let seq = data["sequence"].as_i64().unwrap_or_default();
                if known.insert((member("tenantId"), seq, member("hash"))) {
                    entries.entry(member("tenantId")).or_default().push((seq, member("eventId")));
                }
            }
            other => breaches.push(Breach::new(6, format!("the feed has a message with key {other}"))),
        }
    }
    if !scars.forgot {
        for (tenant, entries) in &entries {
            for (place, (seq, event)) in (1_i64..).zip(entries) {
                if place != *seq {
                    let what = format!("the feed of {tenant} tells {seq} where {place} is due");
                    breaches.push(Breach::new(6, what).of(tenant, event));
                    break;
                }
            }
        }
    }
    for entry in &snapshot.entries {
        if !known.contains(&(entry.tenant_id.clone(), entry.seq, entry.hash.clone())) {
            let what = format!("the feed does not tell of {}", entry.entry_id);
            breaches.push(Breach::new(6, what).of(&entry.tenant_id, &entry.event_id));
        }
    }
    let heads: i64 = snapshot.heads.values().map(|(seq, _)| seq).sum();
    let count = entries.values().map(Vec::len).sum::<usize>();
    if !scars.forgot && i64::try_from(count).unwrap_or(i64::MAX) != heads {
        breaches.push(Breach::new(6, format!("the feed tells of {count} entries, there are {heads}")));
    }
    for letter in &snapshot.letters {
        if !rejections.contains(&letter.id) {
            let what = format!("the feed does not tell of dead letter {} ({})", letter.id, letter.reason);
            let (tenant, event) = (letter.tenant_id.as_deref(), letter.event_id.as_deref());
            breaches.push(Breach::new(6, what).of(tenant.unwrap_or_default(), event.unwrap_or_default()));
        }
    }
    for batch in script.batches.iter().filter(|batch| batch.size.is_some()) {
        let ids = batches.get(&(batch.tenant.to_owned(), batch.id.clone())).map_or(0, HashSet::len);
        if ids != 1 && !(scars.forgot && ids > 0) {
            let what = format!("the end of batch {}/{} is told by {ids} messages", batch.tenant, batch.id);
            breaches.push(Breach::new(6, what));
        }
    }
    breaches
}
