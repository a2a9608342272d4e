//! Random books and random events through the real mapping and through a reference that is small enough to be obviously
//! right: whole numbers and maps, no decimals, no expressions, no TOML. They must agree on every line, every balance and every
//! refusal; where several refusals are right, the mapping may choose, but never one that waits over one that is final.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use chrono::{Days, NaiveDate};
use fis::domain::books::{Books, Mapped};
use fis::domain::disposition::{Failure, Reason};
use fis::domain::entry::{BalancedEntry, Line, Side};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rust_decimal::Decimal;

use crate::table::{event, instant};

/// With their minor units. The last is no currency of a ledger.
const CURRENCIES: [(&str, u32); 5] = [("EUR", 2), ("USD", 2), ("JPY", 0), ("KWD", 3), ("XXX", 9)];
const ACCOUNTS: usize = 6;
const TYPES: usize = 2;

// --- what is random -----------------------------------------------------------------------------------------------

#[derive(Debug, Clone)]
struct World {
    /// Which accounts are closed, and which take one currency only.
    accounts: Vec<(bool, Option<usize>)>,
    rounding: bool,
    late: &'static str,
    rates: Vec<Rate>,
    rules: Vec<Rule>,
}

/// One currency in euro, or a euro in it, from a day of February on.
#[derive(Debug, Clone)]
struct Rate {
    currency: usize,
    inverse: bool,
    day: u32,
    mantissa: i128,
    scale: u32,
}

#[derive(Debug, Clone)]
struct Rule {
    event_type: usize,
    guarded: bool,
    each: bool,
    lines: Vec<LineRule>,
}

#[derive(Debug, Clone)]
struct LineRule {
    debit: bool,
    account: usize,
    sum: &'static str,
    currency: Option<usize>,
    guarded: bool,
}

#[derive(Debug, Clone)]
struct Event {
    event_type: usize,
    guard: bool,
    currency: usize,
    /// Pairs of numbers, in thousandths.
    items: Vec<(i128, i128)>,
    as_text: bool,
    /// Days after the 25th of January; February alone is open.
    day: u64,
}

fn currency() -> impl Strategy<Value = usize> {
    prop_oneof![12 => Just(0), 8 => Just(1), 2 => Just(2), 4 => Just(3), 1 => Just(4)]
}

fn worlds() -> impl Strategy<Value = World> {
    let account = (prop::bool::weighted(0.03), prop::option::weighted(0.05, 0..2usize));
    // Now and then one to one, or so little that a few coins are worth nothing.
    let rate = prop_oneof![3 => (1..200_000i128, 0..=4u32), 1 => Just((1, 0)), 1 => Just((1, 4))];
    let rate = (1..4usize, any::<bool>(), 1..=28u32, rate)
        .prop_map(|(currency, inverse, day, (mantissa, scale))| Rate { currency, inverse, day, mantissa, scale });
    let rates = prop::collection::vec(rate, 0..10);
    let late = prop_oneof![Just("reject"), Just("hold"), Just("next_open")];
    let rules = prop::collection::vec(rules(), 2..6);
    (prop::collection::vec(account, ACCOUNTS), any::<bool>(), late, rates, rules).prop_map(
        |(accounts, rounding, late, mut rates, rules)| {
            // Two rates of one pair on one day are a mistake.
            let mut seen = std::collections::HashSet::new();
            rates.retain(|rate: &Rate| seen.insert((rate.currency, rate.inverse, rate.day)));
            World { accounts, rounding, late, rates, rules }
        },
    )
}

