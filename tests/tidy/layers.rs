//! The layers: every room stands on the layers that its row names, and never uses its neighbours.

use crate::source::{Source, identifier, line_of, sources, words};
use crate::{bites, hold, one};

struct Layer {
    rooms: &'static [&'static str],
    /// The layers that these rooms may use, by number.
    uses: &'static [usize],
}

/// The house from the ground up. A room that is not built yet is simply absent. `lib.rs` only lists the rooms.
const LAYERS: &[Layer] = &[
    Layer { rooms: &["domain", "platform", "faults"], uses: &[] },
    Layer { rooms: &["store"], uses: &[0] },
    Layer { rooms: &["intake", "journal", "outbox", "parking"], uses: &[0, 1] },
    Layer { rooms: &["pipeline"], uses: &[0, 1, 2] },
    Layer { rooms: &["desk"], uses: &[0, 1, 2, 3] },
    Layer { rooms: &["doors"], uses: &[0, 4] },
    Layer { rooms: &["service"], uses: &[0, 1, 2, 3, 4, 5] },
    Layer { rooms: &["cli", "main"], uses: &[0, 4, 6] },
];

/// The uses between neighbours: the hall leads to the command line, and a client of a server can be broken on purpose.
const BESIDE: &[(&str, &str)] = &[("main", "cli"), ("platform", "faults")];

/// Uses that the layers forbid and the code still has. Nothing may join them.
const EXCEPTIONS: &[(&str, &str, &str)] = &[];

/// The number of a room's layer.
pub fn layer_of(room: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.rooms.contains(&room))
}

fn may_use(room: &str, other: &str) -> bool {
    let (Some(layer), Some(below)) = (layer_of(room), layer_of(other)) else { return false };
    room == other || LAYERS[layer].uses.contains(&below) || BESIDE.contains(&(room, other))
}

/// The rooms a source names, with the line: `crate::room`, `crate::{room, …}`, `super::room`.
fn rooms_named(source: &Source) -> Vec<(usize, String)> {
    let is_room = |name: &str| layer_of(name).is_some();
    let mut named = Vec::new();
    for prefix in ["crate::", "super::", "fis::"] {
        for at in words(&source.code, prefix) {
            let rest = &source.code[at + prefix.len()..];
            let line = line_of(&source.code, at);
            let names: Vec<&str> = match rest.strip_prefix('{') {
                Some(group) => top_of_group(group),
                None => vec![identifier(rest)],
            };
            named.extend(names.into_iter().filter(|name| is_room(name)).map(|name| (line, name.to_owned())));
        }
    }
    named
}

/// The first name of each member of `{a::b, c::{d, e}}`, without the opening brace.
pub fn top_of_group(group: &str) -> Vec<&str> {
    let (mut depth, mut start, mut names) = (1, 0, Vec::new());
    for (at, character) in group.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 || (depth == 1 && character == ',') {
            names.push(identifier(group[start..at].trim_start()));
            start = at + 1;
        }
        if depth == 0 {
            break;
        }
    }
    names
}

/// Breaches of the table, without those that are excepted, and exceptions that nothing needs any more.
fn layer_breaches(sources: &[Source], exceptions: &[(&str, &str, &str)]) -> Vec<String> {
    let (mut complaints, mut needed) = (Vec::new(), Vec::new());
    for source in sources.iter().filter(|source| source.path != "lib.rs") {
        let room = source.room();
        if layer_of(room).is_none() {
            complaints.push(format!("src/{}: `{room}` is no room of tidy's LAYERS; give it its place", source.path));
            continue;
        }
        for (line, other) in rooms_named(source) {
            if may_use(room, &other) {
                continue;
            }
            match exceptions.iter().find(|(from, to, _)| *from == room && *to == other) {
                Some(exception) => needed.push(exception),
                None => complaints.push(format!("src/{}:{line}: `{room}` may not use `{other}`", source.path)),
            }
        }
    }
    for exception in exceptions.iter().filter(|exception| !needed.contains(exception)) {
        let (from, to, reason) = exception;
        complaints.push(format!("`{from}` uses `{to}` no more ({reason}); take it off tidy's layers::EXCEPTIONS"));
    }
    complaints
}

#[test]
fn every_room_uses_only_the_layers_below_it() {
    hold(&layer_breaches(sources(), EXCEPTIONS));
}

#[test]
fn the_layer_rule_bites() {
    let rows = [
        ("domain/x.rs", "use crate::platform::time;", "`domain` may not use `platform`"),
        ("platform/x.rs", "fn f() -> crate::domain::ids::TenantId;", "`platform` may not use `domain`"),
        ("store/x.rs", "use crate::journal::post;", "`store` may not use `journal`"),
        ("intake/x.rs", "use crate::{domain::ids, journal::{post, read}};", "`intake` may not use `journal`"),
        ("journal/mod.rs", "use super::outbox;", "`journal` may not use `outbox`"),
        ("parking/x.rs", "use super::super::outbox;", "`parking` may not use `outbox`"),
        ("pipeline.rs", "use crate::service::run;", "`pipeline` may not use `service`"),
        ("pipeline/x.rs", "use crate::desk::replay;", "`pipeline` may not use `desk`"),
        ("desk/x.rs", "use crate::service::run;", "`desk` may not use `service`"),
        ("doors/http/x.rs", "use crate::store::letters;", "`doors` may not use `store`"),
        ("doors/x.rs", "use crate::parking::read;", "`doors` may not use `parking`"),
        ("service/x.rs", "use crate::cli::Cli;", "`service` may not use `cli`"),
        ("cli/x.rs", "use crate::store::entries;", "`cli` may not use `store`"),
        ("cli/x.rs", "use crate::doors::http;", "`cli` may not use `doors`"),
        ("cli/x.rs", "use crate::journal::read;", "`cli` may not use `journal`"),
        ("main.rs", "use fis::pipeline::Pipeline;", "`main` may not use `pipeline`"),
        ("attic.rs", "", "give it its place"),
    ];
    for (path, text, complaint) in rows {
        bites(&layer_breaches(&one(path, text), &[]), complaint);
    }
    for (path, text) in [
        ("journal/x.rs", "use crate::domain::books::Books; // crate::outbox\nuse super::books; use crate::store::x;"),
        ("desk/x.rs", "use crate::{domain::ids, store::letters, parking::read, pipeline::rehearse};"),
        ("doors/console/x.rs", "use crate::desk::dead_letters; use crate::platform::time;"),
        ("main.rs", "use fis::cli::Cli;"),
    ] {
        hold(&layer_breaches(&one(path, text), &[]));
    }
    let exception = [("cli", "journal", "for now")];
    hold(&layer_breaches(&one("cli/x.rs", "use crate::journal::read;"), &exception));
    bites(&layer_breaches(&one("cli/x.rs", "use crate::desk::journal;"), &exception), "`cli` uses `journal` no more");
}
