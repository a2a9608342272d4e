//! What fis says when something is wrong: errors name server, address and setting; log lines name their event; an outage is told once.

use serde_json::Value;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::support::events::{Message, order, payment};
use crate::support::process::Run;
use crate::support::servers::with_path;
use crate::support::wait::{same, wait_until};
use crate::support::world::World;

/// The log's lines whose message contains a text.
fn lines(run: &Run, text: &str) -> Vec<Value> {
    let log = run.log();
    let all = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    all.filter(|line| line["message"].as_str().is_some_and(|message| message.contains(text))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_names_server_address_and_setting_in_one_sentence() {
    let world = World::new("sentences").await;
    let file = world.file("own.toml", "[database]\nurl = \"postgres://x@127.0.0.1:1/fis\"\n");
    let said = world.fis_with(&["migrate"], &[("FIS_DATABASE_URL", "postgres://x@127.0.0.1:1/fis")]).await;
    let from = "address from the environment variable FIS_DATABASE_URL";
    assert_eq!(said.stderr, format!("fis: PostgreSQL at 127.0.0.1:1 refuses connections ({from})\n"));
    let said = world.bare_fis(&["--config", &file, "dlq", "list"]).await;
    assert_eq!(said.stderr, format!("fis: PostgreSQL at 127.0.0.1:1 refuses connections (address from {file})\n"));

    let stranger = world.amqp_url.replacen("://", "://stranger", 1);
    let (no_database, no_vhost) = (with_path(&world.database_url, "nothing"), with_path(&world.amqp_url, "nowhere"));
    let rows = [
        ("dlq list", "FIS_DATABASE_URL", no_database.as_str(), "\"nothing\" does not exist"),
        ("topology check", "FIS_AMQP_URL", "amqp://x@127.0.0.1:1/%2F", "RabbitMQ at 127.0.0.1:1 refuses connections"),
        ("topology check", "FIS_AMQP_URL", &no_vhost, "virtual host `nowhere` (NOT_ALLOWED)"),
        ("topology check", "FIS_AMQP_URL", &stranger, "(ACCESS_REFUSED): no such user, or a wrong password"),
        ("run", "FIS_AMQP_URL", &stranger, "refuses user `stranger"),
    ];
    for (command, variable, url, words) in rows {
        let command: Vec<&str> = command.split(' ').collect();
        let said = world.fis_with(&command, &[(variable, url)]).await.expect(1, &[words, variable]);
        let last = said.stderr.lines().last().unwrap();
        for library in ["pool timed out", "at line", "soft error", "IO error", "os error"] {
            assert!(!last.contains(library), "{last}");
        }
        assert_eq!(last.matches(words).count(), 1, "{last}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejection_is_found_in_the_log_by_its_event() {
    let world = World::new("named").await;
    let mut run = world.run().await;
    world.publish(&[payment("bad-1", "9999", "12.34").rejected("unknown_account")]).await;
    let line = wait_until("the rejection is logged", async || {
        lines(&run, "bad-1").into_iter().next().ok_or_else(|| run.log())
    })
    .await;
    let list = world.fis(&["dlq", "list", "--json"]).await.json();
    let letter = &list["deadLetters"][0];
    assert_eq!(line["level"], "WARN");
    for (field, member) in [
        ("tenant.id", "tenantId"),
        ("event.id", "eventId"),
        ("dead_letter.id", "id"),
        ("routing_key", "routingKey"),
        ("reason", "reason"),
    ] {
        assert_eq!(line[field], letter[member], "{field} in {line}");
    }
    // A flood: a few lines, and the number of the others.
    let flood: Vec<Message> =
        (0..200).map(|n| Message::new("a.b.c", format!("{{{n}")).rejected("malformed_json")).collect();
    world.publish(&flood).await;
    wait_until("all are counted", async || {
        let told = lines(&run, "malformed_json");
        let counted: u64 = told.iter().map(|line| line["count"].as_u64().unwrap_or(1)).sum();
        same(counted, 200)
    })
    .await;
    assert!(lines(&run, "malformed_json").len() < 100, "{}", run.log());
    run.terminate().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_lines_say_what_runs_with_which_settings_against_which_servers() {
    let world = World::new("first_lines").await;
    let mut one = world.run().await;
    wait_until("it relays", async || same(lines(&one, "relaying").len(), 1)).await;
    let starts = &lines(&one, "starts")[0];
    assert_eq!(starts["version"], env!("CARGO_PKG_VERSION"));
    assert!(starts["message"].as_str().unwrap().contains("FIS_DATABASE_URL"), "{starts}");
    let servers = &lines(&one, "HTTP on")[0];
    assert_eq!(servers["http.address"], one.addr.as_str());
    assert!(world.database_url.contains(servers["postgres.address"].as_str().unwrap()), "{servers}");
    assert_eq!(lines(&one, "ready").iter().filter(|line| line["message"] == "ready").count(), 1);
    let mut two = world.run().await;
    wait_until("it stands by", async || same(lines(&two, "standing by").len(), 1)).await;
    assert_eq!(lines(&two, "relaying").len(), 0);
    two.terminate().await;
    one.terminate().await;
}

/// A door to the broker that can be shut: what is open breaks, and what knocks is refused.
struct Door {
    place: String,
    behind: String,
    open: Option<JoinHandle<()>>,
}

impl Door {
    async fn new(behind: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut door =
            Self { place: listener.local_addr().unwrap().to_string(), behind: behind.to_owned(), open: None };
        door.serve(listener);
        door
    }

    fn serve(&mut self, listener: TcpListener) {
        let behind = self.behind.clone();
        self.open = Some(tokio::spawn(async move {
            let mut inside = tokio::task::JoinSet::new();
            loop {
                let (mut client, _) = listener.accept().await.unwrap();
                let mut server = TcpStream::connect(&behind).await.unwrap();
                inside.spawn(async move { drop(copy_bidirectional(&mut client, &mut server).await) });
            }
        }));
    }

    async fn shut(&mut self) {
        let open = self.open.take().unwrap();
        open.abort();
        let _ = open.await;
    }

    async fn open(&mut self) {
        let listener = wait_until("the port is free", async || {
            TcpListener::bind(&self.place).await.map_err(|error| error.to_string())
        })
        .await;
        self.serve(listener);
    }
}

/// The place of an address, `host:port`.
fn place(url: &str) -> &str {
    let authority = url.split("://").nth(1).unwrap().split('/').next().unwrap();
    authority.rsplit('@').next().unwrap()
}

/// A service whose server is shut out and let in again, while nothing is published: nobody but its own tasks can notice.
async fn told_once(name: &str, variable: &str, server: &str, parts: &[&str]) {
    let world = World::new(name).await;
    let url = if variable == "FIS_AMQP_URL" { &world.amqp_url } else { &world.database_url };
    let url = url.split(',').next().unwrap();
    let mut door = Door::new(place(url)).await;
    let url = url.replacen(place(url), &door.place, 1);
    let mut run = world.run_with(&[(variable, &url)]).await;
    wait_until("it relays", async || same(lines(&run, "relaying").len(), 1)).await;

    door.shut().await;
    for part in parts {
        wait_until("the part is told", async || {
            let (status, body) = run.get("/readyz").await;
            let ready: Value = serde_json::from_str(&body).map_err(|error| error.to_string())?;
            let why = ready["parts"][part].as_str().unwrap_or_default();
            let is_told = status == 503 && why.contains("refuses connections") && ready["since"][part].is_string();
            if is_told { Ok(()) } else { Err(body) }
        })
        .await;
    }
    let told = lines(&run, &format!("cannot use {server} at {}", door.place));
    assert_eq!((told.len(), &told[0]["level"]), (1, &Value::from("WARN")), "{}", run.log());
    assert_eq!(lines(&run, "relaying").len(), 1, "{}", run.log());
    door.open().await;
    run.ready().await;
    wait_until("it is told", async || {
        same(lines(&run, &format!("{server} at {} can be used again", door.place)).len(), 1)
    })
    .await;
    world.publish(&[order("after")]).await;
    wait_until("it has left", async || {
        let left =
            world.count("select count(*) from fis_journal_entry where not exists (select from fis_outbox)").await;
        same(left, 1)
    })
    .await;
    assert_eq!(lines(&run, "cannot use").len(), 1, "{}", run.log());
    assert!(lines(&run, "relaying").len() <= 2, "{}", run.log());
    run.terminate().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_service_tells_an_outage_of_the_broker_once_and_its_end_once() {
    told_once("no_broker", "FIS_AMQP_URL", "RabbitMQ", &["broker-in", "broker-out"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_service_tells_an_outage_of_postgresql_once_and_its_end_once() {
    told_once("no_database", "FIS_DATABASE_URL", "PostgreSQL", &["postgres"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_are_shown_with_their_origin_and_without_their_secrets() {
    let world = World::new("listing").await;
    let file = world.file("own.toml", "[intake]\nprefetch = 77\n");
    let environment =
        [("FIS_REDIS_URL", "redis://user:tops3cret@127.0.0.1:1/1"), ("FIS__AUDIT__SIGNING_KEY", "tops3cret")];
    let said = world.fis_with(&["--config", &file, "config", "show", "--json"], &environment).await.expect(0, &[]);
    assert!(!said.all().contains("tops3cret"), "{said:?}");
    let settings = said.json();
    let setting = |name: &str| settings.as_array().unwrap().iter().find(|one| one["name"] == name).unwrap().clone();
    assert_eq!(
        (&setting("intake.prefetch")["value"], &setting("intake.prefetch")["origin"]),
        (&"77".into(), &file.as_str().into())
    );
    assert_eq!(setting("redis.url")["value"], "redis://user:***@127.0.0.1:1/1");
    assert_eq!(setting("redis.url")["origin"], "the environment variable FIS_REDIS_URL");
    assert_eq!(setting("audit.signing_key")["value"], "***");
    assert_eq!(setting("outbox.window")["origin"], "default");
    let said = world.fis_with(&["config", "show"], &environment).await.expect(0, &["outbox.window = 1000"]);
    assert!(!said.all().contains("tops3cret"), "{said:?}");

    // No server is asked.
    world.fis_with(&["config", "check"], &environment).await.expect(0, &["FIS_REDIS_URL"]);
    for (name, value, word) in [
        ("FIS__INTAKE__PREFETCH", "0", "intake.prefetch"),
        ("FIS_AMQP_URL", "nonsense", "amqp.url"),
        ("FIS__LOG__FILTER", "fis=loud", "log.filter"),
        ("FIS__INTAKE__DEFAULT_TENANT", "a:b", "intake.default_tenant"),
    ] {
        world.fis_with(&["config", "check"], &[(name, value)]).await.expect(2, &[word]);
    }
}
