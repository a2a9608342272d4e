//! Who did it: every command that writes finds the person in one way, and refuses where nobody can be named.

use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::support::events::{books, order, payment};
use crate::support::process::FIS;
use crate::support::wait::{same, wait_until};
use crate::support::world::World;

async fn texts(world: &World, sql: &'static str) -> Vec<String> {
    sqlx::query_scalar(sql).fetch_all(&world.pool).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_record_names_whoever_is_named_first() {
    let world = World::new("who").await;
    world.publish(&[order("a"), order("b"), order("c"), order("d")]).await;
    world.fis(&["run", "--once"]).await.expect(0, &[]);
    let login = String::from_utf8(Command::new("id").arg("-un").output().unwrap().stdout).unwrap();
    let (none, anna): (&[&str], &[&str]) = (&[], &["--by", "anna"]);
    let rows = [
        ("1", anna, [("FIS_OPERATOR", "bob"), ("USER", "carl")], "anna"),
        ("2", none, [("FIS_OPERATOR", "bob"), ("USER", "carl")], "bob"),
        ("3", none, [("FIS_OPERATOR", ""), ("USER", "carl")], "carl"),
        ("4", none, [("FIS_OPERATOR", ""), ("USER", "")], login.trim()),
    ];
    for (entry, by, environment, name) in rows {
        let args = [&["revert", entry, "--why", "twice", "--yes"], by].concat();
        world.fis_with(&args, &environment).await.expect(0, &[]);
        let description = format!("Reversal of acme/{entry} by {name}: twice");
        let found = sqlx::query_scalar::<_, i64>("select count(*) from fis_journal_entry where description = $1");
        assert_eq!(found.bind(&description).fetch_one(&world.pool).await.unwrap(), 1, "{description}");
    }
    let file = world.file("other.toml", books("other"));
    world.fis_with(&["books", "apply", &file, "--yes"], &[("FIS_OPERATOR", "bob")]).await.expect(0, &[]);
    assert_eq!(texts(&world, "select applied_by from fis_books where tenant_id = 'other'").await, ["bob"]);
    let resend = ["feed", "resend", "-t", "acme", "--from", "1", "--to", "1", "--why", "a reader lost it"];
    world.fis_with(&resend, &[("FIS_OPERATOR", "bob")]).await.expect(0, &["sent 1 event of"]);
    let log = "select concat_ws(': ', by, detail, why) from fis_operator_log where act = 'resend'";
    assert_eq!(
        texts(&world, log).await,
        ["bob: sends sequence 1 to 1 of acme again to fis.domain.exchange: a reader lost it"]
    );
    world.fis(&["verify"]).await.expect(0, &["verified"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_writes_refuses_a_name_that_is_none() {
    let world = World::new("who_wrong").await;
    let mut run = world.run().await;
    world.publish(&[order("a"), payment("bad", "9999", "1.50").rejected("unknown_account")]).await;
    world.rest(&mut run).await;
    let id: String = sqlx::query_scalar("select id from fis_dead_letter").fetch_one(&world.pool).await.unwrap();
    let file = world.file("other.toml", books("other"));
    let why = ["--why", "x"];
    let commands: [&[&str]; 11] = [
        &["books", "apply", &file, "--yes"],
        &["revert", "1", "--yes", why[0], why[1]],
        &["dlq", "edit", &id, "--set", "/payload/account=1100", "--yes", why[0], why[1]],
        &["dlq", "replay", &id, "--yes"],
        &["dlq", "replay", "--pause", "1"],
        &["dlq", "replay", "--stop", "1", "--yes"],
        &["dlq", "discard", &id, "--yes", why[0], why[1]],
        &["dlq", "restore", &id, why[0], why[1]],
        &["dlq", "prune", "--older-than", "0s", "--yes"],
        &["held", "release", "--yes"],
        &["feed", "resend", "--from", "1", "--to", "1"],
    ];
    let before = world.count("select count(*) from fis_operator_log").await;
    let long = "x".repeat(201);
    for command in commands {
        for (name, words) in
            [("", "nobody is named"), ("a\u{1b}b", "control character"), (&long, "longer than 200 bytes")]
        {
            let args = [command, &["--by", name]].concat();
            world.fis(&args).await.expect(2, &["--by", words]);
        }
    }
    assert_eq!(world.count("select count(*) from fis_operator_log").await, before);
    assert_eq!(world.count("select count(*) from fis_journal_entry").await, 1);
    assert_eq!(world.count("select count(*) from fis_books").await, 1);

    // Nobody at all: a user that the password file does not have, as containers run programs.
    let mut nobody = Command::new(FIS);
    nobody.args(["revert", "1", "--why", "x", "--yes"]).env_clear().current_dir("/").uid(54_321);
    match nobody.output() {
        Ok(said) => {
            let text = String::from_utf8_lossy(&said.stderr).into_owned();
            assert_eq!(said.status.code(), Some(2), "{text}");
            assert!(text.contains("--by NAME") && text.contains("FIS_OPERATOR"), "{text}");
        }
        // Only root may run a program as somebody else, and only what that one can reach.
        Err(error) => eprintln!("skipped: {error}"),
    }
    wait_until("it is at rest", async || same(world.count("select count(*) from fis_outbox").await, 0)).await;
}
