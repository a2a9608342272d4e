//! The figures of a run: each has a name and one value per round, and the median is what counts.

use std::collections::BTreeMap;

#[derive(Default)]
pub struct Results {
    samples: BTreeMap<String, Vec<u64>>,
}

impl Results {
    pub fn add(&mut self, name: impl Into<String>, value: u64) {
        self.samples.entry(name.into()).or_default().push(value);
    }

    pub fn add_if(&mut self, name: &str, value: Option<u64>) {
        if let Some(value) = value {
            self.add(name, value);
        }
    }

    pub fn median(&self, name: &str) -> Option<u64> {
        let mut values = self.samples.get(name)?.clone();
        values.sort_unstable();
        values.get(values.len() / 2).copied()
    }

    pub fn last(&self, name: &str) -> Option<u64> {
        self.samples.get(name)?.last().copied()
    }

    /// The ratio of two medians, in hundredths.
    pub fn ratio(&self, name: &str, of: &str) -> Option<u64> {
        Some(self.median(name)?.saturating_mul(100) / self.median(of)?.max(1))
    }

    /// The rate of doing one thing after another, each at its own rate of the last round; `None` where one was not measured.
    pub fn in_turn(&self, names: &[&str]) -> Option<u64> {
        let nanoseconds = |name: &&str| Some(1_000_000_000 / self.last(name)?.max(1));
        let together: u64 = names.iter().map(nanoseconds).sum::<Option<u64>>()?;
        Some(1_000_000_000 / together.max(1))
    }

    /// Every figure of every round.
    pub fn samples(&self) -> &BTreeMap<String, Vec<u64>> {
        &self.samples
    }
}