fn rules() -> impl Strategy<Value = Rule> {
    let line_in = |foreign: f64, debit: bool, sum: &'static str| {
        let account = prop_oneof![40 => 0..ACCOUNTS, 1 => Just(ACCOUNTS)];
        let currency = prop::option::weighted(foreign, 0..2usize);
        (account, currency, prop::bool::weighted(0.05)).prop_map(move |(account, currency, guarded)| LineRule {
            debit,
            account,
            sum,
            currency,
            guarded,
        })
    };
    let line = |debit, sum| line_in(0.08, debit, sum);
    // Most rules balance whatever the numbers are; some do not, and an exchange does where the numbers are near.
    let lines = prop_oneof![
        3 => (line(true, "a"), line(false, "a")).prop_map(|(a, b)| vec![a, b]),
        3 => (line(true, "a + b"), line(false, "a"), line(false, "b")).prop_map(|(a, b, c)| vec![a, b, c]),
        2 => (line(false, "a"), line(true, "a - b"), line(true, "b")).prop_map(|(a, b, c)| vec![a, b, c]),
        3 => (line_in(0.5, true, "a"), line_in(0.5, false, "b")).prop_map(|(a, b)| vec![a, b]),
        1 => (line(true, "a"), line(false, "b")).prop_map(|(a, b)| vec![a, b]),
    ];
    (0..TYPES, prop::bool::weighted(0.3), any::<bool>(), lines).prop_map(|(event_type, guarded, each, lines)| Rule {
        event_type,
        guarded,
        each,
        lines,
    })
}

fn events() -> impl Strategy<Value = Event> {
    // Whole numbers, cents, a few cents, and now and then thousandths.
    let number = prop_oneof![
        8 => (1..8i128).prop_map(|n| n * 10),
        6 => (1..10_000i128).prop_map(|n| n * 1000),
        8 => (1..1_000_000i128).prop_map(|n| n * 10),
        1 => -5..5_000i128,
    ];
    let items = prop_oneof![1 => Just(0..1), 12 => Just(1..4)]
        .prop_flat_map(move |n| prop::collection::vec((number.clone(), number.clone()), n));
    (0..TYPES, any::<bool>(), currency(), items, any::<bool>(), 0..40u64).prop_map(
        |(event_type, guard, currency, items, as_text, day)| Event { event_type, guard, currency, items, as_text, day },
    )
}

// --- written down for the program ---------------------------------------------------------------------------------

fn books(world: &World) -> Books {
    let mut text = format!(
        "tenant = \"acme\"\nbase_currency = \"EUR\"\nlate_events = \"{}\"\n{}",
        world.late,
        if world.rounding { "rounding_account = \"rounding\"\n" } else { "" }
    );
    text.push_str("[[accounts]]\ncode = \"rounding\"\ntype = \"expense\"\n");
    for (number, (closed, only)) in world.accounts.iter().enumerate() {
        let only = only.map_or(String::new(), |only| format!("currency = \"{}\"\n", CURRENCIES[only].0));
        let _ = write!(text, "[[accounts]]\ncode = \"a{number}\"\ntype = \"asset\"\nclosed = {closed}\n{only}");
    }
    for (month, days, status) in [("01", 31, "closed"), ("02", 28, "open")] {
        let dates = format!("starts = 2026-{month}-01\nends = 2026-{month}-{days}");
        let _ = write!(text, "[[periods]]\nname = \"{month}\"\n{dates}\nstatus = \"{status}\"\n");
    }
    for rate in &world.rates {
        let other = CURRENCIES[rate.currency].0;
        let (from, to) = if rate.inverse { ("EUR", other) } else { (other, "EUR") };
        let number = Decimal::from_i128_with_scale(rate.mantissa, rate.scale);
        let date = format!("2026-02-{:02}", rate.day);
        let _ = write!(text, "[[rates]]\nfrom = \"{from}\"\nto = \"{to}\"\ndate = {date}\nrate = \"{number}\"\n");
    }
    for (number, rule) in world.rules.iter().enumerate() {
        let _ = write!(text, "[[rules]]\nname = \"r{number}\"\non = \"t.{}.x\"\n", rule.event_type);
        text.push_str("currency = \"payload.currency\"\n");
        text.push_str(if rule.guarded { "when = \"payload.guard\"\n" } else { "" });
        text.push_str(if rule.each { "each = \"payload.items\"\n" } else { "" });
        let lines: Vec<String> = rule.lines.iter().map(|line| line_text(line, rule.each)).collect();
        let _ = writeln!(text, "lines = [{}]", lines.join(", "));
    }
    Books::parse(&text, 1).unwrap_or_else(|mistakes| panic!("{mistakes:#?}\n{text}"))
}

