//! Letters that the messages of a batch are replays of. Read under the lock of the tenants' heads, before anything is decided.

use std::collections::HashMap;

use sqlx::PgConnection;

use super::received::OwnLetter;
use crate::store::dead_letters;

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
    let found = dead_letters::lock_replayed(db, &ids).await?;
    let mut letters: HashMap<String, OwnLetter> = HashMap::with_capacity(found.len());
    for found in found {
        let own = OwnLetter { open: found.open, day: found.received_on };
        let letter = letters.entry(found.id).or_insert(own);
        // Where several letters were edited into one message, the first open one is booked; the others were in its way.
        if !letter.open && own.open {
            *letter = own;
        }
    }
    Ok(replayed.iter().map(|id| letters.get(id.as_ref()?).copied()).collect())
}
