//! Rows become messages: an entry's bytes are made from the entry, which this process has just committed or the journal has; everything else carries its own. A row whose message cannot
//! be made is named, and holds up nobody but its tenant.

use std::collections::{HashMap, HashSet};

use sqlx::PgConnection;

use super::feed::{TenantKeys, journal_message};
use crate::domain::chain::ChainedEntry;
use crate::domain::ids::EntryPlace;
use crate::domain::names::TENANT_HEADER;
use crate::platform::amqp::{OutMessage, Properties};
use crate::store::journal::read::entries;
use crate::store::outbox::{self, OutboxRow, RowContent};

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
        mut known: HashMap<EntryPlace, ChainedEntry>,
        keys: TenantKeys,
    ) -> Result<Self, sqlx::Error> {
        let (mut places, mut others) = (Vec::new(), Vec::new());
        for row in rows {
            match &row.content {
                RowContent::Entry { tenant_id, seq } => {
                    let place = (tenant_id.clone(), *seq);
                    if !known.contains_key(&place) {
                        places.push(place);
                    }
                }
                RowContent::Message { .. } => others.push(row.id),
                RowContent::Unreadable => {}
            }
        }
        if !places.is_empty() {
            known.extend(read(&mut *db, &places).await?);
        }
        let mut bodies = if others.is_empty() { HashMap::new() } else { outbox::bodies(db, &others).await? };
        let mut made = Self { messages: HashMap::with_capacity(rows.len()), broken: HashSet::new() };
        for row in rows {
            match message(row, &known, &mut bodies, keys) {
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
    places: &[EntryPlace],
) -> Result<HashMap<EntryPlace, ChainedEntry>, sqlx::Error> {
    let unreadable = |error: &sqlx::Error| matches!(error, sqlx::Error::Decode(_) | sqlx::Error::ColumnDecode { .. });
    match entries(&mut *db, places).await {
        Err(error) if unreadable(&error) => {}
        read => return read,
    }
    let mut found = HashMap::with_capacity(places.len());
    for place in places {
        match entries(&mut *db, std::slice::from_ref(place)).await {
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
    known: &HashMap<EntryPlace, ChainedEntry>,
    bodies: &mut HashMap<i64, Vec<u8>>,
    keys: TenantKeys,
) -> Option<OutMessage> {
    match &row.content {
        RowContent::Entry { tenant_id, seq } => {
            known.get(&(tenant_id.clone(), *seq)).map(|entry| journal_message(entry, keys))
        }
        RowContent::Message { exchange, routing_key, message_id, properties } => {
            let properties = Properties::from_text(properties)?;
            Some(OutMessage {
                exchange: exchange.clone(),
                routing_key: routing_key.clone(),
                hidden_key: properties.header(TENANT_HEADER).and_then(|tenant| keys.of(routing_key, tenant)),
                message_id: message_id.clone(),
                properties,
                body: bodies.remove(&row.id)?,
            })
        }
        RowContent::Unreadable => None,
    }
}
