//! "Did you mean …?" A misspelt name and the known ones enter; the nearest known one leaves, if it is near enough.
//! What must never happen: a suggestion that shares nothing with what was written.

/// Longer names are not compared: the table of distances grows with the product of both lengths.
const NAME_CHARS_MAX: usize = 64;

/// The candidate nearest to `name`: at most two edits away (one for a name of up to four letters), ignoring case.
#[must_use]
pub fn closest<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let wanted: Vec<char> = name.to_lowercase().chars().take(NAME_CHARS_MAX + 1).collect();
    if wanted.len() > NAME_CHARS_MAX {
        return None;
    }
    let edits_max = if wanted.len() <= 4 { 1 } else { 2 };
    candidates
        .into_iter()
        .map(|candidate| (distance(&wanted, &candidate.to_lowercase()), candidate))
        .filter(|&(edits, candidate)| edits <= edits_max && edits < candidate.chars().count())
        .min_by_key(|&(edits, _)| edits)
        .map(|(_, candidate)| candidate)
}

/// Edits (insert, delete, replace, swap two neighbours) from one word to the other; row by row, three rows kept.
fn distance(from: &[char], to: &str) -> usize {
    let to: Vec<char> = to.chars().take(NAME_CHARS_MAX).collect();
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    let mut previous_from = None;
    for (row, &letter) in from.iter().enumerate() {
        let mut current = vec![row + 1];
        let mut previous_to = None;
        for (column, &other) in to.iter().enumerate() {
            let cost = |row: &[usize], column: usize| row.get(column).copied().unwrap_or(usize::MAX / 2);
            let mut edits = (cost(&last, column) + usize::from(letter != other))
                .min(cost(&last, column + 1) + 1)
                .min(cost(&current, column) + 1);
            if previous_from == Some(other) && previous_to == Some(letter) {
                edits = edits.min(cost(&before_last, column.wrapping_sub(1)) + 1);
            }
            current.push(edits);
            previous_to = Some(other);
        }
        before_last = std::mem::replace(&mut last, current);
        previous_from = Some(letter);
    }
    last.last().copied().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::closest;

    #[test]
    fn the_nearest_name_is_suggested_and_a_distant_one_is_not() {
        let names = ["payload", "item", "eventType", "sum", "min"];
        for (written, expected) in [
            ("paylod", Some("payload")),
            ("payalod", Some("payload")),
            ("PAYLOAD", Some("payload")),
            ("items", Some("item")),
            ("summ", Some("sum")),
            ("smu", Some("sum")),
            ("eventtype", Some("eventType")),
            ("body", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(closest(written, names), expected, "{written}");
        }
    }
}
