//! What a person sees on a terminal of eighty columns, and what a script gets instead.

use serde_json::Value;

use crate::support::events::{order, order_of};
use crate::support::world::World;

/// Every listing, after traffic that leaves something in each.
const LISTINGS: [&[&str]; 12] = [
    &["status"],
    &["journal", "--tenant", "acme"],
    &["trial-balance", "--tenant", "acme"],
    &["tie-out", "--tenant", "acme"],
    &["held", "list"],
    &["dlq", "list"],
    &["dlq", "groups"],
    &["verify"],
    &["books", "versions", "--tenant", "acme"],
    &["topology", "check"],
    &["feed", "verify"],
    &["feed", "tail", "--from", "first", "--once"],
];

#[tokio::test(flavor = "multi_thread")]
async fn no_listing_is_wider_than_eighty_columns() {
    let world = World::new("eighty").await;
    let large = order_of("acme", "an-event-id-of-an-ordinary-length-0001", "EUR", "8434778.70", "1346729.37");
    // No rate, so it is held; three decimals, so it is rejected.
    let held = order_of("acme", "an-event-id-of-an-ordinary-length-0002", "GBP", "100.00", "16.00");
    let rejected = order_of("acme", "an-event-id-of-an-ordinary-length-0003", "EUR", "10.005", "0");
    world.publish(&[order("o-1"), large, held, rejected]).await;
    world.fis(&["run", "--once"]).await.expect(0, &[]);
    let environment = [("COLUMNS", "80")];
    for args in LISTINGS {
        let said = world.fis_with(args, &environment).await;
        assert!(!said.stdout.is_empty(), "{args:?}: {}", said.stderr);
        let wide: Vec<&str> = said.stdout.lines().filter(|line| line.chars().count() > 80).collect();
        assert!(wide.is_empty(), "{args:?}:\n{}", wide.join("\n"));
    }
    let sheet = world.fis_with(&["trial-balance", "--tenant", "acme"], &environment).await.stdout;
    assert!(sheet.contains("8,434,897.70"), "{sheet}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_gets_its_errors_as_json() {
    let world = World::new("json_errors").await;
    let rows: [(&[&str], i32, &str); 3] = [
        (&["receipt", "--json"], 2, "wrong_usage"),
        (&["trial-balance", "--tenant", "nobody", "--json"], 2, "not_found"),
        (&["dlq", "show", "dl_nobody", "--json"], 2, "wrong_usage"),
    ];
    for (args, code, word) in rows {
        let said = world.fis(args).await;
        let error: Value = serde_json::from_str(&said.stderr).unwrap_or_else(|_| panic!("{args:?}: {}", said.stderr));
        assert_eq!((said.code, error["code"].as_str()), (Some(code), Some(word)), "{args:?}: {error}");
        assert!(error["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{error}");
        assert!(said.stdout.is_empty(), "{}", said.stdout);
    }
    let away = [("FIS_DATABASE_URL", "postgres://fis@127.0.0.1:1/fis")];
    let said = world.fis_with(&["journal", "--json"], &away).await.expect(1, &[]);
    let error: Value = serde_json::from_str(&said.stderr).unwrap();
    assert_eq!(error["code"], "database_away", "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn completions_and_man_pages_come_from_the_program_and_need_no_server() {
    let world = World::new("manual").await;
    for shell in ["bash", "zsh", "fish"] {
        world.fis(&["completions", shell]).await.expect(0, &["dlq", "trial-balance"]);
    }
    world.fis(&["completions", "tcsh"]).await.expect(2, &["bash"]);
    world.fis(&["man", "pages"]).await.expect(0, &["fis.1"]);
    let page = std::fs::read_to_string(world.dir.join("pages/fis-dlq-replay.1")).unwrap();
    assert!(page.contains("canary"), "{page}");
}
