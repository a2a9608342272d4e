//! What is hostile in an event: sizes, depths, numbers of things, and amounts that rounding would swallow.

use rust_decimal::Decimal;

use super::{ORDER, refused_bytes, sound_order};
use crate::books::{TENANTS, in_base};
use crate::dialects;
use crate::json::{Json, number, object, text};
use crate::model::{Batch, Entry, Fate};
use crate::poison::BODY_BYTES_MAX;
use crate::script::{Writer, converted, line};

/// Two bodies that no event may have, alike as far as they are kept. The beginning of one is an order.
pub fn oversized(writer: &mut Writer) {
    let (draft, _) = sound_order(writer);
    let mut body = dialects::canonical(&draft, &mut writer.rng).body;
    body.resize(BODY_BYTES_MAX + writer.rng.usize(1..200_000), b' ');
    for tail in 1..3u8 {
        let last = body.len() - 1;
        body[last] = b' ' + tail;
        refused_bytes(writer, ORDER, body.clone(), "too_large");
    }
}

/// An order among thousands of members that nobody asks for.
pub fn many_members(writer: &mut Writer) {
    let (mut draft, fate) = sound_order(writer);
    let Json::Object(own) = draft.payload else { return };
    let count = writer.rng.usize(1_000..9_000);
    let unasked = (0..count).map(|number_| (format!("a{number_}"), number(number_)));
    draft.payload = Json::Object(unasked.chain(own).collect());
    let written = dialects::canonical(&draft, &mut writer.rng);
    let (_, message) = writer.case_written(draft, fate, written);
    writer.publish(message);
}

/// Lists in lists in a payload: beyond 64 levels it is no JSON that is taken.
pub fn deep_payload(writer: &mut Writer) {
    if writer.rng.bool() {
        let (mut draft, fate) = sound_order(writer);
        let depth = writer.rng.usize(1..55);
        draft.payload = draft.payload.with("deep", (0..depth).fold(number(1), |inside, _| Json::List(vec![inside])));
        let (_, message) = writer.case(draft, fate);
        return writer.publish(message);
    }
    let depth = [70, 1_000, 100_000][writer.rng.usize(..3)];
    let (open, close) = ("[".repeat(depth), "]".repeat(depth));
    let body = format!("{{\"eventId\":\"deep-{}\",\"payload\":{open}{close}}}", writer.number);
    refused_bytes(writer, ORDER, body.into_bytes(), "malformed_json");
}

/// A pay run with so many slips. An entry has at most 10,000 lines, of which a slip makes three.
pub fn many_items(writer: &mut Writer) {
    let tenant = writer.tenant();
    let count = [100, 400, 400, 3_340][writer.rng.usize(..4)];
    let (gross, withheld) = (Decimal::from(3_000), Decimal::from(901));
    let slip = object([("department", text("10")), ("gross", number(gross)), ("withheld", number(withheld))]);
    let of_one = [("6010", true, gross), ("1000", false, gross - withheld), ("2300", false, withheld)];
    let of_one = of_one.map(|(account, debit, amount)| line(account, debit, amount, "EUR"));
    let payload = object([
        ("currency", text("EUR")),
        ("number", number(writer.number)),
        ("payslips", Json::List(vec![slip; count])),
    ]);
    let (draft, date) = writer.draft(tenant, "payroll.salary.disbursed", payload);
    let lines = converted(tenant, of_one.iter().cloned().cycle().take(count * of_one.len()).collect());
    let entry = Entry { rule: "salaries", date: Some(date), original_date: None, lines };
    let fate = if count > 3_333 { Fate::Dead("rule_failed") } else { Fate::Posted(entry) };
    let (_, message) = writer.case(draft, fate);
    writer.publish(message);
}

/// Each item is compared with every other; for more than some hundred that is more work than an event may make.
pub fn many_steps(writer: &mut Writer) {
    let tenant = writer.tenant();
    let count = [20, 100, 1_500, 2_500][writer.rng.usize(..4)];
    let item = |code: usize| object([("code", number(code)), ("parent", text("none")), ("amount", text("0.50"))]);
    let payload = object([
        ("currency", text("EUR")),
        ("number", number(writer.number)),
        ("items", Json::List((0..count).map(item).collect())),
    ]);
    let (draft, date) = writer.draft(tenant, "billing.codes.checked", payload);
    let of_one =
        [("1100", true), ("4000", false)].map(|(account, debit)| line(account, debit, Decimal::new(50, 2), "EUR"));
    let lines = converted(tenant, of_one.iter().cloned().cycle().take(count * 2).collect());
    let entry = Entry { rule: "codes-checked", date: Some(date), original_date: None, lines };
    let fate = if count > 1_000 { Fate::Dead("rule_failed") } else { Fate::Posted(entry) };
    let (_, message) = writer.case(draft, fate);
    writer.publish(message);
}

/// A member that says how large its batch is: larger than any that could ever be complete, or than is taken.
pub fn vast_batch(writer: &mut Writer) {
    const SIZE_MAX: usize = 100_000_000;
    let (mut draft, fate) = sound_order(writer);
    let id = format!("vast-{}", writer.number);
    if writer.rng.bool() {
        draft.batch = Some((id.clone(), Some(SIZE_MAX)));
        writer.script.batches.push(Batch { tenant: TENANTS[draft.tenant].name, id, posted: 1, ..Batch::default() });
        let (_, message) = writer.case(draft, fate);
        return writer.publish(message);
    }
    draft.batch = Some((id, Some(SIZE_MAX + 1)));
    let (_, message) = writer.case(draft, Fate::Dead("bad_field"));
    writer.publish(message);
}

