//! What the books make of events, as tables: adding a case is adding a row. The language is told in `table.rs`.

mod currencies;
mod dates;
mod mistakes;
mod orders;
mod reversals;
mod rules;

use std::collections::BTreeSet;

use fis::domain::books::Books;
use fis::domain::disposition::Reason;

use crate::shared::CHART;
use crate::table::verdicts;

/// Reasons that only the ledger, the broker or the configuration of tenants can give; `tests/flow` has them.
const OF_THE_LEDGER: [Reason; 9] = [
    Reason::UnknownTenant,
    Reason::TenantNotAllowed,
    Reason::IdempotencyConflict,
    Reason::AlreadyReversed,
    Reason::AttemptsExhausted,
    Reason::DeliveryLimit,
    Reason::DatabaseRefused,
    Reason::OriginalNotPosted,
    Reason::BooksUnreadable,
];

#[test]
fn every_reason_of_decoding_and_mapping_has_a_row() {
    let tables = [
        orders::ORDERS,
        orders::PAYROLL,
        dates::DATES,
        dates::LATE_REJECTED,
        dates::LATE_HELD,
        dates::LATE_MOVED,
        currencies::EXCHANGES,
        currencies::UNROUNDED,
        reversals::CANCELLATIONS,
        rules::MATCHES,
        rules::SUMS,
    ];
    let mut told: BTreeSet<&str> = tables.iter().flat_map(|table| verdicts(table)).collect();
    told.extend(crate::decode::REASONS.iter().map(|reason| reason.code()));
    for reason in Reason::ALL {
        let expected = !OF_THE_LEDGER.contains(reason);
        assert_eq!(told.contains(reason.code()), expected, "{reason}");
    }
    for verdict in told {
        let known = Reason::from_code(verdict).is_some() || ["posted", "ignored", "reverses"].contains(&verdict);
        assert!(known, "`{verdict}` is no verdict");
    }
}

/// The chart with further settings at its top and rules at its end.
fn books(settings: &str, rules: &str) -> Books {
    Books::parse(&format!("{settings}\n{CHART}\n{rules}"), 1).unwrap_or_else(|mistakes| panic!("{mistakes:#?}"))
}
