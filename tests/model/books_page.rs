//! The page about books, and the file that `fis books init` prints: what they show can be used as it stands.

use fis::desk::books::{check, new_books};
use fis::domain::books::{Books, Mapped};

use crate::read;
use crate::table::{event, instant};

/// The code blocks of a language between a heading of the page and the next one.
fn blocks(page: &str, heading: &str, language: &str) -> Vec<String> {
    let (_, behind) = page.split_once(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("no {heading}"));
    let section = behind.split("\n##").next().unwrap_or_default();
    let opening = format!("```{language}\n");
    let fences = section.split(&opening).skip(1);
    fences.map(|rest| rest.split("```").next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn entries_by_hand_are_booked_as_the_page_shows() {
    let page = read("docs/books.md");
    let accounts = blocks(&page, "### `[[accounts]]`", "toml").concat();
    let rule = blocks(&page, "## Entries by hand", "toml").concat();
    let period = "[[periods]]\nname = \"2026\"\nstarts = 2026-01-01\nends = 2026-12-31\nstatus = \"open\"\n";
    let source = format!("tenant = \"acme\"\nbase_currency = \"EUR\"\n{accounts}{period}{rule}");
    let books = Books::parse(&source, 1).unwrap_or_else(|mistakes| panic!("{source}\n{mistakes:#?}"));
    let mut booked = Vec::new();
    for line in blocks(&page, "## Entries by hand", "json").concat().lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let mut body = line["body"].clone();
        // The broker's routing key is the type where the body names none.
        body["eventType"] = line["routingKey"].clone();
        let body = body.to_string();
        let mapped = books.map(&event(&body).unwrap(), instant("2026-02-01T09:00:00Z"));
        let Ok(Mapped::Entry { entry, .. }) = mapped else { panic!("{body}: {mapped:?}") };
        let lines = entry.lines().iter().map(|line| format!("{} {} {}", line.side.as_str(), line.account, line.amount));
        let lines = lines.collect::<Vec<_>>().join(", ");
        booked.push(format!("{} {}: {lines}", entry.accounting_date(), entry.description()));
    }
    let expected = [
        "2026-01-01 Opening balances: debit 1000 25000.00, credit 3000 25000.00",
        "2026-01-31 Bank charges of January: debit 6855 100.00, credit 2300 100.00",
    ];
    assert_eq!(booked, expected);
}

#[test]
fn the_file_to_begin_with_has_no_mistakes_and_the_rule_of_the_page() {
    let file = new_books(2031);
    let told = check(&file).unwrap_or_else(|error| panic!("{error:?}"));
    assert_eq!((told.accounts, told.rules), (7, 3));
    assert!(file.contains("starts = 2031-01-01"), "{file}");
    let rule = blocks(&read("docs/books.md"), "## Entries by hand", "toml").concat();
    assert!(file.ends_with(&rule), "{rule}");
}

#[test]
fn the_mistakes_on_the_page_are_what_the_command_says() {
    let shop = read("books/shop.toml");
    let wrong = shop
        .replacen("base_currency = \"EUR\"", "base_currency = \"EURO\"", 1)
        .replacen(
            "name = \"Trade receivables\"\ntype = \"asset\"",
            "name = \"Trade receivables\"\ntype = \"receivable\"",
            1,
        )
        .replacen("{ credit = \"4000\"", "{ credit = \"4001\"", 1);
    let mistakes = Books::parse(&wrong, 1).unwrap_err();
    let shown: Vec<String> = mistakes
        .iter()
        .map(|mistake| {
            let position = mistake.position.unwrap();
            let excerpt = fis::desk::books::excerpt(&wrong, position).unwrap();
            format!("books/shop.toml:{}:{}: {mistake}\n{excerpt}\n", position.line, position.column)
        })
        .collect();
    let page = blocks(&read("docs/books.md"), "## `fis books check FILE`", "text").concat();
    assert_eq!(format!("{}fis: 3 mistakes, nothing was changed\n", shown.concat()), page);
}