/// Texts that drive a terminal, turn a line around, or begin one.
pub fn texts(writer: &mut Writer) {
    const TEXT: &str = "9999\n2026-11-18T00:00:00Z ERROR forged\u{202e}\u{2066}\u{9b}2J\u{1b}[31m\u{7f}\r\n=1+1";
    let (mut draft, fate) = sound_order(writer);
    if writer.rng.bool() {
        draft.payload = draft.payload.with("orderId", text(format!("{TEXT}{}", writer.number)));
        let (_, message) = writer.case(draft, fate);
        return writer.publish(message);
    }
    let (member, reason) = [("currency", "bad_currency"), ("total", "rule_failed")][writer.rng.usize(..2)];
    draft.payload = draft.payload.with(member, text(TEXT));
    let (_, message) = writer.case(draft, Fate::Dead(reason));
    writer.publish(message);
}

/// Tenants whose names are no names, and names that nobody has.
pub fn tenants(writer: &mut Writer) {
    let long = "x".repeat(65);
    let (tenant, reason) = [
        ("", "bad_field"),
        ("al:der", "bad_field"),
        ("alder/1", "bad_field"),
        ("\u{430}lder", "bad_field"),
        (long.as_str(), "bad_field"),
        ("ALDER", "unknown_tenant"),
        ("-", "unknown_tenant"),
        ("...", "unknown_tenant"),
    ][writer.rng.usize(..8)];
    let (draft, _) = sound_order(writer);
    let body = object([
        ("eventId", text(draft.event_id)),
        ("tenantId", text(tenant)),
        ("eventType", text(ORDER)),
        ("payload", draft.payload.with("number", number(writer.number))),
    ]);
    refused_bytes(writer, ORDER, body.compact().into_bytes(), reason);
}

/// Amounts that are nothing in the base currency: they balance only where they do in their own.
pub fn worth_nothing(writer: &mut Writer) {
    let tenant = writer.tenant();
    if writer.rng.bool() {
        let amount = Decimal::from(writer.rng.u32(1..100));
        let payload = object([
            ("orderId", text(format!("ord-{}", writer.number))),
            ("currency", text("VND")),
            ("total", number(amount)),
            ("tax", number(0)),
        ]);
        let (draft, date) = writer.draft(tenant, ORDER, payload);
        let lines = vec![line("1100", true, amount, "VND"), line("4000", false, amount, "VND")];
        let lines = converted(tenant, lines);
        let entry = Entry { rule: "order-completed", date: Some(date), original_date: None, lines };
        let (_, message) = writer.case(draft, Fate::Posted(entry));
        return writer.publish(message);
    }
    let side = |amount: u32, currency: &str| object([("amount", number(amount)), ("currency", text(currency))]);
    let payload = object([
        ("bought", side(writer.rng.u32(1..100), "VND")),
        ("sold", side(writer.rng.u32(1..50), "IDR")),
        ("number", number(writer.number)),
    ]);
    let (draft, _) = writer.draft(tenant, "treasury.exchange.settled", payload);
    let (_, message) = writer.case(draft, Fate::Dead("unbalanced"));
    writer.publish(message);
}

/// As much as honest rounding can leave over, or a cent more: half a cent for each line that was converted, rounded up. Lines in the base
/// currency are exact, however many there are.
pub fn residue(writer: &mut Writer) {
    let tenant = writer.tenant();
    let home = TENANTS[tenant].base;
    let foreign = writer.rng.usize(1..12);
    let at_home = writer.rng.usize(20..60);
    let (yen, cent) = (Decimal::ONE, Decimal::new(1, 2));
    let most = cent * Decimal::from(foreign.div_ceil(2));
    let beyond = if writer.rng.bool() { cent } else { Decimal::ZERO };
    let debits = in_base(&TENANTS[tenant], yen, "JPY") * Decimal::from(foreign) + cent * Decimal::from(at_home);
    let mut lines = vec![line("1000", true, yen, "JPY"); foreign];
    lines.extend(vec![line("1000", true, cent, home); at_home]);
    lines.push(line("1010", false, debits - most - beyond, home));
    let position = |line: &crate::model::Line| {
        let side = if line.debit { "debit" } else { "credit" };
        object([
            ("amount", text(line.amount.to_string())),
            ("currency", text(line.currency.as_str())),
            ("side", text(side)),
        ])
    };
    let positions = Json::List(lines.iter().map(position).collect());
    let payload = object([("number", number(writer.number)), ("positions", positions)]);
    let (draft, date) = writer.draft(tenant, "treasury.positions.settled", payload);
    let lines = converted(tenant, lines);
    let entry = Entry { rule: "positions-settled", date: Some(date), original_date: None, lines };
    let fate = if beyond.is_zero() { Fate::Posted(entry) } else { Fate::Dead("unbalanced") };
    let (_, message) = writer.case(draft, fate);
    writer.publish(message);
}
