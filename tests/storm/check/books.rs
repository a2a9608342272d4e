//! Invariants 2, 3, 4, 5 and 7: the journal in itself. The hashes are computed here from `docs/hash-chain.md` alone.

use std::collections::{BTreeMap, HashSet};

use rust_decimal::Decimal;

use super::Breach;
use crate::json::{plain, sha256};
use crate::snapshot::{EntryRow, Snapshot};

pub fn check(snapshot: &Snapshot) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let mut seen: HashSet<(&str, &str)> = HashSet::new();
    let mut reversed: HashSet<&str> = HashSet::new();
    let mut sums: BTreeMap<(String, String, String), (Decimal, Decimal)> = BTreeMap::new();
    let mut ends: BTreeMap<&str, (i64, &str)> = BTreeMap::new();
    for entry in &snapshot.entries {
        let mut breach = |invariant: u8, what: String| {
            let what = format!("{}: {what}", entry.entry_id);
            breaches.push(Breach::new(invariant, what).of(&entry.tenant_id, &entry.event_id));
        };
        if !seen.insert((&entry.tenant_id, &entry.event_id)) {
            breach(2, format!("event {} is posted twice", entry.event_id));
        }
        if let Some(original) = &entry.reverses_entry_id
            && !reversed.insert(original)
        {
            breach(2, format!("{original} is reversed twice"));
        }
        for what in unbalanced(snapshot, entry) {
            breach(3, what);
        }
        // In neither version of the books: before this day only whoever holds may post, and only when it was opened.
        let reopened = entry.tenant_id == "cedar" && entry.accounting_date.to_string().starts_with("2025-12");
        if entry.accounting_date.to_string().as_str() < crate::books::OPEN_SINCE && !reopened {
            breach(7, format!("dated {}, where no period is open", entry.accounting_date));
        }
        let (seq, previous) = ends.get(entry.tenant_id.as_str()).copied().unwrap_or((0, GENESIS));
        if entry.seq != seq + 1 || entry.previous_hash != previous {
            breach(5, format!("follows {seq} with hash {previous}, and says {}", entry.previous_hash));
        }
        let computed = hash(snapshot, entry);
        if computed != entry.hash {
            breach(5, format!("its hash is {computed}, stored is {}", entry.hash));
        }
        ends.insert(&entry.tenant_id, (entry.seq, &entry.hash));
        for line in snapshot.lines_of(entry) {
            let key = (entry.tenant_id.clone(), line.account.clone(), line.currency.clone());
            let (debit, credit) = sums.entry(key).or_default();
            *(if line.debit { debit } else { credit }) += line.amount;
        }
    }
    for (tenant, (seq, hash)) in &snapshot.heads {
        let end = ends.get(tenant.as_str()).copied().unwrap_or((0, GENESIS));
        if end != (*seq, hash.as_str()) {
            breaches
                .push(Breach::new(5, format!("the head of {tenant} says {seq} {hash}, the chain ends with {end:?}")));
        }
    }
    if sums != snapshot.balances {
        let off = sums.iter().find(|(key, sum)| snapshot.balances.get(*key) != Some(*sum));
        let extra = snapshot.balances.keys().find(|key| !sums.contains_key(*key));
        breaches.push(Breach::new(4, format!("balances are not the sums of the lines: {off:?}, {extra:?}")));
    }
    breaches
}

fn unbalanced(snapshot: &Snapshot, entry: &EntryRow) -> Vec<String> {
    let lines = snapshot.lines_of(entry);
    let mut found = Vec::new();
    if lines.len() < 2 {
        found.push(format!("has {} lines", lines.len()));
    }
    let mut base = Decimal::ZERO;
    let mut own: BTreeMap<&str, Decimal> = BTreeMap::new();
    for line in lines {
        let sign = if line.debit { Decimal::ONE } else { Decimal::NEGATIVE_ONE };
        base += sign * line.base;
        *own.entry(&line.currency).or_default() += sign * line.amount;
    }
    if !base.is_zero() {
        found.push(format!("debits exceed credits by {base} in the base currency"));
    }
    if own.len() == 1 && own.values().any(|sum| !sum.is_zero()) {
        found.push(format!("debits differ from credits: {own:?}"));
    }
    found
}

const GENESIS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

fn hash(snapshot: &Snapshot, entry: &EntryRow) -> String {
    let lines = snapshot.lines_of(entry);
    let mut texts = vec![
        "fis-entry-v1".to_owned(),
        entry.tenant_id.clone(),
        entry.seq.to_string(),
        entry.previous_hash.clone(),
        entry.entry_id.clone(),
        entry.event_id.clone(),
        entry.event_type.clone(),
        entry.payload_hash.clone(),
        entry.rule_name.clone(),
        entry.rule_version.to_string(),
        entry.accounting_date.to_string(),
        entry.original_date.map(|date| date.to_string()).unwrap_or_default(),
        entry.posted_at.format("%Y-%m-%dT%H:%M:%S%.6fZ").to_string(),
        entry.description.clone(),
        entry.reverses_entry_id.clone().unwrap_or_default(),
        lines.len().to_string(),
    ];
    for line in lines {
        let side = if line.debit { "debit" } else { "credit" };
        let amount = |amount: Decimal| plain(&amount.to_string());
        texts.extend([
            line.account.clone(),
            side.to_owned(),
            amount(line.amount),
            line.currency.clone(),
            amount(line.base),
        ]);
    }
    let bytes: String = texts.iter().map(|text| format!("{}:{text},", text.len())).collect();
    sha256(bytes.as_bytes())
}
