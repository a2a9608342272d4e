//! The examples for publishers: each gets its events into fis through a full queue and a lost connection, books none twice, hears what was
//! rejected, and stops where only an operator can help.

use std::process::Output;
use std::sync::LazyLock;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::process::{Child, Command};

use super::{in_node, in_python, in_rust, project, tmp, works};
use crate::support::broker::{Guest, LANES};
use crate::support::events::{Message, order, order_of};
use crate::support::wait::wait_until;
use crate::support::world::{Setup, World};

const QUEUE: &str = "shop.rejections";

/// The class path of the jars that Debian has; they are unpacked and not installed.
static JARS: LazyLock<Option<String>> = LazyLock::new(|| {
    let place = tmp("amqp-client");
    let jars = place.join("usr/share/java");
    if !jars.join("amqp-client.jar").exists() {
        std::fs::create_dir_all(&place).unwrap();
        let packages = "librabbitmq-client-java libslf4j-java libjackson2-databind-java libjackson2-core-java \
                        libjackson2-annotations-java";
        let fetch = format!("cd \"$0\" && apt-get download {packages} && for deb in *.deb; do dpkg -x $deb .; done");
        works(&"sh".into(), &["-c", &fetch, place.to_str().unwrap()]);
    }
    let needed = ["amqp-client", "slf4j-api", "slf4j-nop", "jackson-databind", "jackson-core", "jackson-annotations"];
    let paths = needed.map(|jar| jars.join(format!("{jar}.jar")));
    let is_whole = paths.iter().all(|path| path.exists()) && works(&"java".into(), &["--version"]);
    is_whole.then(|| paths.map(|path| path.to_str().unwrap().to_owned()).join(":"))
});

fn in_java(file: &str) -> Option<Vec<String>> {
    let Some(jars) = JARS.as_ref() else {
        eprintln!("skipped: java is not there, or apt-get cannot download its packages");
        return None;
    };
    Some(vec!["java".to_owned(), "-cp".to_owned(), jars.clone(), project(&format!("examples/{file}"))])
}

/// A publisher with a file of events, for as many rejections. What it says can be read while it runs.
struct Running {
    child: Child,
    said: std::path::PathBuf,
}

impl Running {
    fn start(world: &World, url: &str, command: &[String], events: &[Message], rejections: usize) -> Self {
        let line = |message: &Message| json!({"routingKey": message.routing_key, "body": message.value()}).to_string();
        let file = world.file("events.ndjson", events.iter().map(line).collect::<Vec<_>>().join("\n"));
        let said = world.dir.join("said.txt");
        let (program, args) = command.split_first().unwrap();
        let mut command = Command::new(program);
        command.args(args).args([QUEUE, &file, &rejections.to_string()]).env("FIS_AMQP_URL", url).kill_on_drop(true);
        command.stdout(std::fs::File::create(&said).unwrap()).stderr(std::process::Stdio::piped());
        Self { child: command.spawn().unwrap(), said }
    }

    async fn says(&self, words: &str) {
        wait_until(words, async || {
            let said = std::fs::read_to_string(&self.said).unwrap();
            if said.contains(words) { Ok(()) } else { Err(said) }
        })
        .await;
    }

    /// Its end: whether it succeeded, and both streams together.
    async fn ends(self) -> (bool, String) {
        let Output { status, stderr, .. } =
            tokio::time::timeout(Duration::from_secs(60), self.child.wait_with_output())
                .await
                .unwrap_or_else(|_| panic!("it does not end: {:?}", std::fs::read_to_string(&self.said)))
                .unwrap();
        let said = std::fs::read_to_string(&self.said).unwrap();
        (status.success(), said + &String::from_utf8_lossy(&stderr))
    }
}

