//! Books that are refused, and what one version changes against another, as tables: adding a case is adding a row.
//!
//! A `^` in a row's text stands right before the place that the mistake must name; it is taken out before the file is read.

use fis::desk::books::excerpt;
use fis::domain::books::{Act, Books, Mistake, Plan, Position};

const HEAD: &str = r#"tenant = "acme"
base_currency = "EUR"
"#;

const ACCOUNTS: &str = r#"
[[accounts]]
code = "1000"
type = "asset"
[[accounts]]
code = "4000"
type = "income"
"#;

const RULE: &str = r#"
[[rules]]
name = "r"
on = "a.b.c"
currency = "'EUR'"
lines = [{ debit = "1000", amount = "payload.a" }, { credit = "4000", amount = "payload.a" }]
"#;

/// The text with its `^` taken out, and where that was.
fn marked(text: &str) -> (String, Position) {
    let at = text.find('^').unwrap_or_else(|| panic!("no place is marked in {text}"));
    let (before, after) = (&text[..at], &text[at + 1..]);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (format!("{before}{after}"), Position { line, column })
}

/// The file has this one mistake, at the marked place.
#[track_caller]
fn told(text: &str, expected: &str) {
    let (text, position) = marked(text);
    let mistakes = Books::parse(&text, 1).expect_err(expected);
    let found: Vec<String> = mistakes.iter().map(|m| format!("{:?} {m}", m.position)).collect();
    let right = |mistake: &Mistake| mistake.position == Some(position) && mistake.to_string() == expected;
    assert!(mistakes.len() == 1 && right(&mistakes[0]), "{text}\nexpected {position:?} {expected}\nfound {found:#?}");
}

#[test]
fn a_mistake_in_the_settings_is_told_with_its_place() {
    for (text, expected) in [
        ("^base_currency = \"EUR\"", "`tenant` is missing"),
        ("tenant = ^\"a/b\"\nbase_currency = \"EUR\"", "tenant: contains the character '/', which is not allowed here"),
        (
            "tenant = \"a\"\nbase_currency = ^\"EURO\"",
            "base_currency: `EURO` is not an ISO 4217 currency, did you mean `EUR`?",
        ),
        ("tenant = \"a\"\nbase_currency = ^\"ZZZ\"", "base_currency: `ZZZ` is not an ISO 4217 currency"),
        ("tenant = \"a\"\nbase_currency = ^7", "`base_currency` must be a text in quotes, it is a number"),
    ] {
        told(text, expected);
    }
    for (text, expected) in [
        ("timezone = ^\"Europe/Berln\"", "timezone: `Europe/Berln` is not a time zone, did you mean `Europe/Berlin`?"),
        ("timezone = ^\"berlin\"", "timezone: `berlin` is not a time zone, did you mean `Europe/Berlin`?"),
        ("timezone = ^\"the moon\"", "timezone: `the moon` is not a time zone such as Europe/Berlin"),
        (
            "late_events = ^\"holt\"",
            "`late_events` is `holt`, it can be `reject`, `hold`, `next_open`, did you mean `hold`?",
        ),
        ("  ^unmached = \"reject\"", "unknown key `unmached`, did you mean `unmatched`?"),
        ("rounding_account = ^\"1001\"", "rounding_account: unknown account `1001`, did you mean `1000`?"),
        ("name = \"x\"\n^name = \"y\"", "duplicate key"),
        ("x = 1^,19", "unexpected key or value, expected newline, `#`; decimals have a point: 1.19"),
        ("rules = ^\"none\"", "`rules` must be a list, written as `[[rules]]`, it is a text"),
    ] {
        told(&format!("{HEAD}{text}\n{ACCOUNTS}"), expected);
    }
}

