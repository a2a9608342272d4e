//! Tenants with queues of their own: nobody waits behind a tenant's backlog, and no event is lost while tenants get queues or lose them.

mod limits;
mod topology;

use lapin::options::{BasicGetOptions, BasicRejectOptions};
use tokio_util::sync::CancellationToken;

use crate::support::broker::Publisher;
use crate::support::events::{Message, order_of};
use crate::support::wait::{same, wait_until};
use crate::support::world::{Setup, World};

pub const OWN: &str = "fis.tenant.queue.acme";
pub const FRONT_DOOR: &str = "fis.ingestion.queue";
const ACME: &str = "select count(*) from fis_journal_entry where tenant_id = 'acme'";
const GLOBEX: &str = "select count(*) from fis_journal_entry where tenant_id = 'globex'";

/// The setting, as an environment.
pub fn tenants(setting: &str) -> [(&str, &str); 1] {
    [("FIS__INTAKE__TENANT_QUEUES", setting)]
}

/// Orders of a tenant whose publisher says in the header whose they are.
pub fn orders(tenant: &str, prefix: &str, count: usize) -> Vec<Message> {
    let order = |n| order_of(tenant, &format!("{prefix}-{n}"), "EUR", "119.00", "19.00").header("x-fis-tenant", tenant);
    (0..count).map(order).collect()
}

/// Two tenants, and a queue of its own for `acme`.
pub async fn with_own_queue(name: &str) -> World {
    let world = World::with(name, Setup { tenants: &["acme", "globex"], ..Setup::default() }).await;
    world.fis_with(&["topology", "apply"], &tenants("acme")).await.expect(0, &[]);
    world
}

/// The limit keeps the backlog where it is: nothing here depends on how fast anybody is.
#[tokio::test(flavor = "multi_thread")]
async fn a_tenants_backlog_in_its_own_queue_holds_nobody_else_up() {
    let world = with_own_queue("fair").await;
    world.publish(&orders("acme", "backlog", 1000)).await;
    let mut run = world.run_with(&tenants("acme=1")).await;
    world.publish(&[order_of("globex", "one", "EUR", "11.90", "1.90")]).await;
    wait_until("the other tenant's event is posted", async || same(world.count(GLOBEX).await, 1)).await;
    assert!(world.ready_count(OWN).await > 900, "most of the backlog is still there");
    run.terminate().await;
    let mut run = world.run_with(&tenants("acme")).await;
    world.rest(&mut run).await;
    assert_eq!(world.count(ACME).await, 1000);
    world.invariants().await;
}

/// All of it waits before the service starts; what is compared is the order of the transactions, not the time.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_was_published_last_is_posted_before_most_of_anothers_backlog() {
    let world = with_own_queue("order").await;
    world.publish(&orders("acme", "backlog", 6000)).await;
    world.publish(&[order_of("globex", "last", "EUR", "11.90", "1.90")]).await;
    let mut run = world.run_with(&tenants("acme")).await;
    world.rest(&mut run).await;
    let before = world
        .count(
            "select count(*) from fis_journal_entry
              where tenant_id = 'acme'
                and xmin::text::bigint < (select xmin::text::bigint from fis_journal_entry where tenant_id = 'globex')",
        )
        .await;
    assert!(before <= 2500, "{before} of 6000 events of the backlog were posted before the other tenant's");
    world.invariants().await;
}

/// A publisher without `mandatory` would not hear of an event that leads nowhere; this one does, and never rests.
#[tokio::test(flavor = "multi_thread")]
async fn no_event_is_lost_or_doubled_while_tenants_get_queues_and_lose_them() {
    let world = World::with("moves", Setup { tenants: &["acme", "globex"], ..Setup::default() }).await;
    let load = |number: usize| {
        let bare = order_of("acme", &format!("bare-{number}"), "EUR", "11.90", "1.90");
        let (acme, globex) = (orders("acme", &format!("a{number}"), 1), orders("globex", &format!("g{number}"), 1));
        [acme, globex, vec![bare]].concat()
    };
    let (mut run, done) = (world.run().await, CancellationToken::new());
    let moves = async {
        for setting in ["acme", "acme globex", "globex=5000", ""] {
            world.fis_with(&["topology", "apply"], &tenants(setting)).await.expect(0, &[]);
            run.terminate().await;
            run = world.run_with(&tenants(setting)).await;
        }
        done.cancel();
    };
    let publishing = async {
        let publisher = Publisher::open(&world).await.unwrap();
        for number in (0..).take_while(|_| !done.is_cancelled()) {
            let messages = load(number);
            let taken = publisher.send(&messages).await.unwrap();
            assert_eq!(taken, [true; 3], "every event leads to a queue at any time");
            world.published.lock().unwrap().extend(messages);
        }
        publisher.close().await;
    };
    tokio::join!(moves, publishing);
    world.rest(&mut run).await;
    for queue in [OWN, "fis.tenant.queue.globex"] {
        assert_eq!(world.ready_count(queue).await, 0, "what was left in {queue} is posted");
    }
    world.invariants().await;
}

