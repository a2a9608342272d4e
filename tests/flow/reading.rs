//! The ledger as people and other programs read it: `fis journal`, `fis trial-balance`, `fis export`. Beancount and hledger
//! themselves judge the files, where they are there or can be installed.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::support::events::{Expect, Message, books, cancellation, envelope, order, order_of};
use crate::support::world::{Setup, World};

/// Currencies without and with three decimals, one worth less than a cent, codes that are no names elsewhere.
const MORE_BOOKS: &str = r#"
[[accounts]]
code = "bank.us"
name = "Bank; \"US\", | branch"
type = "asset"

[[accounts]]
code = "bank_us"
name = "Bank, old"
type = "asset"

[[accounts]]
code = "capital:paid-in"
type = "equity"

[[rates]]
from = "JPY"
to = "EUR"
date = 2026-01-01
rate = "0.0062"

[[rates]]
from = "KWD"
to = "EUR"
date = 2026-01-01
rate = "3.0123"

[[rates]]
from = "IDR"
to = "EUR"
date = 2026-01-01
rate = "0.00006"

[[rules]]
name = "exchange"
on = "treasury.currency.bought"
currency = "payload.currency"
description = "Exchange"
lines = [
  { debit  = "bank.us", amount = "payload.bought" },
  { credit = "1000", amount = "payload.sold", currency = "'EUR'" },
]

[[rules]]
name = "capital"
on = "treasury.capital.paid"
currency = "'EUR'"
description = "{payload.text}"
lines = [
  { debit  = "bank_us", amount = "payload.amount" },
  { credit = "capital:paid-in", amount = "payload.amount" },
]
"#;

/// Descriptions that other formats might take for something else.
const ODD: [&str; 9] = [
    "plain; semicolon | bar * star ! mark",
    "  (code) \"quoted\" \\ back\\nslash",
    "two\nlines\r\nand\ttab",
    "=1+1,\"x\"",
    "\u{1b}[31mred \u{202e}back \u{2028} \u{7f}",
    "Ünïcödé 勘定 🏦",
    "2026-01-01 open Assets:Fake ; date:2020-01-01 [2020-01-01]",
    "",
    "{braces} \\\" #tag ^link @@ 1 EUR",
];

fn dated(mut message: Message, day: &str) -> Message {
    let mut body = message.value();
    body["occurredAt"] = json!(format!("{day}T10:00:00Z"));
    message.body = body.to_string().into_bytes();
    message
}

fn event(id: &str, event_type: &str, payload: Value) -> Message {
    Message::json(event_type, &envelope("acme", id, event_type, payload)).expect(Expect::Posted)
}

async fn world_with_a_mixed_ledger(name: &str) -> World {
    let world = World::with(name, Setup { tenants: &["globex"], ..Setup::default() }).await;
    world.apply_books(&(books("acme") + MORE_BOOKS)).await;
    let payslips = json!([{"department": "10", "gross": "5000.00", "withheld": "1900.55"}, {"department": "20", "gross": "10.01", "withheld": "0.02"}]);
    let mut messages = vec![
        order("o-1"),
        order("o-2"),
        cancellation("c-2", "o-2"),
        order_of("acme", "usd-1", "USD", "100.00", "16.00"),
        // 0.06 = 0.04 + 0.03 - 0.01: the residue goes to the rounding account.
        order_of("acme", "usd-residue", "USD", "0.07", "0.03"),
        order_of("acme", "usd-reversed", "USD", "0.07", "0.03"),
        cancellation("c-usd", "usd-reversed"),
        order_of("acme", "jpy", "JPY", "1001", "91"),
        order_of("acme", "kwd", "KWD", "1.234", "0.1"),
        order_of("acme", "idr", "IDR", "0.01", "0"),
        order_of("acme", "large", "USD", "999999999999999.99", "0.01"),
        event("pay", "payroll.salary.disbursed", json!({"runId": "1", "currency": "EUR", "payslips": payslips})),
        event("fx", "treasury.currency.bought", json!({"bought": "100.00", "currency": "USD", "sold": "92.01"})),
        order_of("globex", "other", "EUR", "1.00", "0"),
    ];
    for (n, text) in ODD.iter().enumerate() {
        messages.push(event(
            &format!("odd, \"{n}\";"),
            "treasury.capital.paid",
            json!({"text": text, "amount": "7.5"}),
        ));
    }
    messages.push(dated(order("march"), "2026-03-05"));
    world.publish(&messages).await;
    world.fis(&["run", "--once"]).await.expect(0, &[]);
    assert_eq!(world.count("select count(*) from fis_journal_entry").await, i64::try_from(messages.len()).unwrap());
    world
}

