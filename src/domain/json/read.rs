//! The JSON reader. Text enters; a tree that borrows from it, or the first mistake, leaves.
//! What must never happen: accepting what RFC 8259 refuses, work that grows with the square of the text,
//! a recursion deeper than `DEPTH_MAX`.

use std::borrow::Cow;

use super::error::{Failure, JsonError, JsonErrorKind as Kind};
use super::members::FEW_MAX;
use super::{DEPTH_MAX, Json, Member, Members};

/// Members open at once in a usual event (envelope, payload and one line), so that the stacks are allocated once.
const USUAL_MEMBERS: usize = 32;

pub(super) type Read<T> = Result<T, Failure>;

pub(super) struct Reader<'a> {
    text: &'a str,
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
    depth: usize,
    // Members and elements of all open containers; each container takes its own off the top when it closes.
    // So every container is allocated once, in its exact size.
    members: Vec<Member<'a>>,
    elements: Vec<Json<'a>>,
    // For each name its print, to find a duplicate fast, and its offset, to point at one. Both also hold the names
    // whose value is still being read, so their positions are not those of `members`.
    name_prints: Vec<u64>,
    name_offsets: Vec<usize>,
}

impl<'a> Reader<'a> {
    pub fn new(text: &'a str) -> Self {
        Reader {
            text,
            bytes: text.as_bytes(),
            at: 0,
            depth: 0,
            members: Vec::with_capacity(USUAL_MEMBERS),
            elements: Vec::new(),
            name_prints: Vec::with_capacity(USUAL_MEMBERS),
            name_offsets: Vec::with_capacity(USUAL_MEMBERS),
        }
    }

