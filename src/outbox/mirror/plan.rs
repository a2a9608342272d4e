//! What the mirror sends next, and what the broker's answers mean. Nothing here does anything: tenants with their cursors
//! enter, places of the journal leave; outcomes enter, moved cursors and stuck tenants leave. A cursor never passes an entry
//! that was not confirmed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use tokio::time::Instant;

use crate::domain::ids::{EntryPlace, TenantId};
use crate::platform::amqp::PublishOutcome;
use crate::platform::time::Backoff;
use crate::store::mirror::Due;

/// The next entries, in order per tenant, at most `most`: shared out evenly, and one alone for a tenant whose last one was
/// not taken, so that what follows it does not arrive before it.
pub fn places(due: &[Due], most: usize, is_stuck: impl Fn(&str) -> bool) -> Vec<EntryPlace> {
    let due = due.get(..most).unwrap_or(due);
    let share = i64::try_from(most / due.len().max(1)).unwrap_or(i64::MAX);
    let mut places = Vec::new();
    for one in due {
        let share = if is_stuck(one.tenant_id.as_str()) { 1 } else { share };
        let last = one.head.min(one.seq.saturating_add(share));
        places.extend((one.seq.saturating_add(1)..=last).map(|seq| (one.tenant_id.clone(), seq)));
    }
    places
}

/// The outcome of a window.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct WindowOutcome {
    /// The cursors' new places.
    pub moved: Vec<(TenantId, i64)>,
    /// Entries that the cursors have passed.
    pub mirrored: u64,
    /// Messages that came back or were refused.
    pub failed: u64,
    pub stuck: BTreeSet<String>,
    pub why: Option<String>,
}

/// A tenant's cursor moves up to its first entry that was not confirmed; what was confirmed behind it is sent again.
pub fn confirm(sent: &[EntryPlace], outcomes: &[PublishOutcome]) -> WindowOutcome {
    let mut confirmed = WindowOutcome::default();
    let mut moved: BTreeMap<&str, (&TenantId, i64)> = BTreeMap::new();
    for ((tenant_id, seq), outcome) in sent.iter().zip(outcomes) {
        let why = match outcome {
            PublishOutcome::Confirmed if confirmed.stuck.contains(tenant_id.as_str()) => continue,
            PublishOutcome::Confirmed => {
                moved.insert(tenant_id.as_str(), (tenant_id, *seq));
                confirmed.mirrored += 1;
                continue;
            }
            PublishOutcome::Returned(reason) => format!("a message came back: {reason}; bind a queue to the exchange"),
            PublishOutcome::Refused => {
                "the broker refused a message: a queue is full or has lost its majority".to_owned()
            }
        };
        confirmed.failed += 1;
        confirmed.stuck.insert(tenant_id.as_str().to_owned());
        confirmed.why.get_or_insert(why);
    }
    confirmed.moved = moved.into_values().map(|(tenant_id, seq)| (tenant_id.clone(), seq)).collect();
    confirmed
}

/// Tenants whose entries were not taken, each with its own patience: the others go on.
#[derive(Default)]
pub struct Stuck {
    tenants: HashMap<String, (Backoff, Instant)>,
}

impl Stuck {
    pub fn add(&mut self, tenant: &str, now: Instant) {
        let (backoff, until) = self.tenants.entry(tenant.to_owned()).or_insert_with(|| (super::new_backoff(), now));
        *until = now + backoff.delay();
    }

    pub fn remove(&mut self, tenant: &str) {
        self.tenants.remove(tenant);
    }

    /// Of those whose time has come, only the ones that still have something to send: another instance may have mirrored it.
    pub fn keep(&mut self, now: Instant, due: &[Due]) {
        let is_due = |tenant: &str| due.iter().any(|one| one.tenant_id.as_str() == tenant);
        self.tenants.retain(|tenant, (_, until)| *until > now || is_due(tenant));
    }

    pub fn contains(&self, tenant: &str) -> bool {
        self.tenants.contains_key(tenant)
    }

    pub fn is_empty(&self) -> bool {
        self.tenants.is_empty()
    }

    /// Those whose time has not come.
    pub fn resting(&self, now: Instant) -> Vec<String> {
        self.tenants.iter().filter(|(_, (_, until))| *until > now).map(|(tenant, _)| tenant.clone()).collect()
    }

    /// The time until the next tenant may try again.
    pub fn rest(&self, now: Instant) -> Option<Duration> {
        self.tenants.values().map(|(_, until)| until.saturating_duration_since(now)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str) -> TenantId {
        TenantId::parse(name).unwrap()
    }

    fn due(name: &str, seq: i64, head: i64) -> Due {
        Due { tenant_id: tenant(name), seq, head }
    }

    fn shown(places: &[EntryPlace]) -> Vec<String> {
        places.iter().map(|(tenant, seq)| format!("{tenant}/{seq}")).collect()
    }

    #[test]
    fn a_window_is_shared_out_in_order_and_a_stuck_tenant_tries_one() {
        let all = [due("a", 0, 9), due("b", 4, 5), due("c", 7, 99)];
        let planned = places(&all, 9, |name| name == "c");
        assert_eq!(shown(&planned), ["a/1", "a/2", "a/3", "b/5", "c/8"]);
        assert_eq!(shown(&places(&all, 2, |_| false)), ["a/1", "b/5"], "more tenants than places");
        assert_eq!(places(&[], 9, |_| false), []);
        assert_eq!(shown(&places(&[due("a", i64::MAX - 1, i64::MAX)], 9, |_| false)), [format!("a/{}", i64::MAX)]);
    }

    #[tokio::test]
    async fn a_stuck_tenant_rests_and_is_forgotten_once_it_has_nothing_to_send() {
        let (mut stuck, now) = (Stuck::default(), Instant::now());
        stuck.add("a", now);
        stuck.add("b", now);
        assert_eq!(stuck.resting(now).len(), 2);
        stuck.keep(now, &[]);
        assert!(stuck.contains("a") && stuck.contains("b"), "they rest");
        let later = now + Duration::from_secs(9);
        assert_eq!((stuck.resting(later), stuck.rest(later)), (Vec::new(), Some(Duration::ZERO)));
        stuck.keep(later, &[due("b", 0, 1)]);
        assert!(!stuck.contains("a") && stuck.contains("b"));
    }

    #[test]
    fn a_cursor_never_passes_an_entry_that_was_not_confirmed() {
        use PublishOutcome::{Confirmed, Refused, Returned};
        let sent: Vec<EntryPlace> = [("a", 1), ("a", 2), ("a", 3), ("b", 7), ("b", 8), ("c", 1)]
            .into_iter()
            .map(|(name, seq)| (tenant(name), seq))
            .collect();
        let outcomes = [Confirmed, Refused, Confirmed, Confirmed, Confirmed, Returned("NO_ROUTE".to_owned())];
        let confirmed = confirm(&sent, &outcomes);
        assert_eq!(confirmed.moved, [(tenant("a"), 1), (tenant("b"), 8)]);
        assert_eq!((confirmed.mirrored, confirmed.failed), (3, 2));
        assert_eq!(confirmed.stuck.iter().collect::<Vec<_>>(), ["a", "c"]);
        assert!(confirmed.why.is_some_and(|why| why.contains("refused")));
    }
}
