//! Rows become messages: an entry's bytes are made from the journal, everything else carries its own. A row whose message cannot
//! be made is named, and holds up nobody but its tenant.

use std::collections::{HashMap, HashSet};

use futures::future::BoxFuture;
use sqlx::PgConnection;

use super::feed::journal_message;
use super::statements::{self, OutboxRow, Road, RowContent};
use crate::domain::chain::ChainedEntry;
use crate::domain::ids::TenantId;
use crate::platform::amqp::{OutMessage, Properties};

/// Where an entry is: its tenant and sequence.
pub type Place = (TenantId, i64);

/// Reads entries back from the journal; given by the caller, because the stages do not know one another.
pub trait Entries: Send + Sync {
    fn read<'a>(
        &'a self,
        db: &'a mut PgConnection,
        places: &'a [Place],
    ) -> BoxFuture<'a, Result<HashMap<Place, ChainedEntry>, sqlx::Error>>;
}

/// The messages of some rows, and the rows without one.
#[derive(Default)]
pub struct Messages {
    messages: HashMap<i64, OutMessage>,
    pub broken: HashSet<i64>,
}

impl Messages {
    pub async fn of(
        rows: &[OutboxRow],
        db: &mut PgConnection,
        entries: &dyn Entries,
        road: Road,
    ) -> Result<Self, sqlx::Error> {
        let (mut places, mut others) = (Vec::new(), Vec::new());
        for row in rows {
            match &row.content {
                RowContent::Entry { tenant_id, seq } => places.push((tenant_id.clone(), *seq)),
                RowContent::Message { .. } => others.push(row.id),
                RowContent::Unreadable => {}
            }
        }
        let entries = if places.is_empty() { HashMap::new() } else { read(db, entries, &places).await? };
        let mut bodies = if others.is_empty() { HashMap::new() } else { statements::bodies(db, road, &others).await? };
        let mut made = Self { messages: HashMap::with_capacity(rows.len()), broken: HashSet::new() };
        for row in rows {
            match message(row, &entries, &mut bodies) {
                Some(message) => _ = made.messages.insert(row.id, message),
                None => _ = made.broken.insert(row.id),
            }
        }
        Ok(made)
    }

    pub fn take(&mut self, row: &OutboxRow) -> Option<OutMessage> {
        self.messages.remove(&row.id)
    }
}

/// All at once; where that fails because of what an entry holds, one by one, so that the others leave.
pub(super) async fn read(
    db: &mut PgConnection,
    entries: &dyn Entries,
    places: &[Place],
) -> Result<HashMap<Place, ChainedEntry>, sqlx::Error> {
    let unreadable = |error: &sqlx::Error| matches!(error, sqlx::Error::Decode(_) | sqlx::Error::ColumnDecode { .. });
    match entries.read(db, places).await {
        Err(error) if unreadable(&error) => {}
        read => return read,
    }
    let mut found = HashMap::with_capacity(places.len());
    for place in places {
        match entries.read(db, std::slice::from_ref(place)).await {
            Ok(entry) => found.extend(entry),
            Err(error) if unreadable(&error) => {
                tracing::error!(tenant = %place.0, sequence = place.1, error = %error, "an entry cannot be read");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

fn message(
    row: &OutboxRow,
    entries: &HashMap<Place, ChainedEntry>,
    bodies: &mut HashMap<i64, Vec<u8>>,
) -> Option<OutMessage> {
    match &row.content {
        RowContent::Entry { tenant_id, seq } => entries.get(&(tenant_id.clone(), *seq)).map(journal_message),
        RowContent::Message { exchange, routing_key, message_id, properties } => Some(OutMessage {
            exchange: exchange.clone(),
            routing_key: routing_key.clone(),
            message_id: message_id.clone(),
            properties: Properties::from_text(properties),
            body: bodies.remove(&row.id)?,
        }),
        RowContent::Unreadable => None,
    }
}