    pub fn document(mut self) -> Result<Json<'a>, JsonError> {
        self.whole().map_err(|failure| failure.locate(self.text))
    }

    fn whole(&mut self) -> Read<Json<'a>> {
        if self.text.starts_with('\u{FEFF}') {
            return Err(self.fail(Kind::ByteOrderMark));
        }
        self.skip_white_space();
        let mut document = Json::Null;
        self.value(|_, value| document = value)?;
        self.skip_white_space();
        if self.at == self.bytes.len() { Ok(document) } else { Err(self.fail(Kind::TrailingData)) }
    }

    /// Reads a value and hands it to `keep`. Returned by value it would be copied through several places, byte by
    /// byte around its tag, and those copies were a third of all the time.
    fn value(&mut self, keep: impl FnOnce(&mut Self, Json<'a>)) -> Read<()> {
        match self.peek() {
            Some(b'"') => {
                let text = self.string()?;
                keep(self, Json::String(text));
            }
            Some(b'-' | b'0'..=b'9') => {
                let number = self.number()?;
                keep(self, Json::Number(number));
            }
            Some(b'{') => {
                let members = self.object()?;
                keep(self, Json::Object(members));
            }
            Some(b'[') => {
                let elements = self.array()?;
                keep(self, Json::Array(elements));
            }
            Some(b't') => {
                self.word("true")?;
                keep(self, Json::Bool(true));
            }
            Some(b'f') => {
                self.word("false")?;
                keep(self, Json::Bool(false));
            }
            Some(b'n') => {
                self.word("null")?;
                keep(self, Json::Null);
            }
            Some(_) | None => return Err(self.unexpected("a value")),
        }
        Ok(())
    }

    fn word(&mut self, word: &'static str) -> Read<()> {
        if !self.rest().starts_with(word.as_bytes()) {
            return Err(self.unexpected("a value"));
        }
        self.at += word.len();
        Ok(())
    }

    fn array(&mut self) -> Read<Vec<Json<'a>>> {
        self.open()?;
        if self.closes(b']') {
            return Ok(Vec::new());
        }
        let base = self.elements.len();
        loop {
            self.value(|reader, element| reader.elements.push(element))?;
            self.skip_white_space();
            match self.peek() {
                Some(b',') => self.advance(),
                Some(b']') => break,
                Some(_) | None => return Err(self.unexpected("`,` or `]`")),
            }
        }
        self.at += 1;
        self.depth -= 1;
        Ok(self.elements.split_off(base))
    }

    fn object(&mut self) -> Read<Members<'a>> {
        self.open()?;
        if self.closes(b'}') {
            return Ok(Members::new(Vec::new(), None));
        }
        let base = self.members.len();
        let names_base = self.name_offsets.len();
        loop {
            let name = self.member_name(base, names_base)?;
            self.value(|reader, value| reader.members.push((name, value)))?;
            self.skip_white_space();
            match self.peek() {
                Some(b',') => self.advance(),
                Some(b'}') => break,
                Some(_) | None => return Err(self.unexpected("`,` or `}`")),
            }
        }
        let by_name = self.order(base, names_base)?;
        self.at += 1;
        self.depth -= 1;
        self.name_prints.truncate(names_base);
        self.name_offsets.truncate(names_base);
        Ok(Members::new(self.members.split_off(base), by_name))
    }

    /// Reads a name and its colon. `base` is where the members of this object begin, `names_base` where its names do.
    fn member_name(&mut self, base: usize, names_base: usize) -> Read<Cow<'a, str>> {
        let offset = self.at;
        if self.peek() != Some(b'"') {
            return Err(self.unexpected("a member name in quotes"));
        }
        let name = self.string()?;
        let print = name_print(&name);
        let prints = self.name_prints.get(names_base..).unwrap_or_default();
        if prints.len() < FEW_MAX && prints.contains(&print) && self.has_member(base, &name) {
            return Err(fail_at(offset, Kind::DuplicateMember { name: name.into_owned() }));
        }
        self.name_prints.push(print);
        self.name_offsets.push(offset);
        self.skip_white_space();
        if self.peek() != Some(b':') {
            return Err(self.unexpected("`:`"));
        }
        self.advance();
        Ok(name)
    }

    fn has_member(&self, base: usize, name: &str) -> bool {
        self.members.get(base..).unwrap_or_default().iter().any(|(other, _)| other == name)
    }

    /// The places of many members in the order of their names. Up to a few, each name was compared with all before it, which is cheaper; more are
    /// sorted, so that a large object costs n log n and not n², and a duplicate stands beside its like.
    fn order(&self, base: usize, names_base: usize) -> Read<Option<Vec<u32>>> {
        let members = self.members.get(base..).unwrap_or_default();
        if members.len() <= FEW_MAX {
            return Ok(None);
        }
        let mut names: Vec<(&str, u32)> = members.iter().map(|(name, _)| name.as_ref()).zip(0..).collect();
        names.sort_unstable();
        let repeated = names.array_windows().filter(|[(one, _), (other, _)]| one == other).map(|[_, later]| later);
        if let Some(&(name, place)) = repeated.min_by_key(|(_, place)| *place) {
            let offset = self.name_offsets.get(names_base + place as usize).copied().unwrap_or(self.at);
            return Err(fail_at(offset, Kind::DuplicateMember { name: name.to_owned() }));
        }
        Ok(Some(names.into_iter().map(|(_, place)| place).collect()))
    }

    /// Enters a container, past its bracket and the white space behind it.
    fn open(&mut self) -> Read<()> {
        if self.depth == DEPTH_MAX {
            return Err(self.fail(Kind::TooDeep));
        }
        self.depth += 1;
        self.advance();
        Ok(())
    }

    /// Leaves a container that is empty.
    fn closes(&mut self, bracket: u8) -> bool {
        let empty = self.peek() == Some(bracket);
        if empty {
            self.at += 1;
            self.depth -= 1;
        }
        empty
    }

    fn advance(&mut self) {
        self.at += 1;
        self.skip_white_space();
    }

    fn skip_white_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// Both ends stand beside an ASCII byte, so the cut is always between characters.
    pub(super) fn slice(&self, start: usize, end: usize) -> &'a str {
        self.text.get(start..end).unwrap_or_default()
    }

    pub(super) fn unexpected(&self, expected: &'static str) -> Failure {
        match self.text.get(self.at..).and_then(|rest| rest.chars().next()) {
            Some(found) => self.fail(Kind::Unexpected { found, expected }),
            None => self.fail(Kind::UnexpectedEnd { expected }),
        }
    }

    pub(super) fn fail(&self, kind: Kind) -> Failure {
        fail_at(self.at, kind)
    }
}

#[cold]
pub(super) fn fail_at(offset: usize, kind: Kind) -> Failure {
    Failure::new(kind, offset)
}

/// Length, first and last byte: equal for equal names, and different for most others.
fn name_print(name: &str) -> u64 {
    match name.as_bytes() {
        [] => 0,
        bytes @ [first, ..] => {
            let last = bytes.last().unwrap_or(first);
            (bytes.len() as u64) << 16 | u64::from(*first) << 8 | u64::from(*last)
        }
    }
}