#[test]
fn a_mistake_in_an_account_a_period_or_a_rate_is_told_with_its_place() {
    let period = "[[periods]]\nname = \"2026\"\nstarts = 2026-01-01\nends = 2026-12-31\nstatus = \"open\"\n";
    let rate = "[[rates]]\nfrom = \"USD\"\nto = \"EUR\"\ndate = 2026-01-01\nrate = \"0.92\"\n";
    for (text, expected) in [
        ("^[[accounts]]\ntype = \"asset\"".to_owned(), "account 3: `code` is missing"),
        ("^[[accounts]]\ncode = \"x\"".to_owned(), "account `x`: `type` is missing"),
        (
            "[[accounts]]\ncode = ^\"1000\"\ntype = \"asset\"".to_owned(),
            "account `1000`: appears twice, first on line 5",
        ),
        (
            "[[accounts]]\ncode = \"x\"\ntype = \"asset\"\nclosed = ^\"yes\"".to_owned(),
            "account `x`: `closed` must be true or false, it is a text",
        ),
        (
            "[[accounts]]\ncode = \"x\"\ntype = ^\"assets\"".to_owned(),
            "account `x`: `type` is `assets`, it can be `asset`, `liability`, `equity`, `income`, `expense`, did you mean `asset`?",
        ),
        (
            "[[accounts]]\ncode = \"x\"\ntype = ^\"Revenue\"".to_owned(),
            "account `x`: `type` is `Revenue`, it can be `asset`, `liability`, `equity`, `income`, `expense`, did you mean `income`?",
        ),
        (
            "[[accounts]]\ncode = \"x\"\ntype = \"asset\"\n^colour = \"red\"".to_owned(),
            "account `x`: unknown key `colour`; there are `code`, `name`, `type`, `currency`, `closed`",
        ),
        (
            period.replace("starts = 2026-01-01", "starts = ^2026-01-01T10:00:00"),
            "period `2026`: `starts`: `2026-01-01T10:00:00` is not a date such as 2026-02-01",
        ),
        (
            period.replace("ends = 2026-12-31", "ends = ^2025-12-31"),
            "period `2026`: ends before it starts, which is on 2026-01-01",
        ),
        (
            format!(
                "{period}{}",
                period.replace("\"2026\"", "\"b\"").replace("starts = 2026-01-01", "starts = ^2026-12-31")
            ),
            "period `b`: overlaps period `2026`, which is from 2026-01-01 to 2026-12-31",
        ),
        (
            rate.replace("\"0.92\"", "^0.92"),
            "rate USD to EUR of 2026-01-01: `rate` must be a text in quotes, it is a number",
        ),
        (
            rate.replace("\"0.92\"", "^\"0\""),
            "rate USD to EUR of 2026-01-01: `0` is not a positive rate of at most 12 digits between two currencies",
        ),
        (
            rate.replace("\"0.92\"", "^\"0,92\""),
            "rate USD to EUR of 2026-01-01: `0,92` is not a positive rate of at most 12 digits between two currencies; decimals have a point, as in 0.9200",
        ),
        (format!("{rate}^{rate}"), "rate USD to EUR of 2026-01-01: appears twice, first on line 10"),
    ] {
        told(&format!("{HEAD}{ACCOUNTS}{text}\n"), expected);
    }
}

#[test]
fn a_mistake_in_an_expression_is_told_where_it_stands_in_the_text() {
    for (old, new, expected) in [
        (
            "\"payload.a\" }, {",
            "\"payload.ä + ^paylod.b\" }, {",
            "rule `r`, line 1: `amount = \"payload.ä + paylod.b\"`: unknown name `paylod`, did you mean `payload`?",
        ),
        ("\"4000\"", "^\"4001\"", "rule `r`, line 2: unknown account `4001`, did you mean `4000`?"),
        (
            "{ credit = \"4000\"",
            "^{ credit = \"4000\", debit = \"1000\"",
            "rule `r`, line 2: needs exactly one of `debit` and `credit`",
        ),
        (
            "{ credit = \"4000\"",
            "{ ^credti = \"4000\", debit = \"1000\"",
            "rule `r`, line 2: unknown key `credti`, did you mean `credit`?",
        ),
        (
            "\"'EUR'\"",
            "\"^EUR\"",
            "rule `r`: `currency = \"EUR\"`: unknown name `EUR`; a literal is written `\"'EUR'\"`, a member of the event is `payload.EUR`",
        ),
        (
            "\"payload.a\" }, {",
            "\"payload.a * 1^,19\" }, {",
            "rule `r`, line 1: `amount = \"payload.a * 1,19\"`: a number has a point before its decimals and no comma: write it as 1234.50",
        ),
        ("\"'EUR'\"", "^\"'EURO'\"", "rule `r`: `EURO` is not an ISO 4217 currency, did you mean `EUR`?"),
        (
            "currency",
            "when = '''\npayload.a ==\n^item.x'''\ncurrency",
            "rule `r`: `when = \"payload.a == item.x\"`: unknown name `item`; only the lines of a rule with `each` have it",
        ),
        (
            "currency",
            "when = ^\"payload.\\u0061 > paylod\"\ncurrency",
            "rule `r`: `when = \"payload.a > paylod\"`: unknown name `paylod`, did you mean `payload`? (at character 13)",
        ),
        (
            "currency",
            "description = \"a {payload.a} ^{b\"\ncurrency",
            "rule `r`: `description = \"a {payload.a} {b\"`: this `{` has no `}`; write `{{` for a brace in the text",
        ),
        (
            "currency",
            "retry = { ^max_retry = 3 }\ncurrency",
            "rule `r`, retry: unknown key `max_retry`; there are `max_retries`, `base_delay_seconds`, `backoff_multiplier`, `max_delay_seconds`, `jitter_seconds`",
        ),
        (
            "currency",
            "retry = { max_retries = ^\"three\" }\ncurrency",
            "rule `r`, retry: takes whole numbers, and for `backoff_multiplier` any number",
        ),
        (
            "[[rules]]",
            "^[[rules]]\nname = \"q\"\non = \"a\"\n[[rules]]",
            "rule `q`: needs exactly one of `lines`, `reverses` and `ignore = true`",
        ),
        (
            "currency = \"'EUR'\"",
            "ignore = ^1\ncurrency = \"'EUR'\"",
            "rule `r`: `ignore` must be true or false, it is a number",
        ),
    ] {
        told(&format!("{HEAD}{ACCOUNTS}{}", RULE.replacen(old, new, 1)), expected);
    }
}

