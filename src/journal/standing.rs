//! What the messages of a batch find of themselves: the events that are held, and the letters that they are replays of. Read under
//! the lock of the tenants' heads, before anything is decided.

use std::collections::HashMap;

use sqlx::{PgConnection, Row};

use super::received::OwnLetter;

/// The letters that messages of the batch are replays of, by place; locked until the end, so that what is decided about their
/// day stays true.
pub(super) async fn find_letters(
    db: &mut PgConnection,
    replayed: &[Option<String>],
) -> Result<Vec<Option<OwnLetter>>, sqlx::Error> {
    let ids: Vec<&str> = replayed.iter().flatten().map(String::as_str).collect();
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let rows = sqlx::query(
        "select wanted.id, d.status in ('parked', 'replaying') as open, d.received_on
           from unnest($1::text[]) as wanted (id)
           left join fis_dead_letter_edit e on e.copy_id = wanted.id
           join fis_dead_letter d on d.id = coalesce(e.letter_id, wanted.id)
          order by d.id
            for update of d",
    )
    .bind(ids)
    .fetch_all(db)
    .await?;
    let mut letters: HashMap<String, OwnLetter> = HashMap::with_capacity(rows.len());
    for row in rows {
        let found = OwnLetter { open: row.try_get("open")?, day: row.try_get("received_on")? };
        let letter = letters.entry(row.try_get("id")?).or_insert(found);
        // Where several letters were edited into one message, the first open one is booked; the others were in its way.
        if !letter.open && found.open {
            *letter = found;
        }
    }
    Ok(replayed.iter().map(|id| letters.get(id.as_ref()?).copied()).collect())
}
