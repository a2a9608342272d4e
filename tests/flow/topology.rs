//! The broker's topology: one file, declared, compared, drawn; and a service that does not start on one that can lose.

mod apply;
mod bare;
mod belonging;
mod harmless;
mod lossy;
mod refused;

use fis::platform::amqp::link::Link;
use fis::platform::amqp::management::Management;
use fis::platform::amqp::topology::{
    Applied, DEFINITIONS, Finding, SafePolicy, Severity, Topology, apply as declare, check, report,
};
use lapin::message::Delivery;
use lapin::{Channel, Connection, ConnectionProperties};
use serde_json::{Value, json};

use crate::support::wait::wait_until;
use crate::support::world::{Setup, World};

pub const LIVE: &str = "fis.ingestion.queue";
pub const DLQ: &str = "fis.ingestion.dlq.queue";

/// A virtual host of one test and what tests do in it.
pub struct Broker {
    pub world: World,
    pub connection: Link,
}

/// Runs a test in an empty virtual host of its own.
async fn in_own_vhost(test: impl AsyncFnOnce(&Broker)) {
    let world =
        World::with("topology", Setup { database: false, topology: false, tenants: &[], ..Setup::default() }).await;
    let connection = Link::new(world.connect().await.unwrap());
    let broker = Broker { world, connection };
    test(&broker).await;
}

impl Broker {
    pub fn vhost(&self) -> &str {
        &self.world.vhost
    }

    pub async fn apply(&self) -> Vec<Applied> {
        declare(&Topology::embedded().unwrap(), &self.connection).await.unwrap()
    }

    pub async fn check(&self) -> Vec<Finding> {
        self.check_with(Some(&self.world.management)).await
    }

    pub async fn check_amqp_only(&self) -> Vec<Finding> {
        self.check_with(None).await
    }

    pub async fn check_with(&self, management: Option<&Management>) -> Vec<Finding> {
        check(&Topology::embedded().unwrap(), &self.connection, management).await.unwrap()
    }

    pub async fn expect_clean(&self) {
        let findings = self.check().await;
        assert!(findings.is_empty(), "{}", report(&findings));
    }

    pub async fn version(&self) -> String {
        let overview: Value = self.world.management.get_json("overview").await.unwrap();
        overview["rabbitmq_version"].as_str().unwrap().to_owned()
    }

    pub async fn declare_queue(&self, name: &str, arguments: Value) {
        let path = self.world.management.object_path("queues", name);
        let body = json!({"durable": true, "arguments": arguments});
        self.world.management.put_json(&path, &body).await.unwrap();
    }

    pub async fn bind(&self, exchange: &str, queue: &str, key: &str) {
        self.world.bind(exchange, queue, key).await;
    }

    pub async fn set_policy(&self, name: &str, definition: Value) {
        let path = self.world.management.object_path("policies", name);
        // Not the stream: RabbitMQ never reports a policy of keys that a stream does not have, and the check waits for it.
        let body = json!({"pattern": "^fis\\..*\\.queue$", "apply-to": "queues", "definition": definition});
        self.world.management.put_json(&path, &body).await.unwrap();
    }

    /// Applies the very policy that the finding prints.
    pub async fn heal(&self, queue: &str, finding: &Finding) {
        let topology = Topology::embedded().unwrap();
        let policy = SafePolicy::of(topology.queue(queue).unwrap());
        let command = policy.command(self.vhost());
        assert!(finding.remedy.lines().any(|line| line == command), "{}", finding.remedy);
        assert!(command.contains(&format!("--vhost '{}'", self.vhost())), "{command}");
        let path = self.world.management.object_path("policies", &policy.name);
        self.world.management.put_json(&path, &policy).await.unwrap();
    }

    /// A new user with these rights on the virtual host, and a connection of it.
    pub async fn guest(&self, configure: &str, write: &str, read: &str) -> (String, Link) {
        let guest = self.world.guest("user", [configure, write, read]).await;
        let connected = Connection::connect(&guest.url, ConnectionProperties::default()).await.unwrap();
        (guest.name, Link::new(connected))
    }

    pub async fn forget(&self, user: &str) {
        self.world.management.delete(&format!("users/{user}")).await.unwrap();
    }
}

/// The delivery lives as long as its channel does.
pub async fn next_message(channel: &Channel, queue: &str) -> Delivery {
    wait_until(&format!("a message in {queue}"), async || {
        let got = channel.basic_get(queue.into(), Default::default()).await.unwrap();
        got.map(|got| got.delivery).ok_or_else(|| "none".to_owned())
    })
    .await
}

pub fn arguments_of(queue: &str) -> Value {
    let definitions: Value = serde_json::from_str(DEFINITIONS).unwrap();
    let queues = definitions["queues"].as_array().unwrap();
    queues.iter().find(|q| q["name"] == queue).unwrap()["arguments"].clone()
}

pub fn rewrite_vhost(definitions: &mut Value, vhost: &str) {
    definitions["vhosts"] = json!([{"name": vhost}]);
    for kind in ["exchanges", "queues", "bindings"] {
        for object in definitions[kind].as_array_mut().unwrap() {
            object["vhost"] = json!(vhost);
        }
    }
}

pub fn objects(findings: &[Finding]) -> Vec<&str> {
    findings.iter().map(|finding| finding.object.as_str()).collect()
}

/// The one finding about this object, with no other finding of weight beside it.
pub fn only<'a>(findings: &'a [Finding], object: &str) -> &'a Finding {
    let seen: Vec<&Finding> = findings.iter().filter(|f| f.severity != Severity::Unverified).collect();
    let [finding] = seen[..] else {
        panic!("expected one finding about {object}:\n{}", report(findings));
    };
    assert_eq!(finding.object, object, "{}", report(findings));
    finding
}

pub fn only_lossy<'a>(findings: &'a [Finding], object: &str) -> &'a Finding {
    let lossy: Vec<&Finding> =
        findings.iter().filter(|f| f.severity == Severity::Lossy && f.object == object).collect();
    let [finding] = lossy[..] else {
        panic!("expected one lossy finding about {object}:\n{}", report(findings));
    };
    finding
}
