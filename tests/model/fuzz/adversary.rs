//! Somebody who knows a tenant's rules and writes events that cost as much as they can: rules enter, a body leaves that names what they ask for. And rules that
//! do with an event whatever rules can: `GREEDY` by hand, others made at random.

use std::fmt::Write as _;

use fastrand::Rng;
use fis::domain::event::BODY_BYTES_MAX;

/// Rules that do with an event whatever rules can.
pub const GREEDY: &str = r##"
[[rules]]
name = "sums"
on = "a.sums"
when = "count(payload.list) >= 0 and sum(payload.list[*].n) != 1"
each = "payload.list"
currency = "coalesce(item.currency, payload.currency, 'EUR')"
description = "{coalesce(payload.text, payload.name, 'x')} {count(payload.list)}"
lines = [
  { debit  = "{coalesce(item.account, '1000')}", amount = "item.n / sum(payload.list[*].n) * max(payload.list[*].n) + payload.number * 1.000000001" },
  { credit = "4000", amount = "round(item.n * item.n / 3 / 7 * payload.number, 2)", when = "coalesce(item.code, -1) in payload.codes or coalesce(item.code, -1) in payload.list[*].n or coalesce(item.text, '') == payload.text" },
]
[[rules]]
name = "texts"
on = "a.texts"
each = "payload.list[*].list[*]"
date = "payload.date"
currency = "payload.text"
lines = [
  { debit  = "{item.text}{payload.text}", amount = "payload.text + item.text", when = "payload.text != item.text and not exists(payload.list[*].none)" },
  { credit = "{payload.text}", amount = "payload.text * payload.text" },
]
[[rules]]
name = "deep"
on = "#.a.#.a.#.b"
reverses = "payload.a.a.a.a.a.a.a.a"
[[rules]]
name = "numbers"
on = "a.#"
currency = "'EUR'"
lines = [
  { debit  = "1000", amount = "payload.number / 3 * payload.number / 7 - payload.small * payload.number" },
  { credit = "4000", amount = "min(payload.list[*].n) + abs(payload.number) + sum(payload.numbers) / count(payload.numbers)" },
]
"##;

fn pick<'t>(random: &mut Rng, of: &[&'t str]) -> &'t str {
    of[random.usize(..of.len())]
}

// --- rules --------------------------------------------------------------------------------------------------------

/// Rules made at random. Most of them compile; those that do not are of use to the compiler.
pub fn rules(random: &mut Rng) -> String {
    let count = if random.u8(..20) == 0 { random.usize(50..300) } else { random.usize(1..6) };
    (0..count).map(|number| rule(random, number)).collect()
}

fn rule(random: &mut Rng, number: usize) -> String {
    let words: Vec<&str> = (0..random.usize(1..8)).map(|_| pick(random, &["#", "*", "a", "a", "b"])).collect();
    let mut rule = format!("[[rules]]\nname = \"r{number}\"\non = \"{}\"\n", words.join("."));
    if random.bool() {
        let _ = writeln!(rule, "when = \"{}\"", condition(random, 2, false));
    }
    match random.u8(..10) {
        0 => return rule + "ignore = true\n",
        1 => return rule + "reverses = \"payload.a.a.a\"\n",
        _ => {}
    }
    let each = pick(random, &["", "payload.list", "payload.list", "payload.list[*].list[*]"]);
    let is_each = !each.is_empty();
    if is_each {
        let _ = writeln!(rule, "each = \"{each}\"");
    }
    if random.u8(..6) == 0 {
        rule.push_str("date = \"payload.date\"\n");
    }
    let currencies = ["'EUR'", "'EUR'", "payload.currency", "coalesce(item.currency, 'USD')"];
    let currency = pick(random, &currencies[..if is_each { 4 } else { 3 }]);
    let _ = writeln!(rule, "currency = \"{currency}\"");
    if random.u8(..4) == 0 {
        let _ = writeln!(rule, "description = \"{{{}}} {{payload.text}}\"", amount(random, 2, false));
    }
    let amount = amount(random, 4, is_each);
    let when =
        if random.u8(..3) == 0 { format!(", when = \"{}\"", condition(random, 2, is_each)) } else { String::new() };
    let debit = pick(random, &["1000", "1000", "{coalesce(payload.account, '1000')}", "{payload.text}"]);
    let _ = writeln!(
        rule,
        "lines = [\n  {{ debit = \"{debit}\", amount = \"{amount}\"{when} }},\n  {{ credit = \"4000\", amount = \"{amount}\"{when} }},\n]"
    );
    rule
}

