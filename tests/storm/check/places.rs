//! Invariant 1: every confirmed event is where the model says, with exactly the lines the model says, and nowhere else.

use std::collections::{HashMap, HashSet};

use super::Breach;
use super::letters::Letters;
use crate::model::{Case, Entry, Fate, Meaning, Script, Variant};
use crate::publisher::Sent;
use crate::snapshot::{EntryRow, HeldRow, LetterRow, Snapshot};

struct Places<'a> {
    script: &'a Script,
    snapshot: &'a Snapshot,
    entries: HashMap<(&'a str, &'a str), &'a EntryRow>,
    letters: Letters<'a>,
    /// The letters that the admin gave up.
    discarded: &'a HashSet<String>,
    /// The confirmed messages of each case and variant.
    messages: HashMap<(usize, usize), Vec<usize>>,
    breaches: Vec<Breach>,
}

pub fn check(script: &Script, sent: &[Sent], snapshot: &Snapshot, discarded: &HashSet<String>) -> Vec<Breach> {
    let mut messages: HashMap<(usize, usize), Vec<usize>> = HashMap::new();
    let mut poison = Vec::new();
    for (number, message) in script.messages.iter().enumerate().filter(|(n, _)| sent[*n].confirmed_at.is_some()) {
        match message.meaning {
            Meaning::Event { case, variant } => messages.entry((case, variant)).or_default().push(number),
            Meaning::Poison(reason) => poison.push((number, reason)),
        }
    }
    let (entries, letters) = (snapshot.entry_of(), Letters::new(&snapshot.letters));
    let mut places = Places { script, snapshot, entries, letters, discarded, messages, breaches: Vec::new() };
    for (number, reason) in poison {
        places.dead(number, &[reason], None);
    }
    for number in 0..script.cases.len() {
        places.case(number);
    }
    places.nothing_else();
    places.batches();
    places.breaches
}

impl<'a> Places<'a> {
    fn breach(&mut self, case: &Case, what: String) {
        let breach =
            Breach::new(1, format!("{}/{}: {what}", case.tenant, case.event_id)).of(case.tenant, &case.event_id);
        self.breaches.push(breach);
    }

    fn case(&mut self, number: usize) {
        let case = &self.script.cases[number];
        let arrived: Vec<usize> =
            (0..case.variants.len()).filter(|variant| self.messages.contains_key(&(number, *variant))).collect();
        if arrived.is_empty() {
            return;
        }
        let entry = self.entries.get(&(case.tenant, case.event_id.as_str())).copied();
        let key = (case.tenant.to_owned(), case.event_id.clone());
        let held = self.snapshot.held.get(&key).map_or(&[][..], Vec::as_slice);
        let fates: Vec<&Fate> = arrived.iter().map(|variant| &case.variants[*variant].fate).collect();
        if let (Some(entry), Some(held)) = (entry, held.first()) {
            self.breach(case, format!("posted as {} and held for {}", entry.entry_id, held.reason));
        }
        if fates.iter().any(|fate| matches!(fate, Fate::Held(_))) {
            return self.held(number, &arrived, held);
        }
        if let Some(held) = held.first() {
            return self.breach(case, format!("held for {}", held.reason));
        }
        if let Some(edited) = &case.edited {
            return self.edited(number, edited, entry);
        }
        match fates.as_slice() {
            [Fate::Ignored] if entry.is_some() => self.breach(case, "posted, though the books ignore it".to_owned()),
            [Fate::Ignored] => {}
            [Fate::Reversal { of }] => self.reversal(number, *of, entry),
            [Fate::Dead(reason @ "attempts_exhausted")] => self.dead_together(number, 0, reason),
            [Fate::Dead(reason)] => {
                for message in self.messages[&(number, arrived[0])].clone() {
                    self.dead(message, &[reason], Some(number));
                }
            }
            _ => self.contents(number, &arrived, entry),
        }
    }

    /// Each content that waits is held for itself; what else came under its id ended as if it were alone.
    fn held(&mut self, number: usize, arrived: &[usize], held: &[HeldRow]) {
        let case = &self.script.cases[number];
        for variant in arrived {
            let Variant { fate, payload_hash, .. } = &case.variants[*variant];
            let row = held.iter().find(|row| row.payload_hash == *payload_hash);
            match (fate, row) {
                (Fate::Held(reason), Some(row)) if row.reason == *reason => {}
                (Fate::Held(reason), Some(row)) => {
                    self.breach(case, format!("held for {}, not for {reason}", row.reason));
                }
                (Fate::Held(reason), None) => self.breach(case, format!("not held, though {reason}")),
                (_, Some(row)) => self.breach(case, format!("held for {}", row.reason)),
                (Fate::Dead(reason), None) => {
                    for message in self.messages[&(number, *variant)].clone() {
                        self.dead(message, &[reason], Some(number));
                    }
                }
                _ => {}
            }
        }
        if held.len() > arrived.len() {
            self.breach(case, format!("held {} times", held.len()));
        }
    }