fn line_text(line: &LineRule, each: bool) -> String {
    let scope = if each { "item" } else { "payload.items[0]" };
    let amount: Vec<String> = line
        .sum
        .split(' ')
        .map(|w| if w.len() == 1 && w >= "a" { format!("{scope}.{w}") } else { w.to_owned() })
        .collect();
    let currency = line.currency.map_or(String::new(), |c| format!(", currency = \"'{}'\"", CURRENCIES[c].0));
    let when = if line.guarded { format!(", when = \"{scope}.a > {scope}.b\"") } else { String::new() };
    let side = if line.debit { "debit" } else { "credit" };
    // A template, so that an unknown account is found when the event comes and not when the books do.
    format!("{{ {side} = \"{{payload.prefix}}{}\", amount = \"{}\"{currency}{when} }}", line.account, amount.join(" "))
}

fn body(event: &Event) -> String {
    let number = |thousandths: i128| {
        let text = Decimal::from_i128_with_scale(thousandths, 3).normalize().to_string();
        if event.as_text { format!("\"{text}\"") } else { text }
    };
    let items: Vec<String> =
        event.items.iter().map(|(a, b)| format!("{{\"a\":{},\"b\":{}}}", number(*a), number(*b))).collect();
    format!(
        "{{\"eventId\":\"e\",\"tenantId\":\"acme\",\"eventType\":\"t.{}.x\",\"occurredAt\":\"{}T12:00:00Z\",\"payload\":{{\"prefix\":\"a\",\"guard\":{},\"currency\":\"{}\",\"items\":[{}]}}}}",
        event.event_type,
        date(event.day),
        event.guard,
        CURRENCIES[event.currency].0,
        items.join(",")
    )
}

fn date(day: u64) -> NaiveDate {
    NaiveDate::from_ymd_opt(2026, 1, 25).unwrap() + Days::new(day)
}

// --- the reference --------------------------------------------------------------------------------------------------

/// Account, debit, thousandths, currency, cents in euro.
type Posting = (String, bool, i128, usize, i128);

/// The lines, or every refusal that would be right.
fn reference(world: &World, event: &Event) -> Result<Vec<Posting>, BTreeSet<Reason>> {
    let one = |reason| Err(BTreeSet::from([reason]));
    let meant = |rule: &&Rule| rule.event_type == event.event_type && (!rule.guarded || event.guard);
    let Some(rule) = world.rules.iter().find(meant) else { return one(Reason::RuleNotFound) };
    let items = if rule.each { &event.items[..] } else { &event.items[..event.items.len().min(1)] };
    if items.is_empty() {
        return one(if rule.each { Reason::Unbalanced } else { Reason::RuleFailed });
    }
    let mut lines: Vec<Posting> = Vec::new();
    for (a, b) in items {
        for line in rule.lines.iter().filter(|line| !line.guarded || a > b) {
            let amount = match line.sum {
                "a" => *a,
                "b" => *b,
                "a + b" => a + b,
                _ => a - b,
            };
            let currency = line.currency.unwrap_or(event.currency);
            lines.push((format!("a{}", line.account), line.debit, amount, currency, 0));
        }
    }
    let finals = final_refusals(world, &lines);
    if !finals.is_empty() {
        return Err(finals);
    }
    let day = match (date(event.day) < date(7), date(event.day) > date(34), world.late) {
        (false, false, _) => date(event.day),
        (true, _, "next_open") => date(7),
        (_, _, "reject") => return one(Reason::PeriodClosed),
        (_, _, _) => return one(Reason::PeriodNotOpen),
    };
    for line in &mut lines {
        let Some(cents) = in_euro(&world.rates, line.2, line.3, day) else { return one(Reason::FxRateMissing) };
        line.4 = cents;
    }
    if lines.iter().all(|line| line.4 == 0) && !balances_in_each_currency(&lines) {
        return one(Reason::Unbalanced);
    }
    let residue = balance(&lines, |line| line.4);
    if residue != 0 {
        if residue.abs() > most_residue(&lines) || !world.rounding {
            return one(Reason::Unbalanced);
        }
        lines.push(("rounding".to_owned(), residue < 0, residue.abs() * 10, 0, residue.abs()));
    }
    Ok(lines)
}

