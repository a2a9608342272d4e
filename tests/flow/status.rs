//! What the admin at three in the morning sees: `fis status` with everything well, with nobody at work, and with each server gone.

use serde_json::{Value, json};

use crate::support::events::{Message, order, order_of, payment};
use crate::support::process::{Run, Said};
use crate::support::wait::wait_until;
use crate::support::world::{Setup, World};

/// The three servers, each at a place where nobody listens.
const GONE: [(&str, &str, &str); 3] = [
    ("FIS_DATABASE_URL", "postgres://user:tops3cret@127.0.0.1:1/fis", "PostgreSQL"),
    ("FIS_AMQP_URL", "amqp://user:tops3cret@127.0.0.1:1/%2Ffis", "RabbitMQ"),
    ("FIS_REDIS_URL", "redis://user:tops3cret@127.0.0.1:1/1", "Redis"),
];

fn first_line(said: &Said) -> &str {
    said.stdout.lines().next().unwrap()
}

#[track_caller]
fn fits_a_terminal(said: &Said) {
    for line in said.stdout.lines() {
        assert!(line.chars().count() <= 80, "{} columns: {line}", line.chars().count());
    }
}

/// The status as JSON, once the instances are as expected.
async fn instances(world: &World, here: &Run, expected: usize) -> Value {
    wait_until("the instances are known", async || {
        let status = world.fis_with(&["status", "--json"], &[("FIS_HTTP_ADDR", &here.addr)]).await.json();
        let known = status["instances"].as_array().unwrap();
        let is_settled =
            known.len() == expected && known.iter().all(|one| one["alive"] == true && one["ready"] == true);
        if is_settled && known[0]["relays"] == true { Ok(status) } else { Err(status.to_string()) }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_that_nobody_serves_is_told_before_everything_else() {
    let world = World::new("nobody").await;
    world.publish(&[order("one"), order("two"), order("three")]).await;
    let said = world.fis(&["status"]).await.expect(1, &["3 events wait in the broker", "fis run", "answers"]);
    assert_eq!(first_line(&said), "Nobody takes events: no fis is running.");
    fits_a_terminal(&said);
    let status = world.fis(&["status", "--json"]).await.expect(1, &[]).json();
    assert_eq!((&status["degraded"], &status["instances"]), (&json!(true), &json!([])));
    assert_eq!(status["queues"]["fis.ingestion.queue"]["ready"], 3, "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_are_shown_from_their_start_to_their_end() {
    let world = World::new("instances").await;
    let mut one = world.run().await;
    let status = instances(&world, &one, 1).await;
    assert_eq!((&status["verdict"], &status["degraded"]), (&json!("All well."), &json!(false)));
    let mut two = world.run().await;
    let status = instances(&world, &one, 2).await;
    let relays: Vec<&Value> = status["instances"].as_array().unwrap().iter().map(|one| &one["relays"]).collect();
    assert_eq!(relays, [true, false], "{status}");
    let said = world.fis_with(&["status"], &[("FIS_HTTP_ADDR", &one.addr)]).await.expect(0, &["relays", "stands by"]);
    assert_eq!(first_line(&said), "All well.");
    fits_a_terminal(&said);

    // Who ends takes its row away; who is killed leaves one that grows old.
    two.terminate().await;
    assert_eq!(world.count("select count(*) from fis_instance").await, 1);
    one.kill();
    world.sql("update fis_instance set seen_at = now() - interval '76 seconds'").await;
    let said = world.fis(&["status"]).await.expect(1, &["silent for 1m"]);
    assert_eq!(first_line(&said), "Nobody takes events: no fis is running.");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_part_that_answers_is_shown_although_a_server_does_not() {
    let world = World::new("one_gone").await;
    world.publish(&[order("waits")]).await;
    for (variable, url, name) in GONE {
        let gone = [(variable, url)];
        let said = world.fis_with(&["status"], &gone).await;
        let said = said.expect(1, &["127.0.0.1:1", "refuses connections", variable, "Nothing is lost"]);
        assert_eq!(first_line(&said), format!("{name} does not answer."));
        // Whoever cannot tell whether a service runs does not say that none does.
        let text = said.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        let last = if name == "PostgreSQL" { "Nothing else to do." } else { "start it with `fis run`." };
        assert!(text.ends_with(last), "{text}");
        assert_eq!(said.stdout.matches("answers").count(), 2, "the two others: {said:?}");
        assert!(!said.all().contains("tops3cret"), "{said:?}");
        fits_a_terminal(&said);

        let status = world.fis_with(&["status", "--json"], &gone).await.expect(1, &[]).json();
        let has = |member: &str| !status[member].is_null();
        assert_eq!(has("outbox") && has("deadLetters") && has("held"), name != "PostgreSQL", "{status}");
        assert_eq!(has("queues"), name != "RabbitMQ", "{status}");
        let broken: Vec<&Value> =
            status["servers"].as_array().unwrap().iter().filter(|server| server["state"] != "ok").collect();
        assert_eq!((broken.len(), &broken[0]["name"]), (1, &json!(name)), "{status}");
    }
    let said = world.fis_with(&["status"], &GONE.map(|(variable, url, _)| (variable, url))).await.expect(1, &[]);
    assert_eq!(first_line(&said), "PostgreSQL, RabbitMQ and Redis cannot be used.");
}

/// No start of a server mends what the server refuses.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_refuses_is_no_silence() {
    let world = World::new("refused").await;
    world.sql("revoke select on fis_outbox from fis_service").await;
    let status = world.fis(&["status", "--json"]).await.expect(1, &[]).json();
    assert_eq!(status["servers"][0]["state"], "refuses", "{status}");
    assert!(status["advice"].as_str().unwrap().contains("permission denied"), "{status}");
    world.sql("grant select on fis_outbox to fis_service").await;
    // A newer program has been here.
    world.sql("insert into _sqlx_migrations (version, description, success, checksum, execution_time) values (999, '', true, '', 0)").await;
    let said = world.fis(&["status"]).await.expect(1, &["run a newer fis"]);
    assert!(!said.stdout.contains("fis setup"), "{said:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_running_service_knows_since_when_a_server_is_gone() {
    let world = World::new("since").await;
    let (variable, url, _) = GONE[2];
    let run = world.run_with(&[(variable, url)]).await;
    wait_until("the service has missed Redis", async || {
        let status =
            world.fis_with(&["status", "--json"], &[(variable, url), ("FIS_HTTP_ADDR", &run.addr)]).await.json();
        if status["servers"][2]["since"].is_string() { Ok(()) } else { Err(status.to_string()) }
    })
    .await;
    world.fis_with(&["status"], &[(variable, url), ("FIS_HTTP_ADDR", &run.addr)]).await.expect(1, &["since"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn money_that_is_stuck_is_added_up_by_currency() {
    let world = World::new("stuck").await;
    let nobody = |id: &str, currency: &str, total: &str| {
        order_of("nobody", id, currency, total, "0.00").rejected("unknown_tenant")
    };
    world
        .publish(&[
            payment("bad", "9999", "12.34").rejected("unknown_account"),
            nobody("two", "EUR", "100.00"),
            nobody("three", "USD", "7.00"),
            Message::new("a.b.c", "{").rejected("malformed_json"),
        ])
        .await;
    world.fis(&["run", "--once"]).await.expect(0, &[]);
    let money = "112.34 EUR + 7.00 USD + 1 without an amount";
    world.fis(&["status"]).await.expect(1, &[&format!("together {money}"), "4 open"]);
    world.fis(&["dlq", "groups"]).await.expect(0, &[&format!("together {money}")]);
    let status = world.fis(&["status", "--json"]).await.json();
    let sums = json!([
        {"currency": "EUR", "letters": 2, "amount": "112.34"},
        {"currency": "USD", "letters": 1, "amount": "7.00"},
    ]);
    assert_eq!(status["deadLetters"]["money"], sums, "{status}");
}

/// An empty database and an empty virtual host: the start says in three lines what is missing, and one command makes it.
#[tokio::test(flavor = "multi_thread")]
async fn one_command_makes_everything_that_a_first_start_misses() {
    let bare = Setup { migrated: false, topology: false, tenants: &[], ..Setup::default() };
    let world = World::with("setup", bare).await;
    let owner = world.owner_url();
    let as_owner = [("FIS_DATABASE_URL", owner.as_str())];
    world.fis(&["run", "--once"]).await.expect(1, &["fis setup"]);
    world.fis(&["status"]).await.expect(1, &["fis is not set up", "fis setup"]);
    world.fis_with(&["setup"], &as_owner).await.expect(2, &["--yes"]);
    assert_eq!(
        world.count("select count(*) from pg_class where relname = 'fis_outbox'").await,
        0,
        "nobody confirmed it"
    );
    // The tables first: the topology alone is missing then.
    world.migrate().await.expect(0, &[]);
    let said = world.fis(&["run", "--once"]).await.expect(1, &["fis.ingestion.queue", "fis setup"]);
    let refusal = said.stderr.lines().skip_while(|line| !line.starts_with("fis: ")).count();
    assert_eq!(refusal, 3, "{said:?}");

    world
        .fis_with(&["setup", "--yes"], &as_owner)
        .await
        .expect(0, &["version", "queues made", "fis books apply", "fis run"]);
    world.fis_with(&["setup", "--yes"], &as_owner).await.expect(0, &["already", "0 exchanges"]);
    let mut run = world.run().await;
    let status = instances(&world, &run, 1).await;
    assert!(status["verdict"].as_str().unwrap().contains("No books are applied"), "{status}");
    assert!(run.log().contains("no books are applied"), "{}", run.log());
    run.terminate().await;
}
