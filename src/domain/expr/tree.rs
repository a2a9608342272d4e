//! The tree of an expression. The parser builds it, the evaluation walks it; nothing changes it in between.
//! What must never happen: a tree deeper than the nesting in the source. Hence chains (`a + b + c`) are flat.

use rust_decimal::Decimal;

#[derive(Debug, Clone)]
pub(super) struct Node {
    pub kind: Kind,
    /// The part of the source this was read from, for messages.
    pub start: usize,
    pub end: usize,
    /// The place where its value is remembered, if it is the same for every item (`constant.rs`).
    pub slot: Option<usize>,
}

#[derive(Debug, Clone)]
pub(super) enum Kind {
    Null,
    Bool(bool),
    Number(Decimal),
    Text(Box<str>),
    Path(Path),
    List(Vec<Node>),
    Not(Box<Node>),
    Negate(Box<Node>),
    Any(Vec<Node>),
    All(Vec<Node>),
    Compare { how: Comparison, left: Box<Node>, right: Box<Node> },
    Within { negated: bool, item: Box<Node>, list: Box<Node> },
    Sum { first: Box<Node>, rest: Vec<(Sign, Node)> },
    Product { first: Box<Node>, rest: Vec<(Factor, Node)> },
    Call { function: Function, arguments: Vec<Node> },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    Plus,
    Minus,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Factor {
    Times,
    Over,
}

/// A root and the way down from it.
#[derive(Debug, Clone)]
pub(super) struct Path {
    pub root: Box<str>,
    /// The root's place in the list the books were compiled with; a scope bound in that order is not searched.
    pub hint: usize,
    pub steps: Vec<Step>,
    /// One of the steps is `[*]`.
    pub projects: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Member(Box<str>),
    Index(usize),
    /// `[*]`: go on in every element.
    Each,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    Round,
    Sum,
    Coalesce,
    Exists,
    Min,
    Max,
    Abs,
    Count,
}

impl Function {
    /// Every function with its name, and the least and greatest number of arguments.
    pub const TABLE: [(&'static str, Function, usize, usize); 8] = [
        ("round", Function::Round, 2, 2),
        ("sum", Function::Sum, 1, 1),
        ("coalesce", Function::Coalesce, 2, usize::MAX),
        ("exists", Function::Exists, 1, 1),
        ("min", Function::Min, 1, usize::MAX),
        ("max", Function::Max, 1, usize::MAX),
        ("abs", Function::Abs, 1, 1),
        ("count", Function::Count, 1, 1),
    ];
}

impl Path {
    /// The first `count` steps as text; every `[*]` with the index of the element it was at, where that is known.
    pub fn describe(&self, count: usize, indexes: &[usize]) -> String {
        let mut text = String::from(&*self.root);
        let mut indexes = indexes.iter();
        for step in self.steps.iter().take(count) {
            match step {
                Step::Member(name) if is_word(name) => text.extend([".", name]),
                Step::Member(name) => text.extend(["['", &name.replace('\\', "\\\\").replace('\'', "\\'"), "']"]),
                Step::Index(index) => text.extend(["[", &index.to_string(), "]"]),
                Step::Each => match indexes.next() {
                    Some(index) => text.extend(["[", &index.to_string(), "]"]),
                    None => text.push_str("[*]"),
                },
            }
        }
        text
    }
}

/// Tells whether a name can be written behind a point, without quotes.
pub(super) fn is_word(name: &str) -> bool {
    name.starts_with(starts_word) && name.chars().all(continues_word)
}

pub(super) fn starts_word(character: char) -> bool {
    character.is_alphabetic() || character == '_'
}

pub(super) fn continues_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}
