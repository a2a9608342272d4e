//! `fis_dead_letter_edit`: edited copies beside the untouched originals. Copies enter once and never change; the place of a replay names the
//! copy that is booked instead of its letter.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;

use super::column;
use super::error::StoreError;
use crate::domain::operator::Operator;

/// An edited body for a letter.
#[derive(Debug)]
pub struct Edit {
    pub letter_id: String,
    pub body: Vec<u8>,
}

/// An edit that was stored.
#[derive(Debug, sqlx::FromRow)]
pub struct StoredEdit {
    pub letter_id: String,
    pub edit_no: i32,
}

/// Stores the copies of those letters that are parked now, so that the record has no edit that was never replayed. Returns the edits in the
/// order in which they were given; their letters stay locked.
///
/// # Errors
/// The database is away.
pub async fn insert(db: &mut PgConnection, edits: &[Edit], who: &Operator) -> Result<Vec<StoredEdit>, sqlx::Error> {
    sqlx::query_as(
        // In id order, as the postings lock letters; otherwise an edit and a replay can wait on each other.
        "with parked as (select l.id, l.body, l.n
                           from unnest($1::text[], $2::bytea[]) with ordinality as l (id, body, n)
                           join fis_dead_letter d on d.id = l.id
                          where d.status = 'parked'
                          order by d.id
                            for update of d),
              stored as (insert into fis_dead_letter_edit (letter_id, edit_no, body, edited_by, why)
                         select p.id, 1 + coalesce((select max(e.edit_no) from fis_dead_letter_edit e where e.letter_id = p.id), 0),
                                p.body, $3, $4
                           from parked p
                      returning letter_id, edit_no)
         select s.letter_id, s.edit_no
           from stored s
           join parked p on p.id = s.letter_id
          order by p.n",
    )
    .bind(column!(edits, edit => edit.letter_id.as_str()))
    .bind(column!(edits, edit => edit.body.as_slice()))
    .bind(who.by())
    .bind(who.why())
    .fetch_all(db)
    .await
}

/// An edited copy of a letter, as it is shown.
#[derive(Debug, Clone, serde::Serialize, sqlx::FromRow)]
#[serde(rename_all = "camelCase")]
pub struct EditLine {
    pub edit_no: i32,
    #[serde(rename = "by")]
    pub edited_by: String,
    pub why: String,
    pub edited_at: DateTime<Utc>,
    #[serde(skip)]
    pub body: Vec<u8>,
}

/// The edits of a letter, oldest first.
///
/// # Errors
/// The database is away.
pub async fn of_letter(db: &mut PgConnection, letter: &str) -> Result<Vec<EditLine>, StoreError> {
    let edits = sqlx::query_as(
        "select edit_no, edited_by, why, edited_at, body from fis_dead_letter_edit where letter_id = $1 order by edit_no",
    );
    Ok(edits.bind(letter).fetch_all(db).await?)
}