/// Cuts every connection of a user, as soon as the broker lists it.
async fn cut(world: &World, user: &Guest) {
    let path = format!("{}/connections", world.management.list_path("vhosts"));
    wait_until("the connection is cut", async || {
        let all: Vec<Value> = world.management.get_json(&path).await.map_err(|error| error.to_string())?;
        let own = all.iter().filter(|one| one["user"] == user.name.as_str()).filter_map(|one| one["name"].as_str());
        let own: Vec<&str> = own.collect();
        for name in &own {
            // It may be gone by now.
            let _ =
                world.management.delete(&format!("connections/{}", name.replace(' ', "%20").replace('>', "%3E"))).await;
        }
        if own.is_empty() { Err(format!("{all:?}")) } else { Ok(()) }
    })
    .await;
}

async fn publishes_hears_and_stops(name: &str, command: &[String]) {
    let world = World::new(name).await;
    let readme = include_str!("../../../topology/README.md");
    let rights = readme.lines().find_map(|line| line.strip_prefix("rabbitmqctl set_permissions --vhost /fis shop "));
    let rights: Vec<&str> = rights.expect("the README names its rights").split('\'').skip(1).step_by(2).collect();
    let shop = world.guest("shop", rights.try_into().unwrap()).await;
    let events = [order("o1"), order_of("acme", "bad", "EUR", "1.001", "0"), order("o2"), order("o3")];

    // The queue takes one event; the next is refused until there is room. Meanwhile the connection is lost.
    let policy = world.fill_up(LANES[0]).await;
    let publisher = Running::start(&world, &shop.url, command, &events, 1);
    publisher.says("refused ").await;
    cut(&world, &shop).await;
    publisher.says("lost ").await;
    world.management.delete(&policy).await.unwrap();
    let mut run = world.run().await;
    let (is_done, said) = publisher.ends().await;
    assert!(is_done, "{said}");
    for words in ["confirmed o1\n", "confirmed bad\n", "confirmed o2\n", "confirmed o3\n", "rejected bad bad_amount: "]
    {
        assert!(said.contains(words), "`{words}` is not in {said}");
    }
    assert!(said.contains("summary confirmed=4 rejected=1\n"), "{said}");

    // The same file once more: nothing is booked twice, and the rejection is told again.
    let (is_done, said) = Running::start(&world, &shop.url, command, &events, 1).ends().await;
    assert!(is_done && said.contains("summary confirmed=4 rejected=1\n"), "{said}");
    world.rest(&mut run).await;
    assert_eq!(world.count("select count(*) from fis_journal_entry").await, 3);
    world.invariants().await;
    world.forget(shop).await;

    // What only an operator can mend ends it, and says so: no exchange, then no queue behind it.
    let bare = World::with(&format!("{name}_bare"), Setup { topology: false, ..Setup::default() }).await;
    let (is_done, said) = Running::start(&bare, &bare.amqp_url, command, &events, 1).ends().await;
    assert!(!is_done && said.contains("stopped at o1") && said.contains("NOT_FOUND"), "{said}");
    for exchange in ["fis.events.exchange", "fis.domain.exchange"] {
        let path = bare.management.object_path("exchanges", exchange);
        bare.management.put_json(&path, &json!({"type": "topic", "durable": true})).await.unwrap();
    }
    let (is_done, said) = Running::start(&bare, &bare.amqp_url, command, &events, 1).ends().await;
    assert!(!is_done && said.contains("returned o1: no queue is bound"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_publisher_loses_nothing_and_hears_its_rejections() {
    if let Some(command) = in_python("publisher.py") {
        publishes_hears_and_stops("publisher_python", &command).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_node_publisher_loses_nothing_and_hears_its_rejections() {
    if let Some(command) = in_node("publisher.mjs") {
        publishes_hears_and_stops("publisher_node", &command).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rust_publisher_loses_nothing_and_hears_its_rejections() {
    if let Some(command) = in_rust("publisher") {
        publishes_hears_and_stops("publisher_rust", &command).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_java_publisher_loses_nothing_and_hears_its_rejections() {
    if let Some(command) = in_java("publisher.java") {
        publishes_hears_and_stops("publisher_java", &command).await;
    }
}