/// An expression for a number.
fn amount(random: &mut Rng, depth: u8, is_each: bool) -> String {
    if depth == 0 || random.u8(..4) == 0 {
        let leaves = [
            "payload.number",
            "payload.small",
            "sum(payload.list[*].n)",
            "count(payload.list)",
            "max(payload.list[*].n)",
            "sum(payload.numbers)",
            "1",
            "0.01",
            "1.000000001",
            "item.n",
            "item.n",
            "item.code",
        ];
        let count = if is_each { leaves.len() } else { leaves.len() - 3 };
        return pick(random, &leaves[..count]).to_owned();
    }
    let one = amount(random, depth - 1, is_each);
    match random.u8(..8) {
        0 => format!("round({one}, {})", random.u8(..5)),
        1 => format!("abs({one})"),
        2 => format!("coalesce(payload.none, {one})"),
        3 => format!("({one} + {})", amount(random, depth - 1, is_each)),
        4 => format!("({one} - {})", amount(random, depth - 1, is_each)),
        5 => format!("{one} * {}", amount(random, depth - 1, is_each)),
        6 => format!("max({one}, {})", amount(random, depth - 1, is_each)),
        _ => format!("{one} / {}", amount(random, depth - 1, is_each)),
    }
}

fn condition(random: &mut Rng, depth: u8, is_each: bool) -> String {
    let number = amount(random, 1, is_each);
    match random.u8(..if depth == 0 { 5 } else { 8 }) {
        0 => format!("{number} > 0"),
        1 => format!("{number} in payload.codes"),
        2 => format!("{number} in payload.list[*].n"),
        3 => "payload.text != payload.name".to_owned(),
        4 => "exists(payload.list[*].none)".to_owned(),
        5 => format!("not ({})", condition(random, depth - 1, is_each)),
        6 => format!("({} and {})", condition(random, depth - 1, is_each), condition(random, depth - 1, is_each)),
        _ => format!("({} or {})", condition(random, depth - 1, is_each), condition(random, depth - 1, is_each)),
    }
}

// --- events -------------------------------------------------------------------------------------------------------

/// The names that rules ask for.
struct Vocabulary<'r> {
    patterns: Vec<&'r str>,
    members: Vec<&'r str>,
    /// Lists of objects, and lists of numbers.
    lists: Vec<&'r str>,
    plain: Vec<&'r str>,
    /// Of items.
    inside: Vec<&'r str>,
}

impl<'r> Vocabulary<'r> {
    fn of(rules: &'r str) -> Self {
        let name = |text: &'r str| text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
        let unique = |mut names: Vec<&'r str>| {
            names.sort_unstable();
            names.dedup();
            names.retain(|name| !name.is_empty());
            names
        };
        let behind = |word: &'static str| rules.split(word).skip(1);
        let paths = || behind("payload.").map(|text| (name(text), &text[name(text).len()..]));
        let mut lists: Vec<&str> = paths().filter(|(_, rest)| rest.starts_with("[*].")).map(|(name, _)| name).collect();
        lists.extend(behind("each = \"payload.").map(name));
        let mut plain: Vec<&str> = paths().filter(|(_, rest)| rest.starts_with("[*]")).map(|(name, _)| name).collect();
        for word in ["in payload.", "sum(payload.", "count(payload.", "min(payload.", "max(payload."] {
            plain.extend(behind(word).map(name));
        }
        plain.retain(|name| !lists.contains(name));
        let mut members: Vec<&str> = paths().map(|(name, _)| name).collect();
        members.retain(|name| !lists.contains(name) && !plain.contains(name));
        let inside = behind("item.").chain(behind("[*].")).map(name).collect();
        let patterns = behind("\non = \"").filter_map(|text| text.split('"').next()).collect();
        Self {
            patterns: unique(patterns),
            members: unique(members),
            lists: unique(lists),
            plain: unique(plain),
            inside: unique(inside),
        }
    }
}

pub struct Adversary<'a> {
    random: &'a mut Rng,
    /// Whether numbers of this event may be long, and what its items are like.
    long: bool,
    shape: u8,
}

impl<'a> Adversary<'a> {
    pub fn new(random: &'a mut Rng) -> Self {
        Self { long: random.u8(..4) == 0, shape: random.u8(..3), random }
    }

