//! Reads existing objects through the management API.
//!
//! Enters: the management client. Leaves: a [`View`] of the objects the definitions name: properties, arguments,
//! policies in force, bindings. What must never happen: objects of other people in the same virtual host are
//! judged; nothing is asked for by any name but ours, except bindings and policies, which only come as lists.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Deserializer};
use tokio::time::{Instant, sleep};

use super::{
    Topology,
    arguments::{Arguments, lenient_table},
    definitions::{Binding, Queue},
    policies::{Policies, Policy, Statistics},
    state::{ExchangeState, PolicyState, QueueState, Series},
};
use crate::platform::amqp::management::{Management, ManagementError};

/// Statistics are at most five seconds old and a queue's first report comes within five more; what is not there
/// after this will not come.
const STATISTICS_SECONDS_MAX: u64 = 15;
const STATISTICS_PAUSE: Duration = Duration::from_millis(500);

/// Our objects as the management API shows them.
#[derive(Debug)]
pub struct View {
    pub series: Series,
    pub exchanges: BTreeMap<String, ExchangeState>,
    pub queues: BTreeMap<String, QueueState>,
    pub bindings: Vec<BindingRow>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct BindingRow {
    pub source: String,
    pub destination: String,
    pub destination_type: String,
    pub routing_key: String,
    #[serde(deserialize_with = "lenient_table")]
    pub arguments: Arguments,
}

impl BindingRow {
    /// Tells whether this is the binding. RabbitMQ keeps two that differ in their arguments apart.
    pub fn is(&self, binding: &Binding) -> bool {
        self.source == binding.source
            && self.destination == binding.destination
            && self.destination_type == binding.destination_type
            && self.routing_key == binding.routing_key
            && self.arguments == binding.arguments
    }

    pub fn into_binding(self, vhost: &str) -> Binding {
        let Self { source, destination, destination_type, routing_key, arguments } = self;
        Binding { source, vhost: vhost.to_owned(), destination, destination_type, routing_key, arguments }
    }
}

#[derive(Deserialize)]
struct Overview {
    rabbitmq_version: String,
}

#[derive(Deserialize)]
struct ExchangeRow {
    #[serde(rename = "type")]
    kind: String,
    durable: bool,
    auto_delete: bool,
    internal: bool,
    #[serde(deserialize_with = "lenient_table")]
    arguments: Arguments,
}

#[derive(Deserialize)]
struct QueueRow {
    #[serde(rename = "type")]
    kind: String,
    durable: bool,
    auto_delete: bool,
    #[serde(default)]
    exclusive: bool,
    #[serde(deserialize_with = "lenient_table")]
    arguments: Arguments,
    #[serde(default)]
    policy: Option<String>,
    #[serde(default)]
    operator_policy: Option<String>,
    #[serde(default, deserialize_with = "reported_table")]
    effective_policy_definition: Option<Arguments>,
}

/// Reads everything. Fails as a whole: half a view would pass for a whole one.
pub async fn look(topology: &Topology, management: &Management) -> Result<View, ManagementError> {
    let overview: Overview = management.get_json("overview").await?;
    let mut exchanges = BTreeMap::new();
    for exchange in &topology.exchanges {
        let path = management.object_path("exchanges", &exchange.name);
        if let Some(row) = management.find_json::<ExchangeRow>(&path).await? {
            exchanges.insert(exchange.name.clone(), row.into_state());
        }
    }
    let policies = read_policies(management).await?;
    let deadline = Instant::now() + Duration::from_secs(STATISTICS_SECONDS_MAX);
    let mut queues = BTreeMap::new();
    for queue in &topology.queues {
        if let Some(state) = read_queue(management, queue, &policies, deadline).await? {
            queues.insert(queue.name.clone(), state);
        }
    }
    let bindings = read_bindings(management).await?;
    Ok(View { series: Series::of_version(&overview.rabbitmq_version), exchanges, queues, bindings })
}

/// All bindings of the virtual host.
pub async fn read_bindings(management: &Management) -> Result<Vec<BindingRow>, ManagementError> {
    management.get_json(&management.list_path("bindings")).await
}

async fn read_policies(management: &Management) -> Result<Policies, ManagementError> {
    let user: Vec<Policy> = management.get_json(&management.list_path("policies")).await?;
    let operator = management.list_path("operator-policies");
    let operator: Vec<Policy> = management.get_json(&operator).await?;
    Ok(Policies { user, operator })
}

/// Asks until the statistics have caught up with the policies, or the deadline has passed.
async fn read_queue(
    management: &Management,
    expected: &Queue,
    policies: &Policies,
    deadline: Instant,
) -> Result<Option<QueueState>, ManagementError> {
    let path = management.object_path("queues", &expected.name);
    loop {
        let Some(row) = management.find_json::<QueueRow>(&path).await? else {
            return Ok(None);
        };
        let statistics = Statistics {
            policy: filled(&row.policy),
            operator_policy: filled(&row.operator_policy),
            definition: row.effective_policy_definition.clone(),
        };
        let in_force = policies.in_force(&expected.name, &row.kind, &statistics);
        // A queue of the wrong type is condemned whatever its policies say.
        let pointless = row.kind != expected.kind() || Instant::now() >= deadline;
        match in_force {
            Some(policy) => return Ok(Some(row.into_state(policy))),
            None if pointless => return Ok(Some(row.into_state(PolicyState::Unseen))),
            None => sleep(STATISTICS_PAUSE).await,
        }
    }
}

impl ExchangeRow {
    fn into_state(self) -> ExchangeState {
        ExchangeState {
            kind: self.kind,
            durable: self.durable,
            auto_delete: self.auto_delete,
            internal: self.internal,
            arguments: self.arguments,
            unclear: None,
        }
    }
}

impl QueueRow {
    fn into_state(self, policy: PolicyState) -> QueueState {
        QueueState {
            kind: self.kind,
            durable: self.durable,
            auto_delete: self.auto_delete,
            exclusive: self.exclusive,
            arguments: self.arguments,
            policy,
            unclear: None,
        }
    }
}

/// RabbitMQ writes "no policy" as `null` or, on some versions, as an empty text.
fn filled(name: &Option<String>) -> Option<String> {
    name.clone().filter(|name| !name.is_empty())
}

fn reported_table<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Arguments>, D::Error> {
    lenient_table(deserializer).map(Some)
}
