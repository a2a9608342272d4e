//! The lines of an entry as a table: debits left, credits right. Lines enter, a table leaves.

use comfy_table::Table;

use super::text::{grouped, numbers};
use super::{printable, table};
use crate::domain::entry::Side;

/// A line as it is shown.
pub struct ShownLine<'a> {
    pub account: &'a str,
    pub name: &'a str,
    pub side: Side,
    pub amount: &'a str,
    pub currency: &'a str,
    pub base_amount: &'a str,
}

/// The lines, with a column for the base currency where a line has another one.
pub fn lines_table(lines: &[ShownLine<'_>], base: Option<&str>) -> Table {
    let converted = base.filter(|base| lines.iter().any(|line| line.currency != *base));
    let mut header = vec!["account".to_owned(), String::new(), "debit".to_owned(), "credit".to_owned()];
    header.extend(converted.map(|base| format!("in {base}")));
    let mut table = table(&header.iter().map(String::as_str).collect::<Vec<_>>());
    for line in lines {
        let amount = format!("{} {}", grouped(line.amount), line.currency);
        let (debit, credit) = match line.side {
            Side::Debit => (amount, String::new()),
            Side::Credit => (String::new(), amount),
        };
        let mut row = vec![line.account.to_owned(), printable(line.name), debit, credit];
        row.extend(converted.map(|_| grouped(line.base_amount)));
        table.add_row(row);
    }
    numbers(&mut table, 2..5);
    table
}
