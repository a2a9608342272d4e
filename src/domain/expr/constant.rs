//! Which parts of an expression are the same for every item of an event. A tree enters, and leaves with a slot at each part that need not be worked
//! out again; a sum over the whole event then costs its length once, and not once for every item.
//! What must never happen: a slot at a part that reads the item, or one slot at two parts.

use super::scope::ITEM;
use super::tree::{Kind, Node};

/// Gives slots to the largest parts of `node` that do not read the item, counting on from `next`. Recursion is bounded by the depth of the tree.
pub(super) fn give_slots(node: &mut Node, next: &mut usize) {
    if !reads_item(node) {
        if is_literal(node) {
            return;
        }
        node.slot = Some(*next);
        *next += 1;
        // A product inside a product is never worth anything of its own, because it is divided last; its parts are.
        if !matches!(node.kind, Kind::Product { .. } | Kind::Negate(_)) {
            return;
        }
    }
    match &mut node.kind {
        Kind::Null | Kind::Bool(_) | Kind::Number(_) | Kind::Text(_) | Kind::Path(_) => {}
        Kind::Not(inner) | Kind::Negate(inner) => give_slots(inner, next),
        Kind::List(nodes) | Kind::Any(nodes) | Kind::All(nodes) | Kind::Call { arguments: nodes, .. } => {
            nodes.iter_mut().for_each(|node| give_slots(node, next));
        }
        Kind::Compare { left: one, right: other, .. } | Kind::Within { item: one, list: other, .. } => {
            give_slots(one, next);
            give_slots(other, next);
        }
        Kind::Sum { first, rest } => {
            give_slots(first, next);
            rest.iter_mut().for_each(|(_, part)| give_slots(part, next));
        }
        Kind::Product { first, rest } => {
            give_slots(first, next);
            rest.iter_mut().for_each(|(_, part)| give_slots(part, next));
        }
    }
}

fn is_literal(node: &Node) -> bool {
    matches!(node.kind, Kind::Null | Kind::Bool(_) | Kind::Number(_) | Kind::Text(_))
}

fn reads_item(node: &Node) -> bool {
    match &node.kind {
        Kind::Null | Kind::Bool(_) | Kind::Number(_) | Kind::Text(_) => false,
        Kind::Path(path) => &*path.root == ITEM,
        Kind::Not(inner) | Kind::Negate(inner) => reads_item(inner),
        Kind::List(nodes) | Kind::Any(nodes) | Kind::All(nodes) | Kind::Call { arguments: nodes, .. } => {
            nodes.iter().any(reads_item)
        }
        Kind::Compare { left: one, right: other, .. } | Kind::Within { item: one, list: other, .. } => {
            reads_item(one) || reads_item(other)
        }
        Kind::Sum { first, rest } => reads_item(first) || rest.iter().any(|(_, part)| reads_item(part)),
        Kind::Product { first, rest } => reads_item(first) || rest.iter().any(|(_, part)| reads_item(part)),
    }
}
