//! Held events after several deaths of whoever followed the inbox: one of them may be what ends the process, and nobody counts its deliveries here.
//! Each event is put off before it is looked at, and is a batch of its own; the one that ends the process is not due when the
//! next instance looks, and the others are posted.

use sqlx::{Connection, PgConnection};
use tokio_util::sync::CancellationToken;

use super::work::{Batch, Road};
use super::{INBOX, INBOX_LEASE, Inbox, InboxError, READ_BYTES_MAX, waiting};
use crate::faults::crash_points::{self, crash_point};
use crate::store::{heads, held, leases};

/// Deaths after which held events are looked at alone. A process dies of other things too, but seldom so often in a row.
pub(super) const DEATHS_FEARED: i32 = 3;
/// The seconds for which an event is put off that may end the process.
const PUT_OFF_SECONDS: i32 = 3_600;

impl Inbox {
    /// Posts one held event that is due. False: there is none.
    pub(super) async fn retry_alone(&mut self, stop: &CancellationToken) -> Result<bool, InboxError> {
        let turns = self.next_tenants(1).await?;
        let read = async |db: &mut PgConnection| held::due_events(db, &turns, 1, READ_BYTES_MAX).await;
        let due = match turns.is_empty() {
            true => Vec::new(),
            false => self.postgres.run(INBOX, read).await?,
        };
        let Some(mut event) = due.into_iter().next() else {
            self.all_is_well().await?;
            return Ok(false);
        };
        let ((tenant, id), _) = &event.row;
        tracing::warn!(
            tenant.id = %tenant, event.id = %id,
            "the service died {} times while it followed the inbox: held event {id} of {tenant} is tried alone", self.deaths
        );
        let put_off = async |db: &mut PgConnection| {
            let mut transaction = db.begin().await?;
            heads::lock_heads(&mut transaction, &[event.row.0.0.as_str()]).await?;
            let due_at = held::put_off(&mut transaction, &event.row, event.due_at, PUT_OFF_SECONDS).await?;
            transaction.commit().await?;
            Ok::<_, sqlx::Error>(due_at)
        };
        // Somebody else has decided it, or called it back once more.
        let Some(due_at) = self.postgres.run(INBOX, put_off).await? else { return Ok(true) };
        event.due_at = due_at;
        crash_point(crash_points::INBOX_READ);
        let mut road = Road::default();
        self.travel(&mut road, Batch::cut(vec![waiting(event)], None, 1), stop).await;
        road.end().await?;
        Ok(true)
    }

    /// Held events were brought to their end: whoever died before did not die of them.
    pub(super) async fn all_is_well(&mut self) -> Result<(), InboxError> {
        if self.deaths > 0 {
            let forget = async |db: &mut PgConnection| leases::forget_deaths(db, INBOX_LEASE, &self.owner).await;
            self.postgres.run(INBOX, forget).await?;
            self.deaths = 0;
        }
        Ok(())
    }
}
