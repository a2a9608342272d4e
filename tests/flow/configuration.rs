//! Settings: what is unknown or wrong refuses the start by its name, and no secret leaves.

use futures::future::join_all;

use crate::support::servers::with_path;
use crate::support::world::{Setup, World};

async fn small(name: &str) -> World {
    World::with(name, Setup { topology: false, tenants: &[], ..Setup::default() }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_or_unknown_setting_stops_the_start_with_its_name() {
    let world = small("settings").await;
    let rows: [(&str, &str, &[&str]); 12] = [
        ("FIS__INTAKE__PREFETCHED", "10", &["intake.prefetched", "FIS__INTAKE__PREFETCHED", "intake.prefetch"]),
        ("FIS__NOWHERE__KEY", "10", &["nowhere.key"]),
        ("FIS__AMQP_URL", "amqp://x", &["FIS__AMQP_URL"]),
        ("FIS__INTAKE__PREFETCH", "many", &["intake.prefetch", "a whole number"]),
        ("FIS__INTAKE__PREFETCH", "0", &["intake.prefetch", "from 1"]),
        ("FIS__INTAKE__PREFETCH", "99999999", &["intake.prefetch", "to "]),
        ("FIS__DATABASE__CONNECTIONS_MAX", "1", &["database.connections_max"]),
        ("FIS__INTAKE__HOLD_SECONDS", "3600", &["intake.hold_seconds"]),
        ("FIS__LOG__FORMAT", "xml", &["log.format", "json"]),
        ("FIS__LOG__FILTER", "fis=loud", &["setting `log.filter`"]),
        ("FIS__OUTBOX__MIRROR__ENABLED", "true", &["outbox.mirror.exchange"]),
        ("FIS__INTAKE__DEFAULT_TENANT", "a:b", &["intake.default_tenant"]),
    ];
    for (name, value, words) in rows {
        world.fis_with(&["run"], &[(name, value)]).await.expect(2, words);
    }
    for (name, setting) in
        [("FIS_AMQP_URL", "amqp.url"), ("FIS_REDIS_URL", "redis.url"), ("FIS_DATABASE_URL", "database.url")]
    {
        for value in ["nonsense://tops3cret", "tops3cret", ""] {
            let said = world.fis_with(&["run"], &[(name, value)]).await.expect(2, &[setting]);
            assert!(!said.all().contains("tops3cret"), "{said:?}");
        }
    }
}

/// Kubernetes gives these to every pod where a Service is named `fis`; the last one is a password that was meant for somebody else.
#[tokio::test(flavor = "multi_thread")]
async fn a_variable_that_is_no_setting_is_warned_about_once_and_ignored() {
    let world = World::new("strangers").await;
    let strangers = [
        ("FIS_SERVICE_HOST", "10.0.0.1"),
        ("FIS_PORT", "tcp://10.0.0.1:8080"),
        ("FIS_PORT_8080_TCP_ADDR", "10.0.0.1"),
        ("FIS_AMQP_PASSWORD", "tops3cret"),
    ];
    let named = "FIS_AMQP_PASSWORD, FIS_PORT, FIS_PORT_8080_TCP_ADDR, FIS_SERVICE_HOST;";
    let warnings = |text: &str| text.matches("FIS_SERVICE_HOST").count();

    let said = world.fis_with(&["config", "show", "--json"], &strangers).await.expect(0, &[]);
    said.json();
    assert!(said.stderr.contains(named) && warnings(&said.stderr) == 1, "{said:?}");

    let mut run = world.spawn(&strangers);
    run.ready().await;
    run.terminate().await;
    let log = run.log();
    assert!(log.contains(named) && warnings(&log) == 1, "{log}");
    assert!(!log.contains("tops3cret") && !said.all().contains("tops3cret"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_file_is_read_and_the_environment_overrides_it() {
    let world = small("file").await;
    let rows = [
        ("[intake]\nprefetched = 10\n", &["intake.prefetched", "fis.toml"][..]),
        ("[intakes]\nprefetch = 10\n", &["intakes"]),
        ("[intake]\nprefetch = \"10\"\n", &["intake.prefetch", "whole number"]),
        ("[intake]\nprefetch = 0\n", &["intake.prefetch"]),
        ("prefetch = 10\n", &["prefetch"]),
        ("[intake\n", &["fis.toml", "line 1"]),
    ];
    for (text, words) in rows {
        // `fis.toml` in the working directory is read without being named.
        let file = world.file("fis.toml", text);
        world.fis(&["migrate"]).await.expect(2, words);
        world.fis(&["--config", &file, "migrate"]).await.expect(2, words);
        world.fis_with(&["migrate"], &[("FIS_CONFIG", &file)]).await.expect(2, words);
    }
    world.file("fis.toml", "[database]\nurl = \"postgres://nobody@127.0.0.1:1/nothing\"\n");
    world.migrate().await.expect(0, &[]);
    world.fis(&["--config", "/nowhere/fis.toml", "migrate"]).await.expect(2, &["/nowhere/fis.toml"]);
    world.fis(&["no-such-command"]).await.expect(2, &[]);
}

/// Each server is replaced by a closed port, with a password in its address.
#[tokio::test(flavor = "multi_thread")]
async fn a_password_never_appears_in_any_output() {
    let world = small("secrets").await;
    let secrets = [
        ("FIS_AMQP_URL", "amqp://user:tops3cret@127.0.0.1:1/%2Ffis"),
        ("FIS_REDIS_URL", "redis://user:tops3cret@127.0.0.1:1/1"),
        ("FIS_DATABASE_URL", "postgres://user:tops3cret@127.0.0.1:1/fis?connect_timeout=1&sslpassword=tops3cret"),
        ("FIS__AMQP__TIMEOUT_MS", "500"),
        ("FIS__LOG__FILTER", "trace"),
    ];
    let commands: [&[&str]; 9] = [
        &["--help"],
        &["run", "--help"],
        &["status"],
        &["topology", "check"],
        &["topology", "apply"],
        &["migrate"],
        &["dlq", "list"],
        &["verify"],
        &["books", "show", "--tenant", "acme"],
    ];
    // Side by side: most of them wait for a connection first.
    let said = join_all(commands.map(|command| world.fis_with(command, &secrets))).await;
    for (command, said) in commands.iter().zip(said) {
        assert!(!said.all().contains("tops3cret"), "{command:?}: {said:?}");
        assert!(!said.all().contains("dXNlcjp0b3BzM2NyZXQ"), "the authorization header is the password, too");
    }
    // A wrong file quotes neither the line nor the value.
    let file = world.file("wrong.toml", "[amqp]\nurl = \"amqp://user:tops3cret@h/\nx = 1\n");
    let said = world.fis(&["--config", &file, "status"]).await.expect(2, &["wrong.toml", "line 2"]);
    assert!(!said.all().contains("tops3cret"), "{said:?}");

    // `fis run` waits for servers that are away, and says so without the password; one away at a time, the rest is real.
    for (name, value) in &secrets[..3] {
        let mut run = world.spawn(&[(name, value), ("FIS__AMQP__TIMEOUT_MS", "500"), ("FIS__LOG__FILTER", "trace")]);
        crate::support::wait::wait_until("it says what is away", async || {
            let (_, ready) = run.get("/readyz").await;
            let said = ready.contains("away") || !run.is_running();
            if said { Ok(()) } else { Err(ready) }
        })
        .await;
        let (_, ready) = run.get("/readyz").await;
        let (_, metrics) = run.get("/metrics").await;
        run.kill();
        let log = run.log();
        assert!(log.len() > 100, "there is a log to look at");
        // A parameter of an address that nobody reads is told by its name.
        assert_eq!(log.contains("sslpassword"), *name == "FIS_DATABASE_URL", "{log}");
        for text in [log, ready, metrics] {
            assert!(!text.contains("tops3cret"), "{name}: {text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_is_told_without_the_password() {
    let world = small("wrong_password").await;
    let wrong = world.amqp_url.replacen(":secret@", ":tops3cret@", 1);
    if wrong == world.amqp_url {
        return; // not the private broker, whose password is known
    }
    for command in [&["status"][..], &["topology", "check"]] {
        let said = world.fis_with(command, &[("FIS_AMQP_URL", &wrong)]).await.expect(1, &[]);
        assert!(!said.all().contains("tops3cret"), "{said:?}");
    }
}

/// A server that is away comes back by itself; a missing virtual host, database or password does not.
#[tokio::test(flavor = "multi_thread")]
async fn what_only_a_person_can_mend_stops_the_start() {
    let world = World::new("a_person").await;
    let host = with_path(&world.amqp_url, "nowhere");
    world.fis_with(&["run"], &[("FIS_AMQP_URL", &host)]).await.expect(1, &["nowhere"]);
    let database = with_path(&world.database_url, "nothing");
    world.fis_with(&["run"], &[("FIS_DATABASE_URL", &database)]).await.expect(1, &["nothing"]);
    let user = world.amqp_url.replacen("://", "://stranger", 1);
    let said = world.fis_with(&["run"], &[("FIS_AMQP_URL", &user)]).await.expect(1, &[]);
    assert!(said.all().to_lowercase().contains("access"), "{said:?}");
}
