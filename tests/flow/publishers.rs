//! Publishers are who they say: with `intake.publishers` an event is taken only from a user of the broker who may send for its tenant.

use lapin::{Connection, ConnectionProperties};
use serde_json::json;

use crate::support::broker::{Guest, Publisher};
use crate::support::events::{Message, cancellation, order, order_of, payment};
use crate::support::process::Run;
use crate::support::wait::{same, wait_until};
use crate::support::world::{Setup, World};

const RIGHTS: [&str; 3] = ["^$", r"^fis\.(events|urgent|backfill)\.exchange$", "^$"];
const NOT_ALLOWED: &str =
    "select count(*) from fis_dead_letter where reason = 'tenant_not_allowed' and status = 'parked'";
const ENTRIES: &str = "select count(*) from fis_journal_entry";

struct Scene {
    world: World,
    shop: Guest,
    payroll: Guest,
    setting: String,
}

impl Scene {
    /// Two tenants, and a user of the broker for each.
    async fn new(name: &str) -> Self {
        let world = World::with(name, Setup { tenants: &["acme", "beta"], ..Setup::default() }).await;
        let (shop, payroll) = (world.guest("shop", RIGHTS).await, world.guest("payroll", RIGHTS).await);
        let setting = format!("{}=acme {}=beta", shop.name, payroll.name);
        Self { world, shop, payroll, setting }
    }

    async fn run(&self, setting: &str) -> Run {
        self.world.run_with(&[("FIS__INTAKE__PUBLISHERS", setting)]).await
    }

    async fn end(self, mut run: Run) {
        self.world.rest(&mut run).await;
        self.world.invariants().await;
        self.leave().await;
    }

    async fn leave(self) {
        self.world.fis(&["verify"]).await.expect(0, &[]);
        self.world.forget(self.shop).await;
        self.world.forget(self.payroll).await;
    }

    async fn publish(&self, guest: &Guest, messages: &[Message]) -> bool {
        let connection = Connection::connect(&guest.url, ConnectionProperties::default()).await.unwrap();
        let publisher = Publisher::on(connection.create_channel().await.unwrap()).await.unwrap();
        let taken = publisher.send(messages).await.is_ok_and(|taken| taken.iter().all(|taken| *taken));
        if taken {
            self.world.published.lock().unwrap().extend_from_slice(messages);
        }
        taken
    }

    async fn until(&self, sql: &'static str, count: i64) {
        wait_until(sql, async || same(self.world.count(sql).await, count)).await;
    }
}

fn by(guest: &Guest, mut message: Message) -> Message {
    message.properties = message.properties.with_user_id(guest.name.as_str().into());
    message
}

#[tokio::test(flavor = "multi_thread")]
async fn a_publisher_sends_for_its_own_tenants_alone() {
    let scene = Scene::new("publishers").await;
    let (shop, payroll) = (&scene.shop, &scene.payroll);
    let run = scene.run(&scene.setting).await;
    let beta = order_of("beta", "evt-4", "EUR", "119.00", "19.00");
    assert!(scene.publish(shop, &[by(shop, order("evt-1"))]).await);
    // Another's tenant, and no user at all.
    assert!(
        scene.publish(payroll, &[by(payroll, order("evt-2").rejected("tenant_not_allowed")), by(payroll, beta)]).await
    );
    assert!(scene.publish(shop, &[order("evt-3").rejected("tenant_not_allowed")]).await);
    // The broker itself refuses a name that is not the sender's.
    assert!(!scene.publish(payroll, &[by(shop, order("evt-5"))]).await);
    scene.until(ENTRIES, 2).await;
    scene.until(NOT_ALLOWED, 2).await;
    // A command that publishes names its own user.
    let line = json!({"routingKey": "ecommerce.order.completed", "body": order("evt-6").value()}).to_string();
    let file = scene.world.file("events.ndjson", line);
    scene.world.published.lock().unwrap().push(order("evt-6"));
    scene.world.fis_with(&["publish", &file], &[("FIS_AMQP_URL", &shop.url)]).await.expect(0, &[]);
    scene.until(ENTRIES, 3).await;
    scene.end(run).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_leaves_no_trace_in_anothers_batch_or_letter() {
    let scene = Scene::new("strangers").await;
    let (shop, payroll) = (&scene.shop, &scene.payroll);
    let mut run = scene.run(&scene.setting).await;
    let mut body = order("evt-1").value();
    body["batch"] = json!({"id": "run", "size": 100_000_000});
    let member = Message::json("ecommerce.order.completed", &body).rejected("tenant_not_allowed");
    assert!(scene.publish(payroll, &[by(payroll, member)]).await);
    scene.until(NOT_ALLOWED, 1).await;
    assert_eq!(scene.world.count("select count(*) from fis_batch").await, 0);
    // The same bytes by two users: each has its letter, and its own reason.
    let parked = payment("evt-2", "9999", "1.50").rejected("unknown_account");
    let copy = payment("evt-2", "9999", "1.50").rejected("tenant_not_allowed");
    assert!(scene.publish(shop, &[by(shop, parked)]).await);
    scene.until("select count(*) from fis_dead_letter where reason = 'unknown_account'", 1).await;
    assert!(scene.publish(payroll, &[by(payroll, copy)]).await);
    scene.until(NOT_ALLOWED, 2).await;
    assert_eq!(scene.world.count("select count(*) from fis_dead_letter where reason = 'unknown_account'").await, 1);
    run.terminate().await;
    scene.leave().await;
}

/// A replay judges by the user who sent the letter; what is held was judged when it came.
#[tokio::test(flavor = "multi_thread")]
async fn what_waits_keeps_the_user_who_sent_it() {
    let scene = Scene::new("kept_user").await;
    let (shop, payroll) = (&scene.shop, &scene.payroll);
    let mut run = scene.run(&scene.setting).await;
    assert!(scene.publish(shop, &[by(shop, cancellation("evt-2", "evt-1"))]).await);
    scene.until("select count(*) from fis_held", 1).await;
    assert!(scene.publish(payroll, &[by(payroll, order("evt-1"))]).await);
    scene.until(NOT_ALLOWED, 1).await;
    let replay = ["dlq", "replay", "--all", "--yes", "--why", "again"];
    let setting = [("FIS__INTAKE__PUBLISHERS", scene.setting.as_str())];
    scene.world.fis_with(&replay, &setting).await.expect(1, &["tenant_not_allowed"]);
    assert_eq!(scene.world.count(ENTRIES).await, 0);
    run.terminate().await;

    // From now on another user sends for acme; the one who sent the held event does not.
    let setting = format!("{}=acme,beta", payroll.name);
    let run = scene.run(&setting).await;
    scene.world.fis_with(&replay, &[("FIS__INTAKE__PUBLISHERS", &setting)]).await.expect(0, &[]);
    scene.until(ENTRIES, 2).await;
    scene.until("select count(*) from fis_held", 0).await;
    scene.end(run).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_list_of_publishers_stops_the_start() {
    let world = World::new("wrong_publishers").await;
    let said = world.fis_with(&["run"], &[("FIS__INTAKE__PUBLISHERS", "shop=acme shop=beta")]).await;
    said.expect(2, &["intake.publishers", "shop", "twice"]);
}