    /// The admin has mended its letter: the mended content is posted, and nothing is left to do.
    fn edited(&mut self, number: usize, edited: &Variant, entry: Option<&EntryRow>) {
        let case = &self.script.cases[number];
        let Some(entry) = entry else {
            return self.breach(case, "its letter was edited, and it is not posted".to_owned());
        };
        if entry.payload_hash != edited.payload_hash {
            return self.breach(case, format!("posted with payload hash {}, not as it was edited", entry.payload_hash));
        }
        if let Fate::Posted(expected) = &edited.fate {
            self.compare(number, expected, entry);
        }
        for message in self.messages[&(number, 0)].clone() {
            self.overtaken(message, number);
        }
    }

    /// One content or several under one id: one of those that can be booked is posted, the others are dead letters.
    fn contents(&mut self, number: usize, arrived: &[usize], entry: Option<&EntryRow>) {
        let case = &self.script.cases[number];
        let bookable: Vec<&Variant> =
            arrived.iter().map(|v| &case.variants[*v]).filter(|v| matches!(v.fate, Fate::Posted(_))).collect();
        let Some(entry) = entry else {
            if !bookable.is_empty() && !self.all_expired(number, arrived) {
                self.breach(case, "confirmed, and not posted".to_owned());
            }
            return;
        };
        let Some(posted) = bookable.iter().find(|variant| variant.payload_hash == entry.payload_hash) else {
            let known: Vec<&str> = bookable.iter().map(|variant| variant.payload_hash.as_str()).collect();
            return self.breach(case, format!("posted with payload hash {}, sent were {known:?}", entry.payload_hash));
        };
        if let Fate::Posted(expected) = &posted.fate {
            self.compare(number, expected, entry);
        }
        if entry.event_type != posted.draft.event_type {
            self.breach(case, format!("posted as {}", entry.event_type));
        }
        for variant in arrived {
            let fate = &case.variants[*variant].fate;
            let is_posted = case.variants[*variant].payload_hash == entry.payload_hash;
            if matches!(fate, Fate::Posted(_)) && !is_posted {
                self.dead_together(number, *variant, "idempotency_conflict");
                continue;
            }
            for message in self.messages[&(number, *variant)].clone() {
                match fate {
                    Fate::Posted(_) => self.not_dead(message, number),
                    // A conflict, where it came behind.
                    Fate::Ignored => {}
                    // Resolved by the correction, or a conflict behind it.
                    _ => self.overtaken(message, number),
                }
            }
        }
    }

    /// Tells whether its publisher let all of its messages expire, and they are letters that the broker made of them.
    fn all_expired(&self, number: usize, arrived: &[usize]) -> bool {
        let mut messages = arrived.iter().flat_map(|variant| &self.messages[&(number, *variant)]);
        messages.all(|message| self.found(*message).into_iter().any(|letter| self.has_expired(*message, letter)))
    }

    /// Tells whether a letter is what the broker made of a message that was not taken in time.
    fn has_expired(&self, message: usize, letter: &LetterRow) -> bool {
        let odd = self.script.messages[message].odd.as_ref();
        let expires = odd.is_some_and(|odd| odd.properties.expiration.is_some());
        expires && letter.status == "parked" && letter.reason == "delivery_limit"
    }

    fn compare(&mut self, number: usize, expected: &Entry, entry: &EntryRow) {
        let case = &self.script.cases[number];
        let lines = self.snapshot.lines_of(entry);
        if lines != expected.lines {
            self.breach(case, format!("posted with the lines {lines:?}, expected {:?}", expected.lines));
        }
        let (date, original) = (entry.accounting_date.to_string(), entry.original_date.map(|date| date.to_string()));
        if let Some(expected_date) = &expected.date
            && (date != *expected_date || original != expected.original_date)
        {
            self.breach(
                case,
                format!("dated {date} ({original:?}), expected {expected_date} ({:?})", expected.original_date),
            );
        }
        if entry.rule_name != expected.rule {
            self.breach(case, format!("posted by rule {}, expected {}", entry.rule_name, expected.rule));
        }
    }

