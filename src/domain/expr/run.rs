//! One evaluation under way: its source, its scope, and the steps that it takes. What must never happen: work that is not counted.
//!
//! | work | steps |
//! |---|---|
//! | a node of the tree, an element of a list | 1 |
//! | a member by its name | 1, and 1 for each member looked at |
//! | text or a number read, compared or copied | 1 for each 8 bytes |
//! | a product or a quotient | [`FACTOR_STEPS`] |

use super::error::Fault;
use super::scope::Scope;
use super::tree::Node;
use super::value::Value;

pub(super) type Ran<T> = Result<T, Fault>;

/// Bytes of text that cost as much as a node does: digits are read one by one.
const TEXT_BYTES: usize = 8;
/// A factor costs up to so many times as much as a node: numbers of 28 digits are multiplied and divided in parts.
const FACTOR_STEPS: u32 = 4;

/// One evaluation of one expression.
pub(super) struct Run<'v, 's> {
    pub(super) source: &'s str,
    pub(super) scope: &'s Scope<'v>,
}

impl<'v, 's> Run<'v, 's> {
    pub(super) fn new(source: &'s str, scope: &'s Scope<'v>) -> Self {
        Run { source, scope }
    }

    pub(super) fn step(&self) -> Ran<()> {
        self.steps(1)
    }

    pub(super) fn factor_steps(&self) -> Ran<()> {
        self.steps(FACTOR_STEPS)
    }

    /// Counts the reading, comparing or copying of so many bytes.
    pub(super) fn text_steps(&self, bytes: usize) -> Ran<()> {
        self.steps(u32::try_from(bytes / TEXT_BYTES).unwrap_or(u32::MAX))
    }

    pub(super) fn steps(&self, count: u32) -> Ran<()> {
        if self.scope.spend(count) { Ok(()) } else { Err(Fault::too_many_steps()) }
    }

    /// What a node is known to be worth, where it does not depend on the item.
    pub(super) fn recall(&self, node: &Node) -> Option<Value<'v>> {
        node.slot.and_then(|slot| self.scope.recall(slot))
    }

    /// Numbers and truths are remembered. Texts are only ever looked up, and lists would have to be copied.
    pub(super) fn remember(&self, node: &Node, value: &Value<'v>) {
        if let Some(slot) = node.slot {
            self.scope.remember(slot, value);
        }
    }
}
