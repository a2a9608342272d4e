//! Held events that are due: by turns of the tenants, each tenant's oldest first.

use chrono::{DateTime, Utc};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use super::{CountedHold, HeldContent, LetterCopy};
use crate::store::{column, rows};

/// A held event that is due, with its message.
#[derive(Debug)]
pub struct DueEvent {
    pub row: HeldContent,
    pub due_at: DateTime<Utc>,
    pub routing_key: String,
    pub properties: String,
    pub body: Vec<u8>,
    pub lane: String,
    pub received_at: DateTime<Utc>,
    pub counted: CountedHold,
    pub letter: Option<LetterCopy>,
}

/// The time at which the next held event is due (`None`: nothing is held), and whether a replay runs. The inbox asks it while there is nothing
/// to do: one round trip, two looks into an index.
///
/// # Errors
/// The database is away.
pub async fn next_due(db: &mut PgConnection) -> Result<(Option<DateTime<Utc>>, bool), sqlx::Error> {
    let look = "select (select min(due_at) from fis_held), exists (select from fis_replay where state = 'running')";
    sqlx::query_as(look).fetch_one(db).await
}

/// The next tenants, behind `after`, that have something due. It walks from tenant to tenant, not from row to row.
///
/// # Errors
/// The database is away.
pub async fn due_tenants(db: &mut PgConnection, after: &str, most: i64) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar(
        "with recursive tenant (id, due_at) as (
             (select tenant_id, due_at from fis_held where tenant_id > $1 order by tenant_id, due_at limit 1)
              union all
             select next.tenant_id, next.due_at
               from tenant
              cross join lateral (select tenant_id, due_at from fis_held where tenant_id > tenant.id
                                   order by tenant_id, due_at limit 1) next)
         select id from tenant where due_at <= now() limit $2",
    )
    .bind(after)
    .bind(most)
    .fetch_all(db)
    .await
}

/// A tenant's turn at what is due: everything up to this place was read.
#[derive(Debug, Clone)]
pub struct TenantTurn {
    pub tenant_id: String,
    due_at: DateTime<Utc>,
    event_id: String,
}

impl TenantTurn {
    #[must_use]
    pub fn new(tenant_id: String) -> Self {
        Self { tenant_id, due_at: DateTime::UNIX_EPOCH, event_id: String::new() }
    }

    /// Goes on behind the last of the tenant's events.
    pub fn go_on(&mut self, read: &[DueEvent]) {
        if let Some(last) = read.iter().rev().find(|due| due.row.0.0.as_str() == self.tenant_id) {
            self.due_at = last.due_at;
            last.row.0.1.as_str().clone_into(&mut self.event_id);
        }
    }
}

/// The events of these tenants that are due, oldest first, at most `each` of a tenant and as many as fit into `bytes`, but one at least.
///
/// # Errors
/// The database is away.
pub async fn due_events(
    db: &mut PgConnection,
    turns: &[TenantTurn],
    each: i64,
    bytes: i64,
) -> Result<Vec<DueEvent>, sqlx::Error> {
    let rows = sqlx::query(
        "select tenant_id, event_id, payload_hash, due_at, routing_key, properties, body, lane, received_at, received_on,
                amount, currency, letter_id, edit_no
           from (select h.*, sum(octet_length(h.body) + octet_length(h.properties)) over (order by h.place, tenant.n) as bytes
                   from unnest($1::text[], $4::timestamptz[], $5::text[]) with ordinality as tenant (id, due_at, event_id, n)
                  cross join lateral (
                        select *, row_number() over (order by due_at, event_id) as place
                          from fis_held
                         where tenant_id = tenant.id and due_at <= now() and (due_at, event_id) > (tenant.due_at, tenant.event_id)
                         order by due_at, event_id
                         limit $2) h) due
          where place = 1 or bytes <= $3
          order by bytes",
    )
    .bind(column!(turns, turn => turn.tenant_id.as_str()))
    .bind(each)
    .bind(bytes)
    .bind(column!(turns, turn => turn.due_at))
    .bind(column!(turns, turn => turn.event_id.as_str()))
    .fetch_all(db)
    .await?;
    rows.iter().map(due_event).collect()
}

fn due_event(row: &PgRow) -> Result<DueEvent, sqlx::Error> {
    let letter_id: Option<String> = row.try_get("letter_id")?;
    let edit_no = row.try_get("edit_no")?;
    Ok(DueEvent {
        row: (rows::event_key(row)?, row.try_get("payload_hash")?),
        due_at: row.try_get("due_at")?,
        routing_key: row.try_get("routing_key")?,
        properties: row.try_get("properties")?,
        body: row.try_get("body")?,
        lane: row.try_get("lane")?,
        received_at: row.try_get("received_at")?,
        counted: CountedHold { day: row.try_get("received_on")?, money: rows::worth(row)? },
        letter: letter_id.map(|letter_id| LetterCopy { letter_id, edit_no }),
    })
}
