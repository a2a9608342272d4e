//! Draws the topology as text.
//!
//! Enters: the definitions. Leaves: who publishes where, which keys lead to which queue, where dead letters go, and
//! what each queue is limited to; at most 80 columns. What must never happen: a drawing that shows something else
//! than what is declared; it is made from the same value.

use super::{
    Topology,
    arguments::keys,
    definitions::{Exchange, Queue},
};

/// Exchanges with their keys and queues, dead-letter exchanges last, then a table of the queues' limits.
pub fn draw(topology: &Topology) -> String {
    let is_last = |exchange: &&Exchange| topology.is_dead_letter_exchange(&exchange.name);
    let (last, first): (Vec<&Exchange>, Vec<&Exchange>) = topology.exchanges.iter().partition(is_last);
    let mut blocks: Vec<String> =
        first.into_iter().chain(last).map(|exchange| draw_exchange(topology, exchange)).collect();
    blocks.push(draw_limits(topology));
    blocks.join("\n")
}

fn draw_exchange(topology: &Topology, exchange: &Exchange) -> String {
    let mut text = format!("{} ({})\n", exchange.name, exchange.kind);
    for queue in &topology.queues {
        let bound: Vec<&str> = topology
            .bindings
            .iter()
            .filter(|binding| binding.source == exchange.name && binding.destination == queue.name)
            .map(|binding| binding.routing_key.as_str())
            .collect();
        if !bound.is_empty() {
            text.push_str(&draw_keys(&bound, queue));
        }
    }
    for onward in topology.bindings.iter().filter(|onward| onward.source == exchange.name && onward.is_to_exchange()) {
        text.push_str(&format!("  {} ────▶ {}\n", onward.routing_key, onward.destination));
    }
    if let Some(alternate) = exchange.alternate() {
        text.push_str(&format!("  all others ────▶ {alternate}\n"));
    }
    text
}

/// The keys of one queue run together; below it stands the way its dead letters take.
fn draw_keys(bound: &[&str], queue: &Queue) -> String {
    let width = bound.iter().map(|key| key.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (index, key) in bound.iter().enumerate() {
        let is_last = index + 1 == bound.len();
        let joint = match (bound.len(), index, is_last) {
            (1, _, _) => "────▶ ",
            (_, 0, _) => "──┐",
            (_, _, false) => "──┤",
            (_, _, true) => "──┴─▶ ",
        };
        text.push_str(&format!("  {key:<width$} {joint}"));
        if is_last {
            text.push_str(&format!("{} ({})", queue.name, queue.kind()));
        }
        text.push('\n');
    }
    if let Some(exchange) = queue.text(keys::X_DEAD_LETTER_EXCHANGE) {
        let key = queue.text(keys::X_DEAD_LETTER_ROUTING_KEY).unwrap_or("");
        let indent = " ".repeat(width + 9);
        text.push_str(&format!("{indent}└─ dead ─▶ {exchange}, key {key}\n"));
    }
    text
}

fn draw_limits(topology: &Topology) -> String {
    let header = ["queue", "holds at most", "when full", "delivery limit"].map(str::to_owned);
    let rows: Vec<[String; 4]> = std::iter::once(header).chain(topology.queues.iter().map(limits_of)).collect();
    let mut widths = [0; 4];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for row in &rows {
        let cells: Vec<String> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

fn limits_of(queue: &Queue) -> [String; 4] {
    let shown = |key: &str| queue.arguments.get(key).map(ToString::to_string);
    let messages = shown(keys::X_MAX_LENGTH).map(|count| format!("{count} messages"));
    let bytes = shown(keys::X_MAX_LENGTH_BYTES).map(|count| format!("{count} bytes"));
    let full = match (queue.kind(), &messages, &bytes) {
        (_, None, None) => "-".to_owned(),
        ("stream", _, _) => "forgets the oldest".to_owned(),
        (_, _, _) => shown(keys::X_OVERFLOW).unwrap_or("drop-head".to_owned()),
    };
    [
        queue.name.clone(),
        messages.or(bytes).unwrap_or("-".to_owned()),
        full,
        shown(keys::X_DELIVERY_LIMIT).unwrap_or("-".to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS_MAX: usize = 80;

    #[test]
    fn the_drawing_shows_every_object_within_80_columns() {
        let topology = Topology::embedded().unwrap();
        let drawing = draw(&topology);
        for line in drawing.lines() {
            assert!(line.chars().count() <= COLUMNS_MAX, "{line}");
        }
        let exchanges = topology.exchanges.iter().map(|exchange| &exchange.name);
        let queues = topology.queues.iter().map(|queue| &queue.name);
        let keys = topology.bindings.iter().map(|binding| &binding.routing_key);
        for name in exchanges.chain(queues).chain(keys) {
            assert!(drawing.contains(name.as_str()), "{name} is missing in\n{drawing}");
        }
    }

    #[test]
    fn the_readme_shows_the_same_drawing() {
        let readme = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/topology/README.md"));
        let drawing = draw(&Topology::embedded().unwrap());
        assert!(readme.contains(&drawing), "put this into topology/README.md:\n{drawing}");
    }
}