/// What is not zero, by `code currency`.
async fn kept_balances(world: &World) -> BTreeMap<String, String> {
    let rows: Vec<(String, String)> = sqlx::query_as(
        "select account_code || ' ' || currency, trim_scale(debit - credit)::text
           from fis_account_balance
          where tenant_id = 'acme' and debit <> credit",
    )
    .fetch_all(&world.pool)
    .await
    .unwrap();
    rows.into_iter().collect()
}

async fn export(world: &World, format: &str) -> String {
    let path = world.dir.join(format!("acme.{format}"));
    let path = path.to_str().unwrap();
    let args = ["export", "--tenant", "acme", "--format", format, "--output", path];
    world.fis(&args).await.expect(0, &["exported", "entries"]);
    path.to_owned()
}

fn run(program: impl Into<PathBuf>, args: &[&str]) -> std::io::Result<Output> {
    Command::new(program.into()).args(args).env("LANG", "C.UTF-8").env("PYTHONUTF8", "1").output()
}

#[track_caller]
fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Beancount in an environment of its own; `None` where it cannot be had.
fn beancount() -> Option<PathBuf> {
    let place = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("beancount");
    let bin = place.join("bin");
    let works = || run(bin.join("bean-check"), &["--help"]).is_ok_and(|output| output.status.success());
    if !works() {
        run("python3", &["-m", "venv", place.to_str()?]).ok()?;
        run(bin.join("pip"), &["install", "--quiet", "--disable-pip-version-check", "beancount"]).ok()?;
    }
    works().then_some(bin)
}

/// Loads a file and tells the errors, the balances by code and currency, and what each transaction says.
const ASK_BEANCOUNT: &str = r#"
import collections, decimal, json, sys
from beancount import loader
from beancount.core import data
decimal.getcontext().prec = 60
entries, errors, _ = loader.load_file(sys.argv[1])
codes = {e.account: e.meta["code"] for e in entries if isinstance(e, data.Open)}
sums, said = collections.defaultdict(decimal.Decimal), []
for entry in entries:
    if isinstance(entry, data.Transaction):
        said.append([entry.meta["entry-id"], entry.meta["event-id"], entry.meta["hash"], str(entry.date), entry.narration])
        for posting in entry.postings:
            sums[codes[posting.account] + " " + posting.units.currency] += posting.units.number
print(json.dumps({
    "errors": [str(error) for error in errors],
    "balances": {key: format(value.normalize(), "f") for key, value in sums.items() if value},
    "said": said,
    "prices": sum(isinstance(e, data.Price) for e in entries),
    "names": sorted(codes),
}))
"#;

