//! The rules of safety: what a difference between the definitions and the broker means.
//!
//! Enters: an object of the definitions and its state. Leaves: differences, each with its severity. Pure. What must
//! never happen: a queue that can lose a message is called harmless. A rule looks at what is in force (arguments
//! and policies together); only what no rule covers is compared argument by argument.

use std::collections::BTreeSet;

use super::{
    arguments::{Argument, keys},
    definitions::{Exchange, Queue, Role},
    effective::{Effective, Origin, resolve},
    report::Severity,
    state::{ExchangeState, QueueState, Series},
};

/// A dead-letter queue with a lower limit loses what an admin has merely looked at too often: each look in the
/// management page counts as a delivery. Over the limit the last stop has nowhere to send a message, so it drops it.
const LAST_STOP_DELIVERY_LIMIT_MIN: i64 = 1000;

/// The keys of a policy that change what these queues do. Others (mirroring, queue versions) are not our business.
const RESOLVED: [&str; 9] = [
    keys::X_DEAD_LETTER_EXCHANGE,
    keys::X_DEAD_LETTER_ROUTING_KEY,
    keys::X_DEAD_LETTER_STRATEGY,
    keys::X_OVERFLOW,
    keys::X_DELIVERY_LIMIT,
    keys::X_MAX_LENGTH,
    keys::X_MAX_LENGTH_BYTES,
    keys::X_MESSAGE_TTL,
    keys::X_EXPIRES,
];

/// One fact that is not as the definitions say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    pub severity: Severity,
    /// The property or argument (`type`, `durable`, `x-overflow`).
    pub key: String,
    pub expected: String,
    pub found: String,
    /// True where a policy of ours, which replaces the user policy in force, puts it right without a re-creation.
    pub policy_heals: bool,
}

impl Difference {
    pub fn is_lossy(&self) -> bool {
        self.severity == Severity::Lossy
    }
}

/// One side of the differences, a fact per line.
pub fn facts(differences: &[&Difference], of: impl Fn(&Difference) -> &String) -> String {
    let lines: Vec<String> =
        differences.iter().map(|difference| format!("{} = {}", difference.key, of(difference))).collect();
    lines.join("\n")
}

pub fn judge_exchange(expected: &Exchange, state: &ExchangeState) -> Vec<Difference> {
    let mut judged = Judged::default();
    // Each of these either drops messages (another type routes otherwise; a transient exchange is gone after a
    // restart, with its bindings) or shuts publishers out.
    judged.property("type", &expected.kind, &state.kind);
    judged.property("durable", &expected.durable, &state.durable);
    judged.property("auto_delete", &expected.auto_delete, &state.auto_delete);
    judged.property("internal", &expected.internal, &state.internal);
    judged.unclear(state.unclear.as_ref());
    let names = expected.arguments.keys().chain(state.arguments.keys());
    for key in names.collect::<BTreeSet<_>>() {
        let (wanted, found) = (expected.arguments.get(key), state.arguments.get(key));
        if wanted == found {
            continue;
        }
        // Without it the exchange drops what no binding takes, and tells nobody.
        if key == keys::ALTERNATE_EXCHANGE && wanted.is_some() {
            judged.property(key, &shown(wanted), &shown(found));
        } else {
            judged.harmless(key, shown(wanted), shown(found));
        }
    }
    judged.differences
}

pub fn judge_queue(expected: &Queue, role: Role, state: &QueueState, series: Series) -> Vec<Difference> {
    let mut judged = Judged::default();
    judged.property("type", expected.kind(), state.kind.as_str());
    if expected.kind() != state.kind {
        // The arguments of another type mean other things; comparing them would only confuse.
        return judged.differences;
    }
    judged.property("durable", &expected.durable, &state.durable);
    judged.property("auto_delete", &expected.auto_delete, &state.auto_delete);
    judged.property("exclusive", &false, &state.exclusive);
    judged.unclear(state.unclear.as_ref());
    let queue = InForce { expected, state, series };
    match role {
        Role::Lane => {
            judged.dead_letters_are_safe(&queue);
            judged.nothing_expires(&queue);
            judged.delivery_limit_is_at_least(&queue, 1);
        }
        Role::LastStop => {
            judged.a_full_queue_drops_nothing(&queue);
            judged.nothing_expires(&queue);
            judged.delivery_limit_is_at_least(&queue, LAST_STOP_DELIVERY_LIMIT_MIN);
        }
        // How long a stream remembers is the operator's choice: PostgreSQL holds the whole history.
        Role::Stream => {}
        Role::Plain => judged.nothing_expires(&queue),
    }
    judged.the_rest_is_as_written(&queue);
    judged.differences
}

/// A queue with the policies and defaults that act on it.
struct InForce<'a> {
    expected: &'a Queue,
    state: &'a QueueState,
    series: Series,
}