fn final_refusals(world: &World, lines: &[Posting]) -> BTreeSet<Reason> {
    let mut refusals = BTreeSet::new();
    for (account, _, amount, currency, _) in lines {
        match world.accounts.get(account[1..].parse::<usize>().unwrap()) {
            None => _ = refusals.insert(Reason::UnknownAccount),
            Some((true, _)) => _ = refusals.insert(Reason::AccountClosed),
            Some((false, Some(only))) if only != currency => _ = refusals.insert(Reason::BadCurrency),
            Some(_) => {}
        }
        let (code, minor_units) = CURRENCIES[*currency];
        if code == "XXX" {
            refusals.insert(Reason::BadCurrency);
        } else if *amount <= 0 || amount % 10i128.pow(3 - minor_units) != 0 {
            refusals.insert(Reason::BadAmount);
        }
    }
    let currencies: BTreeSet<usize> = lines.iter().map(|line| line.3).collect();
    if lines.len() < 2 || (currencies.len() == 1 && balance(lines, |line| line.2) != 0) {
        refusals.insert(Reason::Unbalanced);
    }
    refusals
}

/// Debits less credits.
fn balance(lines: &[Posting], value: impl Fn(&Posting) -> i128) -> i128 {
    lines.iter().map(|line| if line.1 { value(line) } else { -value(line) }).sum()
}

fn balances_in_each_currency(lines: &[Posting]) -> bool {
    let in_currency = |currency: usize| balance(lines, |line| if line.3 == currency { line.2 } else { 0 });
    (0..CURRENCIES.len()).all(|currency| in_currency(currency) == 0)
}

/// Cents: half a cent for each line that is not in euro, rounded up.
fn most_residue(lines: &[Posting]) -> i128 {
    let converted = lines.iter().filter(|line| line.3 != 0).count();
    i128::try_from(converted.div_ceil(2)).unwrap()
}

/// Cents of an amount in thousandths: the newest rate of the day or before it; of two on one day, the direct one.
fn in_euro(rates: &[Rate], amount: i128, currency: usize, day: NaiveDate) -> Option<i128> {
    if currency == 0 {
        return Some(amount / 10);
    }
    let known = |rate: &&Rate| rate.currency == currency && NaiveDate::from_ymd_opt(2026, 2, rate.day).unwrap() <= day;
    // The first of a day in the file counts, so it must come last here.
    let rate = rates.iter().rev().filter(known).max_by_key(|rate| (rate.day, !rate.inverse))?;
    let power = 10i128.pow(rate.scale);
    Some(if rate.inverse {
        half_even(amount * power, 10 * rate.mantissa)
    } else {
        half_even(amount * rate.mantissa, 10 * power)
    })
}

fn half_even(numerator: i128, denominator: i128) -> i128 {
    let (down, rest) = (numerator / denominator, numerator % denominator);
    match (2 * rest).cmp(&denominator) {
        std::cmp::Ordering::Less => down,
        std::cmp::Ordering::Greater => down + 1,
        std::cmp::Ordering::Equal => down + down % 2,
    }
}

// --- they agree -------------------------------------------------------------------------------------------------------

fn whole(value: Decimal, decimals: u32) -> i128 {
    value.mantissa() * 10i128.pow(decimals - value.scale())
}

fn posting(line: &Line) -> Posting {
    let currency = CURRENCIES.iter().position(|(code, _)| *code == line.currency.code()).unwrap();
    let debit = line.side == Side::Debit;
    (line.account.to_string(), debit, whole(line.amount, 3), currency, whole(line.base_amount, 2))
}

fn mapped(books: &Books, event_body: &str) -> Result<BalancedEntry, Failure> {
    match books.map(&event(event_body)?, instant("2026-02-26T09:00:00Z"))? {
        Mapped::Entry { entry, .. } => Ok(entry),
        other => panic!("no rule here makes {other:?}"),
    }
}

fn is_rounded(entry: &BalancedEntry) -> bool {
    entry.lines().iter().any(|line| line.account.as_str() == "rounding")
}

type Balances = BTreeMap<(String, usize), (i128, i128)>;

fn book(balances: &mut Balances, line: &Posting) {
    let balance = balances.entry((line.0.clone(), line.3)).or_default();
    let side = if line.1 { &mut balance.0 } else { &mut balance.1 };
    *side += line.2;
}