#[tokio::test(flavor = "multi_thread")]
async fn beancount_accepts_the_export_with_the_same_balances() {
    let Some(bin) = beancount() else {
        eprintln!("skipped: beancount is not there, and python3 cannot install it");
        return;
    };
    let world = world_with_a_mixed_ledger("beancount").await;
    let path = export(&world, "beancount").await;
    text(&run(bin.join("bean-check"), &[&path]).unwrap());
    let answer = text(&run(bin.join("python"), &["-c", ASK_BEANCOUNT, &path]).unwrap());
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["errors"], json!([]));
    assert_eq!(answer["balances"], json!(kept_balances(&world).await));
    assert_eq!(
        answer["prices"],
        json!(MORE_BOOKS.matches("[[rates]]").count() + books("acme").matches("[[rates]]").count())
    );
    assert!(answer["names"].to_string().contains("\"Assets:1100-Trade-receivables\""), "{answer}");
    let mut said: Vec<Value> = answer["said"].as_array().unwrap().clone();
    said.sort_by_key(Value::to_string);
    let rows: Vec<(String, String, String, String, String)> = sqlx::query_as(
        "select entry_id, event_id, hash, accounting_date::text, description
           from fis_journal_entry
          where tenant_id = 'acme'",
    )
    .fetch_all(&world.pool)
    .await
    .unwrap();
    let mut booked: Vec<Value> = rows.iter().map(|(a, b, c, d, e)| json!([a, b, c, d, e])).collect();
    booked.sort_by_key(Value::to_string);
    assert_eq!(said, booked, "texts survive exactly");
}

