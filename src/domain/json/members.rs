//! The members of an object, in source order, and an index by name where there are many. The reader makes them when it closes an object; one of
//! them leaves by its name, with the number of members that were looked at for it. What must never happen: a search through all members of an
//! object that a publisher made as long as a body.

use super::{Json, Member};

/// Up to here the members are looked at one after the other, which is cheaper than any index; of more members, a few are looked at as well.
pub(super) const FEW_MAX: usize = 16;

/// The members of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Members<'a>(Kept<'a>);

/// The index is kept behind a pointer: objects are small, and a value should stay as small as a vector allows.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Kept<'a> {
    Few(Vec<Member<'a>>),
    Many(Box<Indexed<'a>>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Indexed<'a> {
    members: Vec<Member<'a>>,
    /// The places of the members, in the order of their names: four bytes for a member of at least four.
    by_name: Vec<u32>,
}

impl<'a> Members<'a> {
    /// Members whose names differ; the reader has looked. `by_name` has their places in the order of their names, where there are more than a few.
    pub(super) fn new(members: Vec<Member<'a>>, by_name: Option<Vec<u32>>) -> Self {
        Self(match by_name {
            None => Kept::Few(members),
            Some(by_name) => Kept::Many(Box::new(Indexed { members, by_name })),
        })
    }

    /// All of them, in source order.
    #[must_use]
    pub fn as_slice(&self) -> &[Member<'a>] {
        match &self.0 {
            Kept::Few(members) => members,
            Kept::Many(indexed) => &indexed.members,
        }
    }

    /// All of them, in source order, to keep.
    #[must_use]
    pub fn into_vec(self) -> Vec<Member<'a>> {
        match self.0 {
            Kept::Few(members) => members,
            Kept::Many(indexed) => indexed.members,
        }
    }

    /// The member of that name, and how many members were looked at. The number depends on the object alone, never on the machine.
    #[must_use]
    pub fn find(&self, name: &str) -> (Option<&Json<'a>>, u32) {
        match &self.0 {
            Kept::Few(members) => {
                let mut looks = 0;
                for (key, value) in members {
                    looks += 1;
                    if key == name {
                        return (Some(value), looks);
                    }
                }
                (None, looks)
            }
            Kept::Many(indexed) => (indexed.find(name), indexed.by_name.len().checked_ilog2().unwrap_or(0) + 1),
        }
    }

    pub(super) fn into_owned(self) -> Members<'static> {
        let owned = |members: Vec<Member<'a>>| {
            members.into_iter().map(|(name, value)| (name.into_owned().into(), value.into_owned())).collect()
        };
        Members(match self.0 {
            Kept::Few(members) => Kept::Few(owned(members)),
            Kept::Many(indexed) => {
                let Indexed { members, by_name } = *indexed;
                Kept::Many(Box::new(Indexed { members: owned(members), by_name }))
            }
        })
    }
}

impl<'a> Indexed<'a> {
    fn find(&self, name: &str) -> Option<&Json<'a>> {
        let member = |place: &u32| self.members.get(*place as usize);
        // A place without a member is never made.
        let order = |place: &u32| member(place).map_or("", |(key, _)| key.as_ref()).cmp(name);
        let found = self.by_name.binary_search_by(order).ok()?;
        self.by_name.get(found).and_then(member).map(|(_, value)| value)
    }
}
