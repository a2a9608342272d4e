//! What a books file would change. Two versions enter, the difference leaves as a list a person can read: added, changed,
//! closed, reopened, removed. Comments, white space and the order of accounts are no difference; the order of rules is,
//! because the first that matches wins. A difference in meaning is never left out.

use std::collections::HashMap;

use super::Books;
use super::outline::{Field, Item, Thing, outline};

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    Added,
    Changed,
    /// A period or an account that takes nothing any more.
    Closed,
    Reopened,
    Removed,
}

/// One field of a change. Both values: changed; one: it came or went.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Detail {
    pub field: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Change {
    pub act: Act,
    pub thing: Thing,
    pub name: String,
    pub details: Vec<Detail>,
}

/// The difference between two versions, in the order of the new one; what is removed stands last of its kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    pub changes: Vec<Change>,
}

impl Plan {
    /// The changes that `after` makes to `before` when it is applied; everything is added where there is nothing before.
    #[must_use]
    pub fn between(before: Option<&Books>, after: &Books) -> Self {
        let before = before.map(outline).unwrap_or_default();
        let after = outline(after);
        let mut changes = Vec::new();
        for thing in [Thing::Settings, Thing::Account, Thing::Period, Thing::Rate, Thing::Rule] {
            let of = |items: &[Item]| items.iter().filter(|item| item.thing == thing).cloned().collect::<Vec<_>>();
            compare(&of(&before), &of(&after), &mut changes);
        }
        Self { changes }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    #[must_use]
    pub fn count(&self, act: Act) -> usize {
        self.changes.iter().filter(|change| change.act == act).count()
    }
}

fn compare(before: &[Item], after: &[Item], changes: &mut Vec<Change>) {
    let places = |items: &[Item]| -> HashMap<String, usize> {
        items.iter().enumerate().map(|(place, item)| (item.name.clone(), place)).collect()
    };
    let (old_places, new_places) = (places(before), places(after));
    let stayed = in_order(after.iter().filter_map(|item| old_places.get(&item.name).copied()));
    for (new_place, item) in after.iter().enumerate() {
        let old = old_places.get(&item.name).and_then(|place| Some((*place, before.get(*place)?)));
        let Some((old_place, old)) = old else {
            changes.push(change(Act::Added, item, details(&[], &item.fields)));
            continue;
        };
        let mut differences = details(&old.fields, &item.fields);
        // Accounts, periods and rates are sorted in the outline, so only a rule can have moved.
        if item.thing == Thing::Rule && !stayed.contains(&old_place) {
            let place = |place: usize| Some((place + 1).to_string());
            differences.push(Detail { field: "position".to_owned(), old: place(old_place), new: place(new_place) });
        }
        if !differences.is_empty() {
            changes.push(change(act_of(&differences), item, differences));
        }
    }
    for item in before.iter().filter(|item| !new_places.contains_key(&item.name)) {
        changes.push(change(Act::Removed, item, details(&item.fields, &[])));
    }
}

fn change(act: Act, item: &Item, details: Vec<Detail>) -> Change {
    Change { act, thing: item.thing, name: item.name.clone(), details }
}

/// The status of a period or an account says most about a change.
fn act_of(details: &[Detail]) -> Act {
    let status = details.iter().find(|detail| detail.field == "status").and_then(|detail| detail.new.as_deref());
    match status {
        Some("closed") => Act::Closed,
        Some(_) => Act::Reopened,
        None => Act::Changed,
    }
}

fn details(old: &[Field], new: &[Field]) -> Vec<Detail> {
    let value = |fields: &[Field], name: &str| fields.iter().find(|f| f.name == name).map(|f| f.value.clone());
    let gone = old.iter().filter(|field| value(new, &field.name).is_none());
    let names = new.iter().chain(gone).map(|field| field.name.clone());
    names
        .map(|field| Detail { old: value(old, &field), new: value(new, &field), field })
        .filter(|detail| detail.old != detail.new)
        .collect()
}

/// The longest run of these places that is still in order; every other one has moved. Patience sorting.
fn in_order(places: impl Iterator<Item = usize>) -> std::collections::HashSet<usize> {
    let places: Vec<usize> = places.collect();
    // tails[n]: where the least last place of a run of n + 1 stands; previous: the one before it in its run.
    let mut tails: Vec<usize> = Vec::new();
    let mut previous: Vec<Option<usize>> = Vec::with_capacity(places.len());
    for (index, place) in places.iter().enumerate() {
        let length = tails.partition_point(|tail| places.get(*tail).is_some_and(|last| last < place));
        previous.push(length.checked_sub(1).and_then(|before| tails.get(before).copied()));
        match tails.get_mut(length) {
            Some(tail) => *tail = index,
            None => tails.push(index),
        }
    }
    let mut next = tails.last().copied();
    let mut run = std::collections::HashSet::with_capacity(tails.len());
    while let Some(index) = next {
        run.extend(places.get(index));
        next = previous.get(index).copied().flatten();
    }
    run
}

#[cfg(test)]
mod tests {
    use super::in_order;

    #[test]
    fn the_fewest_rules_are_said_to_have_moved() {
        for (places, moved) in [
            (vec![0, 1, 2, 3], vec![]),
            (vec![1, 2, 3, 0], vec![0]),
            (vec![3, 0, 1, 2], vec![3]),
            (vec![0, 2, 1, 3], vec![2]),
            (vec![], vec![]),
        ] {
            let stayed = in_order(places.iter().copied());
            let found: Vec<usize> = places.iter().copied().filter(|place| !stayed.contains(place)).collect();
            assert_eq!(found, moved, "{places:?}");
        }
    }
}
