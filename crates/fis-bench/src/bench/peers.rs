//! The rates of other ledgers, for `--peers`: measured side by side on one machine with two cores, an event being one entry with three
//! lines. Absolute figures of another machine: the distances between them say something, the figures little.

use super::results::{Results, grouped};
use super::sheet::Sheet;

/// The name of a peer, its events per second there, and the figure of ours that stands beside it.
const PEERS: [(&str, &str, &str); 13] = [
    ("naive listener: one event, one transaction, one ack, 8 at a time", "250–570", "naive"),
    ("pgledger, two transfers an event, hot accounts", "237", "drain"),
    ("pgledger, two transfers an event, spread accounts", "876", "drain"),
    ("cala-ledger 0.33, one by one", "320", "drain"),
    ("cala-ledger 0.33, batches of 500", "1,865", "drain"),
    ("bare set-based posting, batches of 500, no broker, no rules", "15,000–19,000", "posting"),
    ("the same rows by COPY, one backend, one transaction", "37,000", "copy"),
    ("queue → Redis → that posting → Redis → ack, one worker", "13,500", "drain"),
    ("the same, three workers", "10,500", "two_instances"),
    ("confirmed publish to a quorum queue, 0.7 KB, window 1,000", "14,000", "publish"),
    ("consume and acknowledge from a quorum queue", "71,000", "consume"),
    ("simple relay: select 1,000, publish with confirms, delete", "9,800", "relay"),
    ("TigerBeetle, transfers by its own benchmark", "353,000", ""),
];

pub fn sheet(results: &Results) -> Sheet {
    let beside = |name: &str| results.median(name).map_or_else(|| "–".to_owned(), grouped);
    Sheet {
        title: "Peers",
        note: "elsewhere: one 2-core machine, PostgreSQL 15, RabbitMQ 3.10, Redis 7, fsync on; compare ratios, not figures",
        header: ["", "events/s elsewhere", "events/s here"].map(str::to_owned).to_vec(),
        rows: PEERS
            .iter()
            .map(|(label, there, name)| vec![(*label).to_owned(), (*there).to_owned(), beside(name)])
            .collect(),
    }
}