/// The pipeline rejects one; the broker is told by somebody else to give up the other, and the pipeline never sees it.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_of_a_tenants_queue_is_parked_as_one_of_the_live_lane() {
    let world = with_own_queue("letters").await;
    let unknown = |id: &str| Message { routing_key: "no.such.rule".to_owned(), ..orders("acme", id, 1).remove(0) };
    let body =
        |id: &str| format!(r#"{{"eventId":"{id}","tenantId":"acme","eventType":"no.such.rule","payload":{{}}}}"#);
    let rejected = |id: &str| Message { body: body(id).into(), ..unknown(id) }.rejected("rule_not_found");
    world.publish(&[Message { expect: crate::support::events::Expect::Any, ..rejected("given-up") }]).await;
    let connection = world.connect().await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    let got = channel.basic_get(OWN.into(), BasicGetOptions::default()).await.unwrap().expect("it is in its own queue");
    got.delivery.reject(BasicRejectOptions { requeue: false }).await.unwrap();
    connection.close(200, "bye".into()).await.unwrap();
    world.publish(&[rejected("refused")]).await;

    let mut run = world.run_with(&tenants("acme")).await;
    wait_until("both are parked", async || {
        same(world.count("select count(*) from fis_dead_letter where lane = 'live' and tenant_id = 'acme'").await, 2)
    })
    .await;
    world.rest(&mut run).await;
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_body_says_whose_event_it_is_whatever_the_header_says() {
    let world = with_own_queue("contradiction").await;
    world.publish(&[order_of("globex", "one", "EUR", "11.90", "1.90").header("x-fis-tenant", "acme")]).await;
    assert_eq!(world.ready_count(OWN).await, 1);
    let mut run = world.run_with(&tenants("acme")).await;
    world.rest(&mut run).await;
    assert_eq!((world.count(ACME).await, world.count(GLOBEX).await), (0, 1));
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_publisher_who_does_not_use_its_tenants_queue_is_told_of_once_and_counted() {
    let world = with_own_queue("strays").await;
    let mut run = world.run_with(&tenants("acme")).await;
    for n in 0..3 {
        world.publish(&[order_of("acme", &format!("bare-{n}"), "EUR", "11.90", "1.90")]).await;
    }
    world.publish(&orders("acme", "own", 2)).await;
    world.publish(&[order_of("globex", "one", "EUR", "11.90", "1.90")]).await;
    world.quiet().await;
    let (_, metrics) = run.get("/metrics").await;
    let strays: Vec<&str> = metrics.lines().filter(|line| line.starts_with("fis_intake_strays_total")).collect();
    assert_eq!(strays, ["fis_intake_strays_total{tenant=\"acme\"} 3"]);
    let own = "fis_intake_deliveries_total{lane=\"live\",tenant=\"acme\",outcome=\"posted\"} 2";
    assert!(metrics.contains(own), "{metrics}");
    assert_eq!(run.log().matches("acme has a queue of its own").count(), 1, "{}", run.log());
    world.rest(&mut run).await;
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_publishes_into_the_tenants_queue_and_another_shows_and_drains_it() {
    let world = with_own_queue("commands").await;
    let line = |body: &str| format!(r#"{{"routingKey":"ecommerce.order.completed","body":{body}}}"#);
    let order = |tenant: &str| String::from_utf8(order_of(tenant, "one", "EUR", "119.00", "19.00").body).unwrap();
    let file = world.file("events.ndjson", [line(&order("acme")), line(&order("globex"))].join("\n"));
    world.fis(&["publish", &file]).await.expect(0, &["2 events"]);
    let status = world.fis_with(&["status", "--json"], &tenants("acme")).await.expect(1, &[]).json();
    assert_eq!((&status["queues"][OWN]["ready"], &status["queues"][FRONT_DOOR]["ready"]), (&1.into(), &1.into()));
    world.fis_with(&["run", "--once"], &tenants("acme")).await.expect(0, &[]);
    assert_eq!((world.count(ACME).await, world.count(GLOBEX).await), (1, 1));
}

/// RabbitMQ 3.10 takes the consumer along to the new queue, without a word to it, and withholds what it delivers.
#[tokio::test(flavor = "multi_thread")]
async fn a_tenants_queue_that_is_deleted_and_declared_again_at_once_is_heard_again() {
    let world = with_own_queue("blind").await;
    let mut run = world.run_with(&tenants("acme")).await;
    world.publish(&orders("acme", "before", 20)).await;
    world.quiet().await;
    world.management.delete(&world.management.object_path("queues", OWN)).await.unwrap();
    world.fis_with(&["topology", "apply"], &tenants("acme")).await.expect(0, &[]);
    world.publish(&orders("acme", "after", 5)).await;
    world.rest(&mut run).await;
    assert_eq!(world.count(ACME).await, 25);
    world.invariants().await;
}