#[test]
fn a_thing_of_the_wrong_kind_is_one_mistake_and_not_two() {
    let whole = format!("{HEAD}{ACCOUNTS}{RULE}");
    for (old, new, expected) in [
        ("code = \"1000\"", "code = ^1000", "account 1: `code` must be a text in quotes, it is a number"),
        ("debit = \"1000\"", "debit = ^1000", "rule `r`, line 1: `debit` must be a text in quotes, it is a number"),
        ("\"'EUR'\"", "^978", "rule `r`: `currency` must be a text in quotes, it is a number"),
        ("lines = [", "ignore = ^\"yes\" #", "rule `r`: `ignore` must be true or false, it is a text"),
        ("lines = [", "reverses = ^7 #", "rule `r`: `reverses` must be a text in quotes, it is a number"),
        ("lines = [", "lines = ^{} #", "rule `r`: `lines` must be a list, written as `[[lines]]`, it is a table"),
    ] {
        assert!(whole.contains(old), "{old}");
        told(&whole.replacen(old, new, 1), expected);
    }
    // An account whose code cannot stand in a ledger is not unknown to the rules.
    let odd = whole.replace("code = \"1000\"", "code = \"10 00\"").replace("debit = \"1000\"", "debit = \"10 00\"");
    assert_eq!(Books::parse(&odd, 1).unwrap_err().len(), 1);
}

#[test]
fn the_line_of_a_mistake_is_shown_with_a_caret_under_its_place() {
    for (text, line, column, expected) in [
        ("a\nb = \"EUR\"\r\nc", 2, 6, "  2 | b = \"EUR\"\n    |      ^"),
        ("\tä = x", 1, 6, "  1 |  ä = x\n    |      ^"),
        ("a = \u{202e}x\u{1b}[2J", 1, 6, "  1 | a =  x [2J\n    |      ^"),
        ("a", 1, 2, "  1 | a\n    |  ^"),
    ] {
        assert_eq!(excerpt(text, Position { line, column }).as_deref(), Some(expected), "{text}");
    }
    let long = format!("{}!{}", "x".repeat(500), "y".repeat(500));
    let shown = excerpt(&long, Position { line: 1, column: 501 }).unwrap();
    let (line, caret) = shown.split_once('\n').unwrap();
    assert!(line.chars().count() <= 80, "{shown}");
    assert!(line.starts_with("  1 | …xx") && line.ends_with("yy…"), "{shown}");
    let column = |text: &str, wanted: char| text.chars().position(|c| c == wanted);
    assert_eq!(column(line, '!'), column(caret, '^'), "{shown}");
    assert_eq!(excerpt("a", Position { line: 2, column: 1 }), None);
}