#[tokio::test(flavor = "multi_thread")]
async fn hledger_accepts_the_export_with_the_same_balances() {
    if run("hledger", &["--version"]).is_err() {
        eprintln!("skipped: hledger is not installed");
        return;
    }
    let world = world_with_a_mixed_ledger("hledger").await;
    let path = export(&world, "hledger").await;
    text(&run("hledger", &["-f", &path, "check", "-s"]).unwrap());
    let journal = std::fs::read_to_string(&path).unwrap();
    let codes: BTreeMap<&str, &str> = journal
        .lines()
        .filter_map(|line| line.strip_prefix("account ")?.split_once("  ; code: "))
        .map(|(account, rest)| (account, rest.split(',').next().unwrap()))
        .collect();
    let table = run("hledger", &["-f", &path, "bal", "-N", "--flat", "-O", "csv", "--layout=bare"]).unwrap();
    let mut balances = BTreeMap::new();
    for row in text(&table).lines().skip(1) {
        let cells: Vec<&str> = row.trim_matches('"').split("\",\"").collect();
        let amount = match cells[2].split_once('.') {
            Some((whole, part)) => format!("{whole}.{part}").trim_end_matches('0').trim_end_matches('.').to_owned(),
            None => cells[2].to_owned(),
        };
        if amount != "0" {
            balances.insert(format!("{} {}", codes[cells[0]], cells[1]), amount);
        }
    }
    assert_eq!(balances, kept_balances(&world).await);
    // The rates of the books are prices: everything can be valued in the base currency, and reports show the accounts' names.
    let valued = text(&run("hledger", &["-f", &path, "bal", "-N", "--flat", "-X", "EUR"]).unwrap());
    assert!(valued.contains("  Assets:1100 Trade receivables\n"), "{valued}");
    assert!(["USD", "JPY", "KWD"].iter().all(|currency| !valued.contains(currency)), "{valued}");
    let ids: Vec<String> =
        sqlx::query_scalar("select entry_id from fis_journal_entry where tenant_id = 'acme' order by seq")
            .fetch_all(&world.pool)
            .await
            .unwrap();
    let mut codes: Vec<String> =
        text(&run("hledger", &["-f", &path, "codes"]).unwrap()).lines().map(str::to_owned).collect();
    codes.sort_by_key(|id| id.rsplit('/').next().unwrap().parse::<u64>().unwrap());
    assert_eq!(codes, ids);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_csv_export_is_whole_exact_and_in_order() {
    let world = World::new("export_csv").await;
    // More than two pages, and a description that needs every kind of quoting.
    let mut messages: Vec<Message> = (0..1201).map(|n| order(&format!("evt-{n}"))).collect();
    let odd = json!({"orderId": "=1+1,\"x\"\r\n", "currency": "EUR", "total": "119.00", "tax": "19.00"});
    messages.push(dated(event("odd", "ecommerce.order.completed", odd), "2026-03-05"));
    world.publish(&messages).await;
    world.fis(&["run", "--once"]).await.expect(0, &[]);
    let said = world.fis(&["export", "--tenant", "acme", "--format", "csv"]).await.expect(0, &[]).stdout;
    let rows: Vec<&str> = said.split_terminator("\r\n").filter(|row| row.starts_with("acme/")).collect();
    assert_eq!(rows.len(), 3 * 1202);
    let first = "acme/1,1,2026-02-25,,";
    assert!(rows[0].starts_with(first) && rows[0].contains(",1,1100,Trade receivables,debit,119.00,EUR,119.00,EUR,"));
    let sequence = |row: &str| row.split(',').nth(1).unwrap().parse::<usize>().unwrap();
    for (place, row) in rows.iter().enumerate() {
        assert_eq!(sequence(row), place / 3 + 1, "{row}");
    }
    assert!(said.contains(",\"Order =1+1,\"\"x\"\"\r\n\",order-completed,"), "{}", rows[3603]);
    let march = ["export", "--tenant", "acme", "--format", "csv", "--from", "2026-03-01", "--to", "2026-03-31"];
    let said = world.fis(&march).await.expect(0, &[]).stdout;
    assert_eq!(said.matches("acme/1202,").count(), 3);
    assert_eq!(said.matches("acme/").count(), 3);
    world.fis(&["export", "--tenant", "nobody", "--format", "csv"]).await.expect(2, &["no tenant `nobody`"]);
    let path = world.dir.join("none.csv");
    let path = path.to_str().unwrap();
    world.fis(&["export", "--tenant", "nobody", "--format", "csv", "--output", path]).await.expect(2, &[]);
    assert!(!world.dir.join("none.csv").exists() && !world.dir.join("none.csv.part").exists(), "nothing half stays");
    world.fis(&["export", "--tenant", "acme", "--format", "xls"]).await.expect(2, &[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_trial_balance_is_the_lines_and_says_when_it_does_not_balance() {
    let world = world_with_a_mixed_ledger("trial").await;
    let trial = async |args: &[&str]| world.fis(&[&["trial-balance", "--tenant", "acme"], args].concat()).await;
    let kept = trial(&["--json"]).await.expect(0, &[]).json();
    let summed = trial(&["--json", "--as-of", "2099-12-31"]).await.expect(0, &[]).json();
    assert_eq!((&kept["accounts"], &kept["totals"]), (&summed["accounts"], &summed["totals"]));
    assert_eq!(kept["balanced"], true, "an exchange is no fault");
    let row = |account: &str, currency: &str| {
        let rows = kept["accounts"].as_array().unwrap().iter();
        rows.clone().find(|row| row["account"] == account && row["currency"] == currency).unwrap().clone()
    };
    assert_eq!(
        row("1100", "JPY"),
        json!({"account": "1100", "accountName": "Trade receivables", "type": "asset", "currency": "JPY",
               "debit": "1001", "credit": "0", "balance": "1001"})
    );
    assert_eq!(row("2200", "KWD")["credit"], "0.100", "padded to minor units");
    let base = trial(&["--json", "--base"]).await.expect(0, &[]).json();
    let totals = base["totals"].as_array().unwrap();
    assert_eq!((totals.len(), &totals[0]["difference"]), (1, &json!("0.00")), "{totals:?}");
    let february = trial(&["--json", "--as-of", "2026-02-28"]).await.expect(0, &[]).json();
    assert_ne!(february["accounts"], kept["accounts"], "March does not count in February");
    let none = trial(&["--json", "--as-of", "2026-01-01"]).await.expect(0, &[]).json();
    assert_eq!((&none["accounts"], &none["balanced"]), (&json!([]), &json!(true)));

    let table = trial(&[]).await.expect(0, &["total", "exchange one currency for another"]).stdout;
    let bank = table.lines().find(|line| line.contains("bank_us")).unwrap();
    assert!(bank.contains(" 67.50 ┆"), "right-aligned: {bank}");
    let csv = trial(&["--format", "csv"]).await.expect(0, &[]).stdout;
    assert!(csv.contains("bank.us,\"Bank; \"\"US\"\", | branch\",asset,USD,100.00,0.00,100.00\r\n"), "{csv}");
    trial(&["--as-of", "2026-2-1"]).await.expect(2, &["2026-02-25"]);

    world
        .sql("update fis_account_balance set debit = debit + 1 where tenant_id = 'acme' and account_code = '6010'")
        .await;
    trial(&[]).await.expect(1, &["does not balance", "account 6010 in EUR"]);
    world.sql("alter table fis_journal_line disable trigger all; update fis_journal_line set base_amount = 1 where tenant_id = 'acme' and seq = 1 and line_no = 1").await;
    trial(&["--base"]).await.expect(1, &["entry acme/1 "]);
    assert_eq!(trial(&["--base", "--json"]).await.expect(1, &[]).json()["balanced"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_journal_is_found_by_account_date_event_and_text() {
    let world = world_with_a_mixed_ledger("journal").await;
    let ids = async |args: &[&str]| {
        let said = world.fis(&[&["journal", "--json"], args].concat()).await.expect(0, &[]).json();
        let events =
            said["entries"].as_array().unwrap().iter().map(|entry| entry["eventId"].as_str().unwrap().to_owned());
        (events.collect::<Vec<_>>(), said["more"].as_bool().unwrap())
    };
    let acme = ["--tenant", "acme"];
    assert_eq!(ids(&["--tenant", "globex"]).await, (vec!["other".to_owned()], false));
    assert_eq!(ids(&["--event", "o-2"]).await.0, ["o-2"]);
    assert_eq!(ids(&["--text", "o-2 CANCELLATION"]).await.0, ["c-2"]);
    assert_eq!(ids(&["--text", "%"]).await.0, [""; 0], "nothing is a wildcard");
    assert_eq!(ids(&[&acme[..], &["--account", "bank.us"]].concat()).await.0, ["fx"]);
    assert_eq!(
        ids(&["--account", "6999"]).await.0,
        ["usd-residue", "usd-reversed", "c-usd", "jpy", "fx"],
        "newest last"
    );
    assert_eq!(ids(&[&acme[..], &["--from", "2026-03-01"]].concat()).await.0, ["march"]);
    assert_eq!(ids(&["--to", "2026-01-01"]).await.0, [""; 0]);
    let (newest, more) = ids(&[&acme[..], &["--limit", "2", "--offset", "1"]].concat()).await;
    assert_eq!((newest, more), (vec!["odd, \"7\";".to_owned(), "odd, \"8\";".to_owned()], true));
    assert_eq!(ids(&[]).await.0.len(), 24, "all tenants");

    let listing = world.fis(&["journal", "--tenant", "acme"]).await.expect(0, &["23 entries"]).stdout;
    assert!(
        listing.contains("acme/1  2026-02-25  Order o-1\n  event o-1, rule order-completed of version 1\n"),
        "{listing}"
    );
    assert!(listing.contains(", reverses acme/2\n") && listing.contains("  Trade receivables\n"), "{listing}");
    assert!(!listing.contains('\u{1b}') && !listing.contains('\u{202e}'), "no text drives the terminal");
    assert!(listing.contains("\\u{1b}[31mred \\u{202e}back"), "{listing}");
    let said = world.fis(&["journal", "--event", "odd, \"4\";", "--json"]).await.expect(0, &[]).json();
    let entry = &said["entries"][0];
    assert_eq!(entry["description"], ODD[4], "JSON is exact");
    assert_eq!(entry["lines"][0]["amount"], "7.50");
    assert_eq!(entry["hash"].as_str().unwrap().len(), 64);
    world.fis(&["journal", "--tenant", "nobody"]).await.expect(2, &["no tenant `nobody`"]);
    world.fis(&["journal", "--tenant", "a/b"]).await.expect(2, &[]);
}
