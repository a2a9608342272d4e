//! What to do about a difference.
//!
//! Enters: an object and what is wrong with it. Leaves: text that somebody can follow at night, with commands for
//! this very virtual host. What must never happen: advice that loses messages; whatever deletes something says
//! first how to empty it.

use serde::Serialize;
use serde_json::{Map, Value};

use super::{
    arguments::keys,
    definitions::{Queue, Role},
    judge::Difference,
    state::{PolicyState, QueueState},
};

/// Only one user policy acts on a queue, the one with the highest priority. This stands above what people
/// usually give to a catch-all policy.
const POLICY_PRIORITY: i64 = 100;

/// The arguments whose absence or overruling a policy can make good. All of them go into one policy, because two
/// policies do not add up. Not among them: the length, which is a matter of capacity and not of safety.
const HEALABLE: [&str; 5] = [
    keys::X_DEAD_LETTER_EXCHANGE,
    keys::X_DEAD_LETTER_ROUTING_KEY,
    keys::X_DEAD_LETTER_STRATEGY,
    keys::X_OVERFLOW,
    keys::X_DELIVERY_LIMIT,
];

pub const APPLY: &str = "fis topology apply";
pub const CHECK: &str = "fis topology check";

/// The policy that makes an existing bare quorum queue safe. Serialises as the body of
/// `PUT /api/policies/{vhost}/{name}`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SafePolicy {
    #[serde(skip)]
    pub name: String,
    pub pattern: String,
    #[serde(rename = "apply-to")]
    pub apply_to: &'static str,
    pub priority: i64,
    pub definition: Map<String, Value>,
}

impl SafePolicy {
    pub fn of(queue: &Queue) -> Self {
        let definition = HEALABLE
            .iter()
            .filter_map(|key| {
                let value = queue.arguments.get(*key)?;
                Some((keys::in_policy(key).to_owned(), value.to_json()))
            })
            .collect();
        Self {
            name: format!("{}.safe", queue.name),
            pattern: format!("^{}$", escaped(&queue.name)),
            apply_to: "queues",
            priority: POLICY_PRIORITY,
            definition,
        }
    }

    /// The `rabbitmqctl` command that sets this policy, quoted for a shell.
    pub fn command(&self, vhost: &str) -> String {
        let definition = Value::Object(self.definition.clone()).to_string();
        format!(
            "rabbitmqctl set_policy --vhost {} --priority {} --apply-to {} {} {} {}",
            quoted(vhost),
            self.priority,
            self.apply_to,
            quoted(&self.name),
            quoted(&self.pattern),
            quoted(&definition),
        )
    }
}

/// For differences by which messages can be lost.
pub fn lossy_queue(vhost: &str, queue: &Queue, role: Role, state: &QueueState, differences: &[&Difference]) -> String {
    let guarded = matches!(role, Role::Lane | Role::LastStop);
    if !guarded || !differences.iter().all(|difference| difference.policy_heals) {
        return recreate_queue(vhost, queue);
    }
    let mut lines = vec![SafePolicy::of(queue).command(vhost)];
    if let PolicyState::InForce { policy, operator_policy, definition } = &state.policy {
        if let Some(policy) = policy {
            lines.push(format!(
                "it takes the place of policy '{policy}' on this queue; its priority must be the higher one"
            ));
        } else if differences.iter().all(|difference| definition.contains_key(keys::in_policy(&difference.key))) {
            // With no user policy all of this is the operator's doing, and another user policy would not help.
            lines.clear();
        }
        if let Some(operator) = operator_policy {
            lines
                .push(format!("operator policy '{operator}' overrules any other: have its operator exempt this queue"));
        }
    }
    lines.join("\n")
}

/// For harmless differences.
pub fn differing_queue(state: &QueueState) -> String {
    match &state.policy {
        PolicyState::InForce { .. } => "none needed".to_owned(),
        PolicyState::Unseen => "none needed for safety as far as AMQP shows it".to_owned(),
    }
}

pub fn recreate_queue(vhost: &str, queue: &Queue) -> String {
    format!(
        "this cannot be changed on an existing queue: stop its publishers and consumers, \
         move its messages away (shovel) until it is empty, then\n\
         rabbitmqctl delete_queue --vhost {} {}\n{APPLY}",
        quoted(vhost),
        quoted(&queue.name),
    )
}

pub fn recreate_exchange(name: &str) -> String {
    format!(
        "this cannot be changed on an existing exchange: stop its publishers, \
         delete {name} on the management page (Exchanges), then\n{APPLY}"
    )
}

/// Escapes a name for RabbitMQ's regular expressions.
fn escaped(name: &str) -> String {
    let mut pattern = String::with_capacity(name.len() + 8);
    for character in name.chars() {
        if !character.is_alphanumeric() && character != '_' && character != '-' {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern
}

/// Quotes a word for a POSIX shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::amqp::topology::Topology;

    #[test]
    fn the_policy_for_a_bare_queue_is_one_command_for_this_vhost() {
        let topology = Topology::embedded().unwrap();
        let lane = SafePolicy::of(topology.queue("fis.ingestion.queue").unwrap());
        assert_eq!(
            lane.command("/o'fis"),
            r#"rabbitmqctl set_policy --vhost '/o'\''fis' --priority 100 --apply-to queues 'fis.ingestion.queue.safe' '^fis\.ingestion\.queue$' '{"dead-letter-exchange":"fis.dlx.exchange","dead-letter-routing-key":"fis.ingestion.dlq","dead-letter-strategy":"at-least-once","delivery-limit":1000,"overflow":"reject-publish"}'"#
        );
        let last_stop = SafePolicy::of(topology.queue("fis.ingestion.dlq.queue").unwrap());
        assert_eq!(
            Value::Object(last_stop.definition).to_string(),
            r#"{"delivery-limit":1000000,"overflow":"reject-publish"}"#
        );
    }
}