    /// Of the reversals of one entry, exactly one is posted.
    fn reversal(&mut self, number: usize, of: usize, entry: Option<&EntryRow>) {
        let case = &self.script.cases[number];
        let original_case = &self.script.cases[of];
        let original = self.entries.get(&(original_case.tenant, original_case.event_id.as_str())).copied();
        let Some(original) = original else {
            return self.breach(case, format!("its original {} is not posted", original_case.event_id));
        };
        let rivals: Vec<&EntryRow> = self
            .script
            .reversals_of(of)
            .filter_map(|(_, rival)| self.entries.get(&(rival.tenant, rival.event_id.as_str())).copied())
            .collect();
        if rivals.len() != 1 {
            let ids: Vec<&str> = rivals.iter().map(|rival| rival.entry_id.as_str()).collect();
            return self.breach(case, format!("the reversals of {} are posted as {ids:?}", original.entry_id));
        }
        let Some(entry) = entry else {
            return self.dead_together(number, 0, "already_reversed");
        };
        let mirrored: Vec<_> = self.snapshot.lines_of(original).iter().map(crate::model::Line::mirrored).collect();
        if self.snapshot.lines_of(entry) != mirrored {
            self.breach(case, format!("{} does not mirror {}", entry.entry_id, original.entry_id));
        }
        if entry.reverses_entry_id.as_ref() != Some(&original.entry_id)
            || entry.accounting_date != original.accounting_date
        {
            self.breach(case, format!("{} does not reverse {} on its day", entry.entry_id, original.entry_id));
        }
        if entry.payload_hash != case.variants[0].payload_hash {
            self.breach(case, format!("posted with payload hash {}", entry.payload_hash));
        }
    }

    /// Content that may have been held goes by one message, however often it came: one letter is enough.
    fn dead_together(&mut self, number: usize, variant: usize, reason: &str) {
        let messages = &self.messages[&(number, variant)];
        let is_open = |letter: &&LetterRow| letter.status != "resolved" && letter.reason == reason;
        if !messages.iter().any(|message| self.found(*message).iter().any(is_open)) {
            let what = format!("none of the messages {messages:?} is parked for {reason}");
            self.breach(&self.script.cases[number], what);
        }
    }

    fn found(&self, message: usize) -> Vec<&'a LetterRow> {
        self.letters.of(&self.script.messages[message])
    }

    fn dead(&mut self, message: usize, reasons: &[&str], case: Option<usize>) {
        let letters = self.found(message);
        let is_there = |letter: &LetterRow| {
            letter.status == "parked" || letter.status == "discarded" && self.discarded.contains(&letter.id)
        };
        if letters.iter().any(|letter| is_there(letter) && reasons.contains(&letter.reason.as_str())) {
            return;
        }
        let found: Vec<String> = letters.iter().map(|letter| format!("{} {}", letter.status, letter.reason)).collect();
        let what = format!("message {message} must be parked for {reasons:?}, found {found:?}");
        match case {
            Some(case) => self.breach(&self.script.cases[case], what),
            None => {
                let body = &self.script.messages[message].body;
                let body = String::from_utf8_lossy(&body[..body.len().min(200)]).into_owned();
                self.breaches.push(Breach::new(1, format!("{what}: {body}")));
            }
        }
    }

    fn not_dead(&mut self, message: usize, case: usize) {
        let is_open = |letter: &&&LetterRow| letter.status == "parked" && !self.has_expired(message, letter);
        if let Some(letter) = self.found(message).iter().find(is_open) {
            let what = format!("posted, and message {message} is parked for {}: {}", letter.reason, letter.detail);
            self.breach(&self.script.cases[case], what);
        }
    }

    fn overtaken(&mut self, message: usize, case: usize) {
        let letters = self.found(message);
        let fits = |letter: &&&LetterRow| letter.status == "resolved" || letter.reason == "idempotency_conflict";
        if letters.iter().find(fits).is_none() {
            let found: Vec<String> =
                letters.iter().map(|letter| format!("{} {}", letter.status, letter.reason)).collect();
            let what = format!("message {message} was corrected, its letter is {found:?}");
            self.breach(&self.script.cases[case], what);
        }
    }

    /// Nothing is posted or parked that nobody sent.
    fn nothing_else(&mut self) {
        self.breaches.extend(self.letters.strangers(self.script));
        let known: HashSet<(&str, &str)> =
            self.script.cases.iter().map(|case| (case.tenant, case.event_id.as_str())).collect();
        for entry in &self.snapshot.entries {
            if !known.contains(&(entry.tenant_id.as_str(), entry.event_id.as_str())) {
                let what = format!("{} is of an event that nobody published: {}", entry.entry_id, entry.event_id);
                self.breaches.push(Breach::new(1, what).of(&entry.tenant_id, &entry.event_id));
            }
        }
    }

    /// The batches are the witness of what was ignored.
    fn batches(&mut self) {
        for batch in &self.script.batches {
            let found = self.snapshot.batches.get(&(batch.tenant.to_owned(), batch.id.clone()));
            let counts = found.map(|row| (row.posted, row.rejected, row.ignored));
            if counts != Some((batch.posted, batch.rejected, batch.ignored)) {
                let expected = (batch.posted, batch.rejected, batch.ignored);
                let what = format!("batch {}/{}: {counts:?}, expected {expected:?}", batch.tenant, batch.id);
                self.breaches.push(Breach::new(1, what));
            } else if found.is_some_and(|row| row.completed_at.is_some() != batch.size.is_some()) {
                let what = format!("batch {}/{}: complete or not, size {:?}", batch.tenant, batch.id, batch.size);
                self.breaches.push(Breach::new(1, what));
            }
        }
    }
}
