//! Books as files: checked whole, versioned, in force at once.

use std::time::{Duration, Instant};

use crate::support::events::{books, order, order_of, payment};
use crate::support::wait::{same, wait_until};
use crate::support::world::{Setup, World};

#[tokio::test(flavor = "multi_thread")]
async fn applying_the_same_books_twice_makes_no_new_version() {
    let world = World::with("books_twice", Setup { topology: false, tenants: &[], ..Setup::default() }).await;
    let file = world.file("acme.toml", books("acme"));
    world.fis(&["books", "check", &file]).await.expect(0, &["acme", "no mistakes"]);
    world.fis(&["books", "apply", &file, "--yes"]).await.expect(0, &["applied version 1"]);
    world.fis(&["books", "apply", &file, "--yes"]).await.expect(0, &["version 1"]);
    assert_eq!(world.count("select count(*) from fis_books").await, 1);
    let changed = world.file("changed.toml", books("acme").replace("\"Test\"", "\"Renamed\""));
    world.fis(&["books", "apply", &changed, "--yes"]).await.expect(0, &["applied version 2"]);
    let shown = world.fis(&["books", "show", "--tenant", "acme", "--json"]).await.expect(0, &[]).json();
    assert_eq!(shown["version"], 2);
    assert!(shown["source"].as_str().unwrap().contains("Renamed"));
    let first = world.fis(&["books", "show", "--tenant", "acme", "--version", "1"]).await.expect(0, &["\"Test\""]);
    assert!(!first.stdout.contains("Renamed"));
    world.fis(&["books", "show", "--tenant", "nobody"]).await.expect(2, &["there is no tenant `nobody`"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_apply_shows_its_plan_and_does_nothing_that_nobody_confirmed() {
    let world = World::with("books_plan", Setup { topology: false, tenants: &[], ..Setup::default() }).await;
    let first = world.file("first.toml", books("acme"));
    let new = ["new books for acme", "+ settings", "+ account `1000`", "+ rule `order-completed`", "--yes applies it"];
    world.fis(&["books", "apply", &first]).await.expect(2, &new);
    assert_eq!(world.count("select count(*) from fis_books").await, 0);
    world.fis(&["books", "apply", &first, "--yes"]).await.expect(0, &["applied version 1"]);

    let carts = "[[rules]]\nname = \"carts\"\non = \"ecommerce.cart.*\"\nignore = true\n";
    let unused = "[[accounts]]\ncode = \"7000\"\nname = \"Closed\"\ntype = \"expense\"\nclosed = true\n";
    assert!(books("acme").contains(carts) && books("acme").contains(unused));
    let changed = books("acme")
        .replace(carts, "")
        .replacen("[[rules]]", &format!("{carts}[[rules]]"), 1)
        .replace(unused, "")
        .replace("ends = 2025-12-31", "ends = 2025-11-30")
        .replace("\"0.9200\"", "\"0.9300\"")
        .replace("late_events = \"next_open\"", "late_events = \"hold\"")
        .replace("type = \"income\"", "type = \"income\"\nclosed = true");
    let changed = world.file("changed.toml", changed);
    let plan = [
        "changes to version 1 of the books of acme:",
        "  ~ settings\n      late_events `next_open` → `hold`",
        "  x account `4000`: closed\n      status `open` → `closed`",
        "  - account `7000`: name `Closed`, type `expense`, status `closed`",
        "  ~ period `before`\n      ends `2025-12-31` → `2025-11-30`",
        "  ~ rate USD to EUR of 2026-01-01\n      rate `0.92` → `0.93`",
        "  ~ rule `carts`\n      position `7` → `1`",
        "4 changed, 1 closed, 1 removed",
    ];
    world.fis(&["books", "apply", &changed]).await.expect(2, &plan);
    assert_eq!(world.count("select count(*) from fis_books").await, 1);
    let told = world.fis(&["books", "apply", &changed, "--yes", "--by", "eve", "--json"]).await.expect(0, &[]).json();
    assert_eq!((&told["version"], &told["applied"]), (&2.into(), &true.into()));
    assert_eq!(told["changes"].as_array().unwrap().len(), 6);
    assert_eq!(told["changes"][1]["act"], "closed");
    world.fis(&["books", "versions", "--tenant", "acme"]).await.expect(0, &["eve", "in force"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn books_that_mean_the_same_make_no_new_version() {
    let world = World::with("books_same", Setup { topology: false, ..Setup::default() }).await;
    let bank = "[[accounts]]\ncode = \"1000\"\nname = \"Bank\"\ntype = \"asset\"\n";
    let same = format!("# reviewed\n{}\n{bank}", books("acme").replace(bank, "").replace(" = ", "  =  "));
    let same = world.file("same.toml", same);
    // Nothing has to be confirmed either.
    world.fis(&["books", "apply", &same]).await.expect(0, &["are these already (version 1)"]);
    let told = world.fis(&["books", "apply", &same, "--json"]).await.expect(0, &[]).json();
    assert_eq!((&told["version"], &told["applied"]), (&1.into(), &false.into()));
    assert_eq!(world.count("select count(*) from fis_books").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_instance_uses_new_books_within_two_seconds() {
    let world = World::new("new_books").await;
    let mut run = world.run().await;
    world.publish(&[payment("before", "8000", "1.00").rejected("unknown_account")]).await;
    world.quiet().await;
    let more = "\n[[accounts]]\ncode = \"8000\"\nname = \"New\"\ntype = \"income\"\n";
    let file = world.file("acme.toml", books("acme") + more);
    world.fis(&["books", "apply", &file, "--yes"]).await.expect(0, &["version 2"]);
    let applied = Instant::now();
    wait_until("the instance says that it uses version 2", async || {
        if run.log().contains("using version 2") { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await;
    assert!(applied.elapsed() < Duration::from_secs(2), "{:?}", applied.elapsed());
    world.publish(&[payment("after", "8000", "1.00")]).await;
    world.rest(&mut run).await;
    assert_eq!(world.count("select rule_version::bigint from fis_journal_entry").await, 2);
    world.invariants().await;
}

/// Also a batch that was mapped with the old books and meets the new ones under the lock is mapped again: no entry can name
/// a version that was not in force when it was posted.
#[tokio::test(flavor = "multi_thread")]
async fn books_that_change_under_load_lose_no_event() {
    let world = World::new("books_under_load").await;
    let mut run = world.run_with(&[("FIS__INTAKE__BATCH_EVENTS_MAX", "5")]).await;
    for version in 2..=5 {
        let orders: Vec<_> = (0..50).map(|n| order(&format!("evt-{version}-{n}"))).collect();
        let renamed = books("acme").replace("\"Test\"", &format!("\"Test {version}\""));
        tokio::join!(world.publish(&orders), world.apply_books(&renamed));
    }
    world.rest(&mut run).await;
    assert_eq!(world.count("select books_version::bigint from fis_chain_head").await, 5);
    let backwards = "select count(*) from (
                         select rule_version < lag(rule_version) over (order by seq) as back from fis_journal_entry) x
                      where back";
    assert_eq!(world.count(backwards).await, 0, "an old version after a newer one");
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_with_five_mistakes_reports_all_five_and_changes_nothing() {
    let world = World::with("five_mistakes", Setup { topology: false, ..Setup::default() }).await;
    let wrong = books("acme")
        .replace("base_currency = \"EUR\"", "base_currency = \"EURO\"")
        .replace("Europe/Berlin", "Europe/Atlantis")
        .replace("rounding_account = \"6999\"", "rounding_account = \"6998\"")
        .replace("payload.total - payload.tax", "payload.total - ")
        .replace(
            "{ debit  = \"1000\", amount = \"payload.amount\" },\n  { credit = \"4000\"",
            "{ debit  = \"1000\", amount = \"payload.amount\" },\n  { credit = \"4001\"",
        );
    let file = world.file("wrong.toml", wrong);
    let five = ["`EURO`", "Europe/Atlantis", "`6998`", "payload.total - ", "`4001`", "5 mistakes"];
    let said = world.fis(&["books", "check", &file]).await.expect(1, &five);
    assert!(said.stderr.contains("wrong.toml:4:17: base_currency: `EURO`"), "{said:?}");
    let told = world.fis(&["books", "check", &file, "--json"]).await.expect(1, &[]).json();
    assert_eq!(told["mistakes"].as_array().unwrap().len(), 5);
    assert_eq!((&told["mistakes"][0]["line"], &told["mistakes"][0]["column"]), (&4.into(), &17.into()));
    world.fis(&["books", "apply", &file, "--yes"]).await.expect(1, &five);
    assert_eq!(world.count("select count(*) from fis_books").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_with_lines_cannot_be_removed_nor_the_base_currency_changed() {
    let world = World::new("used_account").await;
    let mut run = world.run().await;
    world.publish(&[order("evt")]).await;
    world.rest(&mut run).await;
    let account = "[[accounts]]\ncode = \"2200\"\nname = \"Sales tax\"\ntype = \"liability\"\n";
    let line = "  { credit = \"2200\", amount = \"payload.tax\", when = \"payload.tax != 0\" },\n";
    assert!(books("acme").contains(account) && books("acme").contains(line));
    let removed = world.file("removed.toml", books("acme").replace(account, "").replace(line, ""));
    world.fis(&["books", "apply", &removed, "--yes"]).await.expect(1, &["2200", "closed = true"]);
    let dollars = books("acme").replace("base_currency = \"EUR\"", "base_currency = \"USD\"");
    let dollars = world.file("dollars.toml", dollars);
    world.fis(&["books", "apply", &dollars, "--yes"]).await.expect(1, &["base_currency", "EUR", "USD"]);
    assert_eq!(world.count("select count(*) from fis_books").await, 1);
    // An account that nobody used may go.
    let unused = "[[accounts]]\ncode = \"7000\"\nname = \"Closed\"\ntype = \"expense\"\nclosed = true\n";
    let removed = world.file("unused.toml", books("acme").replace(unused, ""));
    world.fis(&["books", "apply", &removed, "--yes"]).await.expect(0, &["version 2"]);
}

/// A tenant that appears while the service runs is served without a restart.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_tenant_is_served_without_a_restart() {
    let world = World::new("new_tenant").await;
    let mut run = world.run().await;
    let early = order_of("globex", "early", "EUR", "1.00", "0");
    world.publish(&[early.clone().rejected("unknown_tenant")]).await;
    world.quiet().await;
    world.apply_books(&books("globex")).await;
    world.publish(&[order_of("globex", "later", "EUR", "1.00", "0")]).await;
    wait_until("the new tenant's event", async || {
        same(world.count("select count(*) from fis_journal_entry where tenant_id = 'globex'").await, 1)
    })
    .await;
    world.rest(&mut run).await;
    world.invariants().await;
}