#[test]
fn every_mistake_is_told_at_once_in_the_order_of_the_file() {
    let text = format!("{HEAD}{ACCOUNTS}{RULE}")
        .replace("\"EUR\"\n", "\"EURO\"\nunmached = 1\n")
        .replace("\"asset\"", "\"asst\"")
        .replace("\"4000\", amount", "\"4001\", amount")
        .replace("\"a.b.c\"", "5");
    let mistakes = Books::parse(&text, 1).unwrap_err();
    let lines: Vec<usize> = mistakes.iter().map(|mistake| mistake.position.unwrap().line).collect();
    assert_eq!(lines, [2, 3, 7, 14, 16], "{mistakes:#?}");
    let syntax = Books::parse("tenant = \nname = x y\n[[rules]\n", 1).unwrap_err();
    assert!(syntax.len() >= 3, "{syntax:#?}");
}

/// Names and acts of what `after` changes.
fn changes(before: &str, after: &str) -> Vec<String> {
    let books = |text: &str| Books::parse(text, 1).unwrap_or_else(|mistakes| panic!("{text}\n{mistakes:#?}"));
    let plan = Plan::between(Some(&books(before)), &books(after));
    plan.changes
        .iter()
        .map(|change| {
            let side = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
            let fields = change.details.iter().map(|d| format!("{} {}>{}", d.field, side(&d.old), side(&d.new)));
            let fields = if change.act == Act::Changed { fields.collect::<Vec<_>>().join(" ") } else { String::new() };
            format!("{:?} {:?} {} {fields}", change.act, change.thing, change.name).trim_end().to_owned()
        })
        .collect()
}

#[test]
fn a_plan_tells_each_difference_in_meaning_and_no_other() {
    let other = RULE.replace("\"r\"", "\"q\"");
    let third = RULE.replace("\"r\"", "\"s\"");
    let periods = "[[periods]]\nname = \"2026\"\nstarts = 2026-01-01\nends = 2026-12-31\nstatus = \"open\"\n";
    let rates = "[[rates]]\nfrom = \"USD\"\nto = \"EUR\"\ndate = 2026-01-01\nrate = \"0.9200\"\n";
    let base = format!("{HEAD}{ACCOUNTS}{periods}{rates}{RULE}{other}{third}");
    let account = "[[accounts]]\ncode = \"1000\"\ntype = \"asset\"\n";
    for (after, expected) in [
        (base.clone(), &[][..]),
        (format!("# a comment\n{}", base.replace(" = ", "   =  ")), &[]),
        (format!("{}{account}", base.replace(account, "")), &[]),
        (base.replace("\"0.9200\"", "\"0.92\""), &[]),
        (base.replace("base_currency", "timezone = \"UTC\"\nbase_currency"), &[]),
        (base.replace("base_currency", "name = \"Acme\"\nbase_currency"), &["Changed Settings  name >Acme"]),
        (format!("{base}{}", account.replace("1000", "1001")), &["Added Account 1001"]),
        (base.replace("type = \"income\"", "type = \"income\"\nclosed = true"), &["Closed Account 4000"]),
        (
            base.replace("type = \"income\"", "type = \"income\"\ncurrency = \"EUR\""),
            &["Changed Account 4000 currency ->EUR"],
        ),
        (base.replace("\"open\"", "\"closed\""), &["Closed Period 2026"]),
        (base.replace(rates, ""), &["Removed Rate USD to EUR of 2026-01-01"]),
        (base.replace("\"0.9200\"", "\"0.93\""), &["Changed Rate USD to EUR of 2026-01-01 rate 0.92>0.93"]),
        (base.replace(&other, ""), &["Removed Rule q"]),
        (base.replace(&other, &other.replace("a.b.c", "a.#")), &["Changed Rule q on a.b.c>a.#"]),
        (
            base.replace(
                &third,
                &third.replace(
                    "{ debit = \"1000\", amount = \"payload.a\" }",
                    "{ debit = \"1000\", amount = \"payload.b\" }",
                ),
            ),
            &["Changed Rule s line 1 debit 1000, amount payload.a>debit 1000, amount payload.b"],
        ),
        (format!("{HEAD}{ACCOUNTS}{periods}{rates}{third}{RULE}{other}"), &["Changed Rule s position 3>1"]),
        (
            base.replace(&third, &third.replace("on =", "retry = { max_retries = 5 }\non =")),
            &[
                "Changed Rule s retry.max_retries ->5 retry.base_delay_seconds ->60 retry.backoff_multiplier ->2 retry.max_delay_seconds ->3600 retry.jitter_seconds ->10",
            ],
        ),
    ] {
        assert_eq!(changes(&base, &after), expected, "{after}");
    }
    assert_eq!(changes(&base.replace("\"open\"", "\"closed\""), &base), ["Reopened Period 2026"]);
}
