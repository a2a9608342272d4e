//! Books that could go wrong are refused before an event meets them.

use fis::domain::books::{Books, Mistake};

use crate::shared::CHART;

#[test]
fn books_that_could_go_wrong_are_refused_with_the_place() {
    let lines = r#"lines = [{ debit = "1000", amount = "payload.a" }, { credit = "4000", amount = "payload.a" }]"#;
    let rule = |more: &str| format!("[[rules]]\nname = \"r\"\non = \"a.b.c\"\ncurrency = \"'EUR'\"\n{more}\n");
    let account = |more: &str| format!("[[accounts]]\ncode = \"x\"\ntype = \"asset\"\n{more}\n");
    let rows = [
        (rule(""), "rule `r`", "exactly one of `lines`, `reverses` and `ignore"),
        (rule(&format!("{lines}\nignore = true")), "rule `r`", "exactly one of `lines`, `reverses` and `ignore"),
        (rule(&format!("when = \"payload.a >\"\n{lines}")), "rule `r`", "when"),
        (rule(&format!("when = \"paylod.a > 1\"\n{lines}")), "rule `r`", "payload"),
        (rule(&format!("when = \"item.a > 1\"\n{lines}")), "rule `r`", "item"),
        (rule(&lines.replace("4000", "4001")), "rule `r`, line 2", "did you mean `4000`?"),
        (
            rule(&lines.replace("{ debit =", "{ debit = \"1000\", credit =")),
            "rule `r`, line 1",
            "exactly one of `debit`",
        ),
        (rule(&format!("{lines}\nretry = {{ max_retries = 1001 }}")), "rule `r`", "max_retries"),
        (rule(&format!("{lines}\nretry = {{ max_delay_seconds = 2592001 }}")), "rule `r`", "2592000"),
        (rule(&format!("{lines}\nretry = {{ jitter_seconds = 9000000000000000 }}")), "rule `r`", "2592000"),
        (rule(&format!("{lines}\nretry = {{ backoff_multiplier = 0.5 }}")), "rule `r`", "backoff_multiplier"),
        (rule(&format!("{lines}\nretry = {{ backoff_multiplier = nan }}")), "rule `r`", "backoff_multiplier"),
        (rule(&format!("{lines}\n{}", rule(lines))), "rule `r`", "appears twice"),
        (account("currency = \"XAU\""), "account `x`", "ISO 4217"),
        (format!("{}{}", account(""), account("")), "account `x`", "appears twice"),
        (account("colour = \"red\""), "account `x`", "colour"),
        (
            "[[periods]]\nname = \"x\"\nstarts = 2026-02-28\nends = 2026-03-31\nstatus = \"open\"\n".to_owned(),
            "period `x`",
            "overlap",
        ),
        ("[[rates]]\nfrom = \"USD\"\nto = \"EUR\"\ndate = 2026-02-01\nrate = \"0\"\n".to_owned(), "rate", "positive"),
        (
            "[[rates]]\nfrom = \"EUR\"\nto = \"EUR\"\ndate = 2026-02-01\nrate = \"1\"\n".to_owned(),
            "rate",
            "two currencies",
        ),
    ];
    for (text, place, message) in rows {
        refused(&format!("{CHART}\n{text}"), place, message);
    }
    refused(&CHART.replace("\"6999\"\n\n", "\"1010\"\n\n"), "rounding_account", "takes USD only");
    refused(&CHART.replace("Europe/Berlin", "Europe/Bonn"), "timezone", "Europe/Bonn");
    refused(&CHART.replace("base_currency = \"EUR\"", "base_currency = \"EURO\""), "base_currency", "EURO");
    refused(&CHART.replace("tenant = \"acme\"", "tenant = \"a/b\""), "tenant", "'/'");
}

#[track_caller]
fn refused(text: &str, place: &str, message: &str) {
    let mistakes = Books::parse(text, 1).expect_err(message);
    let told = |mistake: &Mistake| mistake.place.starts_with(place) && mistake.message.contains(message);
    assert!(mistakes.iter().any(told), "{place}: {message} is not among {mistakes:#?}");
}