/// A count as a figure.
pub fn as_u64(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// Two decimals, without a float.
pub fn hundredths(value: u64) -> String {
    format!("{}.{:02}", value / 100, value % 100)
}

/// `13,500`: rates are read by people.
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Milliseconds with two decimals.
pub fn milliseconds(microseconds: u64) -> String {
    hundredths(microseconds / 10)
}

pub struct Rate {
    pub name: &'static str,
    pub label: &'static str,
    pub is_limit: bool,
}

const fn ours(name: &'static str, label: &'static str) -> Rate {
    Rate { name, label, is_limit: false }
}

const fn limit(name: &'static str, label: &'static str) -> Rate {
    Rate { name, label, is_limit: true }
}

/// Events per second, in the order they are shown.
pub const RATES: [Rate; 29] = [
    ours("drain", "drain: backlog to committed and acknowledged, the relay waiting"),
    ours("drain_beside", "the same with the relay at work beside it"),
    ours("drain_relay", "drain and relay: backlog to confirmed on the feed"),
    ours("loop", "full loop: publisher, intake and relay together"),
    ours("two_instances", "drain, two instances"),
    ours("duplicates", "duplicates recognised and acknowledged"),
    ours("relay", "relay of a backlog, order kept, removal included"),
    limit("relay_limit", "limit: bare confirmed publish of the same announcements, one channel, in order"),
    limit("relay_limit_unordered", "limit: the same on two channels, the order lost"),
    limit("posting", "limit: bare set-based posting of the same rows, 500 a time"),
    limit("posting_messages", "limit: the same with whole messages in the outbox, as is usual"),
    limit("copy", "limit: the same rows by COPY, one transaction"),
    limit("publish", "limit: bare confirmed publish of the events, window 1,000"),
    limit("consume", "limit: bare consume, 500 an acknowledgement"),
    limit("loop_parts", "limit: publish, consume, post and publish the announcement, bare, one after another"),
    limit("naive", "naive listener: one event, one transaction, one ack"),
    ours("empty_ledger", "drain into an empty ledger, beside the next"),
    ours("full_ledger", "drain into a full ledger"),
    ours("backlog_drain", "drain of a long backlog, events of 1 KB"),
    ours("dlq_parking", "dead letters parked from their queue"),
    ours("dlq_replay", "dead letters replayed to resolved, while a live lane of 500/s is at work"),
    ours("dlq_replay_relay", "the same without the live lane, the relay at work beside it"),
    ours("dlq_replay_rest", "the same without the live lane, the relay waiting"),
    ours("held_release", "held events posted, from the moment at which their rate came"),
    ours("held_drain", "drain while they wait, none of them due"),
    ours("held_drain_before", "drain in the same place, before them"),
    ours("dlq_drain", "drain in the same place, before them"),
    ours("neighbour_own_drain", "drain of a tenant's own queue, the relay and another tenant beside it"),
    ours("neighbour_shared_drain", "the same at the front door, which both share"),
];

/// The bound that a figure must keep.
pub enum Bound {
    /// At least so many hundredths of another figure.
    Ratio { of: &'static str, least: u64 },
    /// At most so many microseconds.
    Microseconds(u64),
    /// At most so many KiB.
    Kibibytes(u64),
    /// The figure must be zero.
    Zero,
    /// At least so many a second.
    Rate(u64),
    /// At most so many hundredths of another figure.
    RatioAtMost { of: &'static str, most: u64 },
}

pub struct Promise {
    pub label: &'static str,
    pub name: &'static str,
    pub bound: Bound,
}

pub const PROMISES: [Promise; 25] = [
    Promise {
        label: "drain of the bare posting loop",
        name: "drain",
        bound: Bound::Ratio { of: "posting", least: 80 },
    },
    Promise {
        label: "drain of the usual posting loop",
        name: "drain",
        bound: Bound::Ratio { of: "posting_messages", least: 80 },
    },
    Promise { label: "drain of the naive listener", name: "drain", bound: Bound::Ratio { of: "naive", least: 2500 } },
    Promise {
        label: "full loop of the bare posting loop",
        name: "loop",
        bound: Bound::Ratio { of: "posting", least: 45 },
    },
    Promise {
        label: "full loop of the usual posting loop",
        name: "loop",
        bound: Bound::Ratio { of: "posting_messages", least: 45 },
    },
    Promise {
        label: "two instances of one",
        name: "two_instances",
        bound: Bound::Ratio { of: "drain_beside", least: 90 },
    },
    Promise { label: "duplicates of the drain", name: "duplicates", bound: Bound::Ratio { of: "drain", least: 200 } },
    Promise { label: "rows written for duplicates", name: "duplicates_rows_written", bound: Bound::Zero },
    Promise {
        label: "relay of the bare confirmed publish",
        name: "relay",
        bound: Bound::Ratio { of: "relay_limit", least: 80 },
    },
    Promise {
        label: "the same on two channels, without order",
        name: "relay",
        bound: Bound::Ratio { of: "relay_limit_unordered", least: 80 },
    },
    Promise {
        label: "full ledger of an empty one",
        name: "full_ledger",
        bound: Bound::Ratio { of: "empty_ledger", least: 90 },
    },
    Promise {
        label: "publish to commit, p99 at 1,000 events/s",
        name: "latency_1000_commit_p99",
        bound: Bound::Microseconds(50_000),
    },
    Promise {
        label: "commit to outbound, p99 at 1,000 events/s",
        name: "latency_1000_relay_p99",
        bound: Bound::Microseconds(50_000),
    },
    Promise {
        label: "commit to outbound, p50 at 100 events/s",
        name: "latency_100_relay_p50",
        bound: Bound::Microseconds(10_000),
    },
    Promise {
        label: "memory with the long backlog waiting",
        name: "memory_backlog_kib",
        bound: Bound::Kibibytes(150 * 1024),
    },
    Promise { label: "dead letters parked a second", name: "dlq_parking", bound: Bound::Rate(5_000) },
    Promise {
        label: "replay to resolved of the drain",
        name: "dlq_replay_rest",
        bound: Bound::Ratio { of: "dlq_drain", least: 50 },
    },
    Promise {
        label: "dead letters replayed a second beside the live lane",
        name: "dlq_replay",
        bound: Bound::Rate(1_500),
    },
    Promise {
        label: "held events posted of the drain",
        name: "held_release",
        bound: Bound::Ratio { of: "dlq_drain", least: 50 },
    },
    Promise {
        label: "drain while held events wait, of that before",
        name: "held_drain",
        bound: Bound::Ratio { of: "held_drain_before", least: 95 },
    },
    Promise {
        label: "live lane beside a replay, p99 of that without",
        name: "dlq_live_beside_p99",
        bound: Bound::RatioAtMost { of: "dlq_live_alone_p99", most: 200 },
    },
    Promise {
        label: "publish to commit beside another tenant's backlog, at most",
        name: "neighbour_own_max",
        bound: Bound::Microseconds(1_000_000),
    },
    Promise { label: "dead letters listed", name: "dlq_list_us", bound: Bound::Microseconds(1_000_000) },
    Promise { label: "dead letters grouped", name: "dlq_groups_us", bound: Bound::Microseconds(1_000_000) },
    Promise { label: "dead letters filtered", name: "dlq_filter_us", bound: Bound::Microseconds(1_000_000) },
];

impl Promise {
    /// The measured value, the wanted one, and whether the promise holds; none where it was not measured.
    pub fn judge(&self, results: &Results) -> Option<(String, String, bool)> {
        Some(match self.bound {
            Bound::Ratio { of, least } => {
                let ratio = results.ratio(self.name, of)?;
                (hundredths(ratio), format!("≥ {}", hundredths(least)), ratio >= least)
            }
            Bound::Microseconds(most) => {
                let time = results.median(self.name)?;
                (format!("{} ms", milliseconds(time)), format!("≤ {} ms", milliseconds(most)), time <= most)
            }
            Bound::Kibibytes(most) => {
                let size = results.median(self.name)?;
                (format!("{} MiB", size / 1024), format!("≤ {} MiB", most / 1024), size <= most)
            }
            Bound::Rate(least) => {
                let rate = results.median(self.name)?;
                (grouped(rate), format!("≥ {}", grouped(least)), rate >= least)
            }
            Bound::RatioAtMost { of, most } => {
                let ratio = results.ratio(self.name, of)?;
                (hundredths(ratio), format!("≤ {}", hundredths(most)), ratio <= most)
            }
            Bound::Zero => {
                let rows = results.median(self.name)?;
                (grouped(rows), "0".to_owned(), rows == 0)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_ratios_and_figures_for_people() {
        let mut results = Results::default();
        for value in [30, 10, 20] {
            results.add("drain", value);
            results.add("posting", value + 5);
        }
        assert_eq!(
            (results.median("drain"), results.last("drain"), results.median("none")),
            (Some(20), Some(20), None)
        );
        assert_eq!(results.ratio("drain", "posting"), Some(80));
        let (is, wanted, kept) = PROMISES[0].judge(&results).unwrap();
        assert_eq!((is.as_str(), wanted.as_str(), kept), ("0.80", "≥ 0.80", true));
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(milliseconds(12_345), "12.34");
    }
}