    /// The body of an event for these rules, within what is taken.
    pub fn event(&mut self, tenant: &str, rules: &str) -> String {
        let known = Vocabulary::of(rules);
        let event_type = self.event_type(&known);
        let mut names: Vec<&str> = known.members.iter().chain(&known.lists).chain(&known.plain).copied().collect();
        self.random.shuffle(&mut names);
        let mut members = String::new();
        for name in names {
            // Mostly all are there: an event that lacks something ends early.
            if self.random.u8(..20) == 0 {
                continue;
            }
            let room = BODY_BYTES_MAX.saturating_sub(400 + members.len());
            let value = match name {
                name if known.lists.contains(&name) => self.list(&known, room),
                name if known.plain.contains(&name) => self.numbers(room),
                name => self.value(name, room),
            };
            if value.len() + name.len() + 4 <= room {
                let _ = write!(members, "\"{name}\":{value},");
            }
            let unasked = self.random.usize(..2) * self.random.usize(..2) * self.random.usize(..2_000);
            for n in 0..unasked {
                if members.len() + 400 < BODY_BYTES_MAX {
                    let _ = write!(members, "\"{name}{n}\":{n},");
                }
            }
        }
        format!(
            r#"{{"eventId":"e","tenantId":"{tenant}","eventType":"{event_type}","occurredAt":"2026-02-25T10:00:00Z","payload":{{{members}"last":0}}}}"#
        )
    }

    /// Of one that a rule takes, or nearly.
    fn event_type(&mut self, known: &Vocabulary<'_>) -> String {
        let pattern = match known.patterns.len() {
            0 => "a.b.c",
            count => known.patterns[self.random.usize(..count)],
        };
        let mut words = Vec::new();
        for word in pattern.split('.') {
            match word {
                "#" => words.extend((0..self.random.usize(..14)).map(|_| pick(self.random, &["a", "a", "b"]))),
                "*" => words.push(pick(self.random, &["a", "b"])),
                word => words.push(word),
            }
        }
        if self.random.u8(..8) == 0 {
            words.extend(vec![pick(self.random, &["a", "b"]); self.random.usize(..60)]);
        }
        words.join(".").chars().take(200).collect()
    }

    fn most(&mut self, room: usize) -> usize {
        1 + self.random.usize(..room.max(2)) / self.random.usize(1..20)
    }

    fn list(&mut self, known: &Vocabulary<'_>, room: usize) -> String {
        let most = self.most(room);
        let mut list = String::from("[");
        while list.len() + 600 < most {
            match self.shape {
                0 => {
                    let item: Vec<String> =
                        known.inside.iter().map(|name| format!("\"{name}\":{}", self.item(name))).collect();
                    let _ = write!(list, "{{{}}},", item.join(","));
                }
                1 => {
                    let number = self.number();
                    let _ = write!(list, "{{\"n\":{number},\"list\":[{number},{{\"text\":{number}}}]}},");
                }
                _ => list.push_str("{\"n\":1},"),
            }
        }
        let item: Vec<String> = known.inside.iter().map(|name| format!("\"{name}\":{}", self.item(name))).collect();
        format!("{list}{{{}}}]", item.join(","))
    }

    fn numbers(&mut self, room: usize) -> String {
        let most = self.most(room);
        let mut list = String::from("[");
        while list.len() + 600 < most {
            let number = self.number();
            let _ = write!(list, "{number},");
        }
        format!("{list}1]")
    }

    fn item(&mut self, name: &str) -> String {
        match name {
            "currency" => "\"EUR\"".to_owned(),
            "account" => "\"1000\"".to_owned(),
            "department" => "\"10\"".to_owned(),
            "list" => format!("[{},{{\"text\":1,\"n\":2}}]", self.number()),
            "text" => format!("\"{}\"", self.number()),
            _ => self.number(),
        }
    }

    fn value(&mut self, name: &str, room: usize) -> String {
        match name {
            "a" => {
                let depth = self.random.usize(1..70);
                format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth))
            }
            "currency" => "\"EUR\"".to_owned(),
            "account" => "\"1100\"".to_owned(),
            name if name.contains("date") || name.ends_with("At") => "\"2026-02-25\"".to_owned(),
            name if name == "text" || name == "name" || name.ends_with("Id") => {
                let most = self.most(room);
                let piece = pick(self.random, &["0", "1", "x", "EUR", "2026-02-25", "é", "\\u00e9", "0.", "\\n"]);
                format!("\"{}\"", piece.repeat(if self.random.bool() { 1 } else { most / 8 + 1 }))
            }
            _ => self.number(),
        }
    }

    /// Mostly a small one; now and then as long as a number may be, and rarely longer.
    fn number(&mut self) -> String {
        let digits = |count: usize, digit: &str| digit.repeat(count);
        match if self.long { self.random.u16(..2_000) } else { 2_000 } {
            0 => format!("1{}", digits(self.random.usize(..260), "0")),
            1 => format!("{}e{}", self.random.u32(..), self.random.i32(-10_000..10_000)),
            2..20 => format!("0.{}1", digits(self.random.usize(..250), "0")),
            20..40 => digits(1 + self.random.usize(..30), "9"),
            40..60 => format!("0.{}", digits(1 + self.random.usize(..30), "9")),
            60..100 => format!("-{}.{}", self.random.u64(..), self.random.u64(..)),
            _ => self.random.u8(1..).to_string(),
        }
    }
}