impl InForce<'_> {
    fn get(&self, key: &str) -> Option<Effective> {
        resolve(self.state, self.series, key)
    }

    fn is(&self, key: &str, value: Option<&Argument>) -> bool {
        self.get(key).as_ref().map(|found| &found.value) == value
    }

    /// The value and where it comes from, for people.
    fn shown(&self, key: &str) -> String {
        let Some(found) = self.get(key) else {
            return shown(None);
        };
        match found.origin {
            Origin::Argument => found.value.to_string(),
            Origin::Policy => format!("{} ({})", found.value, self.state.policy.names()),
            Origin::Default => format!("none (RabbitMQ 4 then takes {})", found.value),
        }
    }

    /// May a policy of ours change the value? Only where no argument has the last word.
    fn policy_heals(&self, key: &str) -> bool {
        key == keys::X_OVERFLOW || !self.state.arguments.contains_key(key)
    }
}

#[derive(Default)]
struct Judged {
    differences: Vec<Difference>,
}

impl Judged {
    fn property<T: PartialEq + ToString + ?Sized>(&mut self, key: &str, expected: &T, found: &T) {
        if expected != found {
            self.push(Severity::Lossy, key, expected.to_string(), found.to_string(), false);
        }
    }

    /// A difference nobody can name cannot be called harmless.
    fn unclear(&mut self, said: Option<&String>) {
        if let Some(said) = said {
            let expected = "as in topology/definitions.json".to_owned();
            self.push(Severity::Lossy, "declaration", expected, said.clone(), false);
        }
    }

    fn harmless(&mut self, key: &str, expected: String, found: String) {
        self.push(Severity::Differs, key, expected, found, false);
    }

    /// RabbitMQ falls back to at-most-once, with no more than a line in its log, unless all four are right.
    fn dead_letters_are_safe(&mut self, queue: &InForce<'_>) {
        for key in [
            keys::X_DEAD_LETTER_EXCHANGE,
            keys::X_DEAD_LETTER_ROUTING_KEY,
            keys::X_DEAD_LETTER_STRATEGY,
            keys::X_OVERFLOW,
        ] {
            let wanted = queue.expected.arguments.get(key);
            if !queue.is(key, wanted) {
                self.lossy(queue, key, shown(wanted));
            }
        }
    }

    /// A limit on length is fine where the publisher is told; the default, drop-head, tells nobody.
    fn a_full_queue_drops_nothing(&mut self, queue: &InForce<'_>) {
        let limited = [keys::X_MAX_LENGTH, keys::X_MAX_LENGTH_BYTES].iter().any(|key| queue.get(key).is_some());
        let wanted = queue.expected.arguments.get(keys::X_OVERFLOW);
        if limited && !queue.is(keys::X_OVERFLOW, wanted) {
            self.lossy(queue, keys::X_OVERFLOW, shown(wanted));
        }
    }

    /// An event that waits through a long outage must still be there; so must its queue.
    fn nothing_expires(&mut self, queue: &InForce<'_>) {
        for key in [keys::X_MESSAGE_TTL, keys::X_EXPIRES] {
            let wanted = queue.expected.arguments.get(key);
            if queue.get(key).is_some() && !queue.is(key, wanted) {
                self.lossy(queue, key, shown(wanted));
            }
        }
    }

    /// Zero and below dead-letter at the first return on 3.x, also where 4.x reads them as "no limit".
    fn delivery_limit_is_at_least(&mut self, queue: &InForce<'_>, least: i64) {
        let key = keys::X_DELIVERY_LIMIT;
        let limit = queue.get(key).and_then(|found| found.value.integer());
        if limit.is_some_and(|limit| limit < least) {
            self.lossy(queue, key, shown(queue.expected.arguments.get(key)));
        }
    }

    /// Compares the arguments that no rule objected to. They may still not be as written: said, but no reason to stop.
    fn the_rest_is_as_written(&mut self, queue: &InForce<'_>) {
        let wanted = &queue.expected.arguments;
        let policy = queue.state.policy.definition();
        let policy_names = policy
            .into_iter()
            .flat_map(|definition| definition.keys().map(|key| format!("x-{key}")))
            .filter(|key| RESOLVED.contains(&key.as_str()));
        let names = wanted.keys().chain(queue.state.arguments.keys()).cloned();
        for key in names.chain(policy_names).collect::<BTreeSet<_>>() {
            // The type has been compared, and RabbitMQ fills it in by itself where a client left it out.
            let judged = self.differences.iter().any(|known| known.key == key);
            if judged || key == keys::X_QUEUE_TYPE {
                continue;
            }
            let wanted = wanted.get(&key);
            let as_written = queue.state.arguments.get(&key) == wanted && queue.is(&key, wanted);
            if !as_written {
                self.harmless(&key, shown(wanted), queue.shown(&key));
            }
        }
    }

    fn lossy(&mut self, queue: &InForce<'_>, key: &str, expected: String) {
        let heals = queue.policy_heals(key);
        self.push(Severity::Lossy, key, expected, queue.shown(key), heals);
    }

    fn push(&mut self, severity: Severity, key: &str, expected: String, found: String, heals: bool) {
        self.differences.push(Difference { severity, key: key.to_owned(), expected, found, policy_heals: heals });
    }
}

fn shown(value: Option<&Argument>) -> String {
    value.map_or("none".to_owned(), ToString::to_string)
}

#[cfg(test)]
mod tests;
