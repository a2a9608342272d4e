//! The journal as a file: page by page from the database into the hand's sink, in constant memory. Everything up to the head of now is
//! exported; entries posted meanwhile belong to the next export.

use chrono::NaiveDate;

use super::{Desk, DeskError, books_of};
use crate::domain::export::{Exporter, Format};
use crate::domain::ids::TenantId;
use crate::domain::money::Currency;
use crate::store::heads::last_seq;
use crate::store::journal::pages as report;

/// The part of the journal that is asked for.
#[derive(Debug, Clone)]
pub struct JournalExport {
    pub tenant: TenantId,
    pub format: Format,
    /// First accounting date.
    pub from: Option<NaiveDate>,
    /// Last accounting date.
    pub to: Option<NaiveDate>,
}

impl Desk {
    /// Gives the text of the export to `sink`, piece by piece, and the number of entries so far to `progress`. Returns how many there
    /// were.
    ///
    /// # Errors
    /// There is no such tenant, an entry cannot stand in the format, the sink fails, or the database is away. What the sink has
    /// by then is not whole.
    pub async fn export(
        &self,
        request: &JournalExport,
        sink: &mut (dyn FnMut(&str) -> std::io::Result<()> + Send),
        progress: &mut (dyn FnMut(u64) + Send),
    ) -> Result<u64, DeskError> {
        let JournalExport { tenant, format, from, to } = request;
        let mut db = self.postgres.pool.acquire().await?;
        let last = last_seq(&mut db, tenant).await?.unwrap_or_default();
        // Read after the head: whatever account and currency an entry up to it has is among these.
        let books = books_of(&mut db, tenant).await?;
        let mut currencies: Vec<Currency> =
            report::read_balances(&mut db, tenant).await?.iter().map(|sum| sum.currency).collect();
        currencies.push(books.base_currency);
        currencies.sort();
        currencies.dedup();
        let exporter = Exporter::new(*format, &books);
        sink(&exporter.head(&currencies)).map_err(DeskError::Sink)?;
        let (mut after, mut count) = (0, 0);
        let mut text = String::new();
        while after < last {
            for entry in report::read_span(&mut db, tenant, after, last, (*from, *to)).await? {
                exporter.entry(&entry, &mut text).map_err(|error| DeskError::Refused { why: error.to_string() })?;
                sink(&text).map_err(DeskError::Sink)?;
                text.clear();
                count += 1;
            }
            after += report::SPAN;
            progress(count);
        }
        Ok(count)
    }
}
