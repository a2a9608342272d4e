//! The expression language of the books (contract §8). A rule's text enters once and becomes a tree; each event's
//! scope enters and an exact value, or an error in the author's own words, leaves.
//! What must never happen: a float, a silently rounded amount, a loop without bound, a panic on any input.
//!
//! | phase | file | from → to |
//! |---|---|---|
//! | read | `lex.rs` | text → tokens |
//! | read | `parse.rs`, `path_parse.rs`, `cursor.rs` | tokens → tree (`tree.rs`), unknown names refused with a suggestion (`suggest.rs`) |
//! | read | `template.rs` | text with `{expression}` parts → parts |
//! | read | `constant.rs` | tree → tree that knows which of its parts are the same for every item |
//! | run | `eval.rs`, `arithmetic.rs`, `call.rs`, `lookup.rs` | tree + `scope.rs` → `value.rs` |
//! | run | `exact.rs` | decimal arithmetic that is exact or refuses |
//!
//! Loosest first: `or`, `and`, `not`, `== != < <= > >= in`, `+ -`, `* /`, unary `-`. Comparisons do not chain.
//!
//! Rules that need a sentence:
//! - A member that is missing, or lies below something that has no members, equals `null` under `==` and `!=`, and
//!   may stand in `exists` and `coalesce`; everywhere else it is an error. `exists` means present and not null.
//! - `+ - *` are exact or an error. A run of `*` and `/` is one fraction, divided once, at the end: `a / 3 * 3` is `a`.
//!   A quotient is rounded half-even at 20 decimals, or fewer where it would need more than 24 digits;
//!   `round(a / b, n)` rounds the true quotient once. `round` always yields exactly n decimals.
//! - Text that spells a number is a number in arithmetic, in `< <= > >=`, and under `==` beside a number;
//!   two texts compare as text.

mod arithmetic;
mod call;
mod constant;
mod cursor;
mod error;
mod eval;
pub mod exact;
mod lex;
mod lookup;
mod parse;
mod path_parse;
mod run;
mod scope;
mod suggest;
mod template;
#[cfg(test)]
mod tests;
mod tree;
mod value;

use std::borrow::Cow;

use rust_decimal::Decimal;

use super::json::Json;
pub use error::{EvalError, EvalErrorKind, ParseError};
pub use scope::{ITEM, Root, Scope};
pub use suggest::closest;
pub use template::{TEMPLATE_CHARS_MAX, Template};
pub use value::Value;

/// Longest source text. The longest real rule is about 200 bytes; ten times that bounds tokens and tree.
pub const SOURCE_BYTES_MAX: usize = 2_000;
/// Parentheses, calls and prefix operators inside each other. People stop reading at five; recursion stops here.
pub const DEPTH_MAX: usize = 32;
/// The steps (`run.rs`) of all evaluations of one event: its rules' conditions, date, description and lines. An entry of 10,000 lines, which is the
/// largest, has fifty of them for each line; a usual line takes ten to twenty. Used up, they cost 5 to 15 ms, about as much as reading the largest body.
pub const STEPS_MAX: u32 = 500_000;
/// Elements of a list: a pay run of 10,000 slips fits the 256 KiB of an event only barely.
pub const LIST_ITEMS_MAX: usize = 10_000;

/// A compiled expression.
#[derive(Debug, Clone)]
pub struct Expr {
    source: Box<str>,
    tree: tree::Node,
    roots: Vec<Box<str>>,
}

impl Expr {
    /// Compiles `source`. `roots` are the names a path may start with.
    ///
    /// # Errors
    /// The first mistake, with its byte offset and, for a misspelt name, a suggestion.
    pub fn parse(source: &str, roots: &[&str]) -> Result<Expr, ParseError> {
        let (tree, roots) = parse::parse(source, roots)?;
        Ok(Expr { source: source.into(), tree, roots })
    }

    /// The text this was compiled from.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The roots this expression reads, each once.
    pub fn roots(&self) -> impl Iterator<Item = &str> {
        self.roots.iter().map(AsRef::as_ref)
    }

    /// Tells whether this expression reads that root; `item` outside `each` is a mistake in the books.
    #[must_use]
    pub fn uses(&self, root: &str) -> bool {
        self.roots().any(|used| used == root)
    }

    /// The text, where the whole expression is one text literal (`'EUR'`), so that books can be checked early.
    #[must_use]
    pub fn literal_text(&self) -> Option<&str> {
        match &self.tree.kind {
            tree::Kind::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Has the parts that are the same for every item worked out once per event, and remembered in its scope. Slots count on from `next`:
    /// no two expressions of one rule may share one.
    pub fn remember_constants(&mut self, next: &mut usize) {
        constant::give_slots(&mut self.tree, next);
    }

    /// The value of this expression.
    ///
    /// # Errors
    /// A missing member, a value of the wrong kind, a division by zero, a result that is not exact, or a limit.
    pub fn eval<'v>(&'v self, scope: &Scope<'v>) -> Result<Value<'v>, EvalError> {
        let mut run = run::Run::new(&self.source, scope);
        run.value(&self.tree).map_err(|fault| fault.within(&self.source))
    }

    /// The value as an exact decimal; text that spells a number counts.
    ///
    /// # Errors
    /// As [`Expr::eval`], or the value is not a number.
    pub fn eval_decimal(&self, scope: &Scope<'_>) -> Result<Decimal, EvalError> {
        let mut run = run::Run::new(&self.source, scope);
        run.number(&self.tree).map_err(|fault| fault.within(&self.source))
    }

    /// The value of a condition.
    ///
    /// # Errors
    /// As [`Expr::eval`], or the value is neither true nor false.
    pub fn eval_bool(&self, scope: &Scope<'_>) -> Result<bool, EvalError> {
        let mut run = run::Run::new(&self.source, scope);
        run.truth(&self.tree).map_err(|fault| fault.within(&self.source))
    }

    /// The value as text; a number becomes its plain text.
    ///
    /// # Errors
    /// As [`Expr::eval`], or the value is neither text nor a number.
    pub fn eval_text<'v>(&'v self, scope: &Scope<'v>) -> Result<Cow<'v, str>, EvalError> {
        let mut run = run::Run::new(&self.source, scope);
        run.text(&self.tree).map_err(|fault| fault.within(&self.source))
    }

    /// The elements of a list in the event, for `each`.
    ///
    /// # Errors
    /// As [`Expr::eval`], or the value is not a list, or it has more than [`LIST_ITEMS_MAX`] elements.
    pub fn eval_list<'v>(&'v self, scope: &Scope<'v>) -> Result<Vec<&'v Json<'v>>, EvalError> {
        let mut run = run::Run::new(&self.source, scope);
        run.elements(&self.tree).map_err(|fault| fault.within(&self.source))
    }
}
