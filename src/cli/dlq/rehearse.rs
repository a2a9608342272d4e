//! `fis dlq replay --dry-run` and the outcome of an edit, told: what would post, what would fail, and the balances then.

use std::process::ExitCode;

use super::{as_in, plural};
use crate::cli::print_json;
use crate::cli::text::{grouped, numbers};
use crate::desk::letters::{BalanceChange, Rehearsed};

/// Exit 0 where everything would be resolved; 1 where something would still fail or be held.
pub fn tell(rehearsed: &Rehearsed, json: bool) -> anyhow::Result<ExitCode> {
    if json {
        print_json(rehearsed)?;
    } else {
        print(rehearsed);
    }
    Ok(if rehearsed.is_well() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

pub fn print(rehearsed: &Rehearsed) {
    println!(
        "dry run over {}; nothing was changed",
        plural(i64::try_from(rehearsed.letters).unwrap_or(i64::MAX), "dead letter")
    );
    let rows = [
        (rehearsed.would_post, "would post"),
        (rehearsed.duplicate, "are in the books already"),
        (rehearsed.ignored, "would be ignored"),
    ];
    for (count, what) in rows.into_iter().filter(|(count, _)| *count > 0) {
        println!("{count:>10}  {what}");
    }
    for (what, reasons) in [("would be held", &rehearsed.held), ("would fail again", &rehearsed.still_fails)] {
        for count in reasons {
            println!("{:>10}  {}", count.letters, as_in(&format!("{what}: {}", count.reason), &count.detail));
        }
    }
    if rehearsed.balances.is_empty() {
        return;
    }
    println!("{}", balances_table(&rehearsed.balances));
}

/// Balances as they are and as they would be.
pub fn balances_table(balances: &[BalanceChange]) -> comfy_table::Table {
    let mut table = crate::cli::table(&["tenant", "account", "currency", "balance now", "then", "change"]);
    for balance in balances {
        let change = balance.debit - balance.credit;
        let cells =
            [balance.balance_now, balance.balance_now + change, change].map(|amount| grouped(&amount.to_string()));
        let [before, then, change] = cells;
        table.add_row([&balance.tenant_id, &balance.account, &balance.currency, &before, &then, &change]);
    }
    numbers(&mut table, 3..6);
    table
}
