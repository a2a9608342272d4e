//! Whose ledger is meant: `--tenant`, `FIS_TENANT` or the only one there is; and one wording for a tenant that is not there.

use serde_json::json;

use crate::support::events::{books, order, order_of, payment};
use crate::support::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn the_tenants_are_listed_with_how_each_is() {
    let world = World::new("tenants").await;
    world.apply_books(&books("bolt")).await;
    let mut run = world.run().await;
    let stranger = order_of("nobody", "c", "EUR", "1.00", "0").rejected("unknown_tenant");
    world
        .publish(&[order("a"), order("b"), payment("bad", "9999", "1.50").rejected("unknown_account"), stranger])
        .await;
    world.rest(&mut run).await;
    let said = world.fis(&["tenants", "--json"]).await.expect(0, &[]).json();
    let [acme, bolt] = &said["tenants"].as_array().unwrap()[..] else { panic!("{said:#}") };
    assert_eq!(
        (&acme["tenantId"], &acme["baseCurrency"], &acme["booksVersion"], &acme["entries"], &acme["openLetters"]),
        (&json!("acme"), &json!("EUR"), &json!(1), &json!(2), &json!(1)),
        "{said:#}"
    );
    assert!(acme["lastPostedAt"].is_string());
    assert_eq!((&bolt["entries"], &bolt["lastPostedAt"]), (&json!(0), &json!(null)), "{said:#}");
    assert_eq!(said["strangers"], json!([{"name": "nobody", "openLetters": 1}]));
    world.fis(&["tenants"]).await.expect(0, &["acme", "bolt", "never", "2 tenants", "not a tenant: nobody"]);
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_is_about_the_tenant_it_names_else_the_variables_else_the_only_one() {
    let world = World::new("tenant_default").await;
    world.publish(&[order("a")]).await;
    world.fis(&["run", "--once"]).await.expect(0, &[]);
    let alone = world.fis(&["trial-balance"]).await.expect(0, &["1100", "fis: tenant acme, the only one"]);
    assert!(!alone.stdout.contains("the only one"), "a script reads the output alone");
    world.apply_books(&books("bolt")).await;
    world.fis(&["trial-balance"]).await.expect(2, &["--tenant", "FIS_TENANT", "acme, bolt"]);
    let acme = [("FIS_TENANT", "acme")];
    let said = world.fis_with(&["trial-balance"], &acme).await.expect(0, &["1100"]);
    assert!(said.stderr.is_empty(), "{said:?}");
    let said = world.fis_with(&["trial-balance", "-t", "bolt"], &acme).await.expect(0, &[]);
    assert!(!said.stdout.contains("1100"), "what the command names goes before: {said:?}");
    let bolt = [("FIS_TENANT", "bolt")];
    let said = world.fis_with(&["journal", "--json"], &bolt).await.expect(0, &["only tenant bolt, as FIS_TENANT says"]);
    assert_eq!(said.json()["entries"], json!([]));
    world.fis_with(&["receipt", "a"], &acme).await.expect(0, &["posted as acme/1"]);
    world.fis_with(&["books", "show"], &bolt).await.expect(0, &["tenant = \"bolt\""]);
    world.fis_with(&["journal"], &[("FIS_TENANT", "a b")]).await.expect(2, &["FIS_TENANT"]);
}

/// A variable must not stand for a choice: whoever names no letters gets asked which.
#[tokio::test(flavor = "multi_thread")]
async fn the_variable_narrows_a_choice_of_letters_and_never_makes_one() {
    let world = World::new("tenant_letters").await;
    world.apply_books(&books("bolt")).await;
    let mut run = world.run().await;
    let mut other = payment("bolt-1", "9999", "1.50").rejected("unknown_account");
    other.body = String::from_utf8(other.body).unwrap().replace("\"acme\"", "\"bolt\"").into_bytes();
    world.publish(&[payment("acme-1", "9999", "1.50").rejected("unknown_account"), other]).await;
    world.rest(&mut run).await;
    let bolt = [("FIS_TENANT", "bolt")];
    for act in ["discard", "replay"] {
        world.fis_with(&["dlq", act, "--why", "x", "--yes"], &bolt).await.expect(2, &["which?"]);
    }
    world
        .fis_with(&["dlq", "discard", "--all", "--why", "x", "--yes"], &bolt)
        .await
        .expect(0, &["discarded 1 dead letter"]);
    let left: Vec<String> = sqlx::query_scalar("select event_id from fis_dead_letter where status = 'parked'")
        .fetch_all(&world.pool)
        .await
        .unwrap();
    assert_eq!(left, ["acme-1"]);
    let id: String = sqlx::query_scalar("select id from fis_dead_letter where status = 'parked'")
        .fetch_one(&world.pool)
        .await
        .unwrap();
    world
        .fis_with(&["dlq", "discard", &id, "--why", "x", "--dry-run"], &bolt)
        .await
        .expect(0, &["1 dead letter selected"]);
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_tenant_has_one_wording_everywhere() {
    let world = World::new("tenant_unknown").await;
    world.apply_books(&books("acme-shop")).await;
    let commands: [&[&str]; 19] = [
        &["books", "show"],
        &["books", "versions"],
        &["revert", "1", "--why", "x", "--yes"],
        &["receipt", "a"],
        &["held", "list"],
        &["held", "release", "--yes"],
        &["held", "release", "a"],
        &["batch", "show", "b"],
        &["batch", "close", "b", "--why", "x", "--yes"],
        &["dlq", "list"],
        &["dlq", "groups"],
        &["dlq", "export"],
        &["dlq", "discard", "--why", "x", "--yes"],
        &["journal"],
        &["trial-balance"],
        &["tie-out"],
        &["export", "--format", "csv"],
        &["feed", "resend", "--from", "1", "--to", "1"],
        &["verify"],
    ];
    for command in commands {
        let near = "fis: there is no tenant `acme_shop`, did you mean `acme-shop`?\n";
        let said = world.fis(&[command, &["--tenant", "acme_shop"]].concat()).await.expect(2, &[near]);
        assert!(said.stdout.is_empty(), "{said:?}");
        let said = world.fis_with(command, &[("FIS_TENANT", "zzz")]).await;
        if command.contains(&"discard") {
            continue;
        }
        said.expect(2, &["fis: there is no tenant `zzz`; `fis tenants` lists them\n"]);
    }
}