fn agree(world: &World, events: &[Event], seen: &dyn Fn(Result<bool, Reason>)) -> Result<(), TestCaseError> {
    let books = books(world);
    let (mut real, mut expected) = (Balances::new(), Balances::new());
    let mut in_base = (0, 0);
    for event in events {
        let body = body(event);
        let (made, right) = (mapped(&books, &body), reference(world, event));
        seen(made.as_ref().map(is_rounded).map_err(|failure| failure.reason));
        match (made, right) {
            (Ok(entry), Ok(lines)) => {
                let postings: Vec<Posting> = entry.lines().iter().map(posting).collect();
                prop_assert_eq!(&postings, &lines, "{}", body);
                prop_assert_eq!(balance(&postings, |line| line.4), 0, "{}", body);
                residue_is_bounded(&postings)?;
                reversal_is_a_mirror(&entry, &books)?;
                postings.iter().for_each(|line| book(&mut real, line));
                lines.iter().for_each(|line| book(&mut expected, line));
                for line in &postings {
                    *(if line.1 { &mut in_base.0 } else { &mut in_base.1 }) += line.4;
                }
            }
            (Err(failure), Err(reasons)) => {
                prop_assert!(reasons.contains(&failure.reason), "{failure}: {reasons:?} {body}");
            }
            (Ok(entry), Err(reasons)) => prop_assert!(false, "posted {entry:?}, though {reasons:?} {body}"),
            (Err(failure), Ok(lines)) => prop_assert!(false, "{failure}, though {lines:?} {body}"),
        }
    }
    prop_assert_eq!(real, expected);
    prop_assert_eq!(in_base.0, in_base.1, "the trial balance in base currency");
    Ok(())
}

fn residue_is_bounded(lines: &[Posting]) -> Result<(), TestCaseError> {
    let Some((rounding, others)) = lines.split_last().filter(|(last, _)| last.0 == "rounding") else { return Ok(()) };
    prop_assert!(rounding.4 <= most_residue(others), "more than half a cent per converted line: {lines:?}");
    Ok(())
}

fn reversal_is_a_mirror(entry: &BalancedEntry, books: &Books) -> Result<(), TestCaseError> {
    let reverse =
        |lines: &[Line]| BalancedEntry::reversal(lines, entry.accounting_date(), None, String::new(), books).unwrap();
    let mirror = reverse(entry.lines());
    for (line, other) in entry.lines().iter().zip(mirror.lines()) {
        prop_assert_eq!(other, &Line { side: line.side.opposite(), ..line.clone() });
    }
    let twice = reverse(mirror.lines());
    prop_assert_eq!(twice.lines(), entry.lines());
    Ok(())
}

#[test]
fn random_books_and_events_map_as_the_reference_says() {
    let (posted, rounded) = (Cell::new(0usize), Cell::new(0usize));
    let reasons = RefCell::new(BTreeSet::new());
    let seen = |outcome: Result<bool, Reason>| match outcome {
        Ok(is_rounded) => {
            posted.set(posted.get() + 1);
            rounded.set(rounded.get() + usize::from(is_rounded));
        }
        Err(reason) => _ = reasons.borrow_mut().insert(reason),
    };
    // A failure prints the smallest books and events that show it; there is nothing to keep in a file.
    let config = Config { cases: 400, failure_persistence: None, ..Config::default() };
    let inputs = (worlds(), prop::collection::vec(events(), 1..20));
    let result = TestRunner::new(config).run(&inputs, |(world, events)| agree(&world, &events, &seen));
    if let Err(error) = result {
        panic!("{error}");
    }
    // The test means something only if every road was taken.
    assert!(posted.get() > 200, "only {} events were posted", posted.get());
    assert!(rounded.get() > 0, "no residue was booked");
    for reason in [
        Reason::RuleNotFound,
        Reason::RuleFailed,
        Reason::Unbalanced,
        Reason::BadAmount,
        Reason::UnknownAccount,
        Reason::AccountClosed,
        Reason::BadCurrency,
        Reason::PeriodClosed,
        Reason::PeriodNotOpen,
        Reason::FxRateMissing,
    ] {
        assert!(reasons.borrow().contains(&reason), "{reason} never came up");
    }
}
