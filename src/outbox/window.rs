//! A window of rows: how many go out together, and which of them are done. Both are functions; the relay acts on them.

use std::collections::HashSet;

use super::statements::OutboxRow;
use crate::platform::amqp::PublishOutcome;

/// What a window may hold in memory, and what the broker can confirm well within the timeout.
const WINDOW_BYTES_MAX: i64 = 8 * 1024 * 1024;

/// As many rows as make a window of bounded size, at least one: an entry may have ten thousand lines.
pub fn within_budget(mut rows: Vec<OutboxRow>) -> Vec<OutboxRow> {
    let mut bytes = 0;
    let fitting = rows.iter().take_while(|row| {
        bytes += row.bytes;
        bytes <= WINDOW_BYTES_MAX
    });
    let count = fitting.count().max(1);
    rows.truncate(count);
    rows
}

/// The rows that are done: confirmed, and nothing of the same tenant before them failed. What comes behind a failure is
/// sent again after it, so that a reader sees the order, if with repetitions.
pub fn confirmed(rows: &[OutboxRow], outcomes: &[PublishOutcome]) -> Vec<i64> {
    let mut failed: HashSet<&str> = HashSet::new();
    let mut done = Vec::with_capacity(rows.len());
    for (row, outcome) in rows.iter().zip(outcomes) {
        let tenant = row.tenant_id.as_deref();
        match outcome {
            PublishOutcome::Confirmed if tenant.is_none_or(|tenant| !failed.contains(tenant)) => done.push(row.id),
            PublishOutcome::Confirmed => {}
            PublishOutcome::Returned(_) | PublishOutcome::Refused => {
                failed.extend(tenant);
            }
        }
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::TenantId;
    use crate::outbox::statements::RowContent;

    #[test]
    fn behind_a_failure_a_tenants_rows_wait_and_other_tenants_go_on() {
        let row = |id, tenant: &str| OutboxRow {
            id,
            tenant_id: Some(tenant.to_owned()),
            bytes: 1000,
            content: RowContent::Entry { tenant_id: TenantId::parse(tenant).unwrap(), seq: id },
        };
        let rows = [row(1, "a"), row(2, "b"), row(3, "a"), row(4, "b"), row(5, "a")];
        use PublishOutcome::{Confirmed, Refused};
        let outcomes = [Confirmed, Confirmed, Refused, Confirmed, Confirmed];
        assert_eq!(confirmed(&rows, &outcomes), [1, 2, 4]);
    }

    #[test]
    fn a_window_is_bounded_in_bytes_and_never_empty() {
        let row = |id, bytes| OutboxRow {
            id,
            tenant_id: None,
            bytes,
            content: RowContent::Entry { tenant_id: TenantId::parse("a").unwrap(), seq: id },
        };
        let taken = |sizes: &[i64]| within_budget((1..).zip(sizes).map(|(id, bytes)| row(id, *bytes)).collect()).len();
        assert_eq!(taken(&[1000, 1000, 1000]), 3);
        assert_eq!(taken(&[WINDOW_BYTES_MAX - 1, 1, 1]), 2);
        assert_eq!(taken(&[WINDOW_BYTES_MAX * 2, 1]), 1);
        assert_eq!(taken(&[]), 0);
    }
}
