//! What a queue really does: its arguments and the policies in force, resolved as RabbitMQ resolves them.
//!
//! Enters: both tables. Leaves: one value per key, and where it comes from. What must never happen: an argument is
//! believed that a policy overrules. The rules are those of `rabbit_quorum_queue` (`ra_machine_config` in 3.x,
//! `gather_policy_config` in 4.x):
//!
//! | key | rule |
//! |---|---|
//! | `dead-letter-exchange`, `-routing-key`, `-strategy` | the argument wins |
//! | `overflow` | the policy wins |
//! | `max-length`, `max-length-bytes`, `message-ttl`, `expires` | the smaller wins |
//! | `delivery-limit` | the smaller wins; on 4.x the larger, if either is negative; on 4.x 20 where there is none |

use super::{
    arguments::{Argument, keys},
    state::{QueueState, Series},
};

/// RabbitMQ 4.x gives this limit to every quorum queue that has none.
pub const DELIVERY_LIMIT_DEFAULT_V4: i64 = 20;

/// A value and its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effective {
    pub value: Argument,
    pub origin: Origin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    Argument,
    Policy,
    /// Neither says anything and the broker's default applies.
    Default,
}

/// The value in force for a queue argument (spelled with `x-`), or none.
pub fn resolve(state: &QueueState, series: Series, key: &str) -> Option<Effective> {
    let argument = state.arguments.get(key);
    let policy = state.policy.definition().and_then(|definition| definition.get(keys::in_policy(key)));
    match key {
        keys::X_OVERFLOW => prefer(policy, Origin::Policy, argument, Origin::Argument),
        keys::X_MAX_LENGTH | keys::X_MAX_LENGTH_BYTES | keys::X_MESSAGE_TTL | keys::X_EXPIRES => {
            smaller(argument, policy)
        }
        keys::X_DELIVERY_LIMIT => delivery_limit(argument, policy, series),
        _ => prefer(argument, Origin::Argument, policy, Origin::Policy),
    }
}

fn prefer(
    first: Option<&Argument>,
    first_origin: Origin,
    second: Option<&Argument>,
    second_origin: Origin,
) -> Option<Effective> {
    let (value, origin) = match (first, second) {
        (Some(value), _) => (value, first_origin),
        (None, Some(value)) => (value, second_origin),
        (None, None) => return None,
    };
    Some(Effective { value: value.clone(), origin })
}

fn smaller(argument: Option<&Argument>, policy: Option<&Argument>) -> Option<Effective> {
    let policy_is_smaller = match (integer(argument), integer(policy)) {
        (Some(argument), Some(policy)) => policy < argument,
        (_, policy) => policy.is_some(),
    };
    if policy_is_smaller {
        prefer(policy, Origin::Policy, argument, Origin::Argument)
    } else {
        prefer(argument, Origin::Argument, policy, Origin::Policy)
    }
}

fn delivery_limit(argument: Option<&Argument>, policy: Option<&Argument>, series: Series) -> Option<Effective> {
    let found = match (integer(argument), integer(policy), series) {
        // 4.x reads a negative limit as "none" and lets it win over a limit.
        (Some(a), Some(p), Series::V4) if a < 0 || p < 0 => {
            if p > a {
                prefer(policy, Origin::Policy, argument, Origin::Argument)
            } else {
                prefer(argument, Origin::Argument, policy, Origin::Policy)
            }
        }
        _ => smaller(argument, policy),
    };
    let default = Effective { value: Argument::Integer(DELIVERY_LIMIT_DEFAULT_V4), origin: Origin::Default };
    match series {
        Series::V3 => found,
        Series::V4 | Series::Unknown => found.or(Some(default)),
    }
}

fn integer(value: Option<&Argument>) -> Option<i64> {
    value.and_then(Argument::integer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::amqp::topology::{arguments::Arguments, state::PolicyState};

    fn table(key: &str, value: &str) -> Arguments {
        let value = match (value, value.parse()) {
            ("-", _) => return Arguments::new(),
            (_, Ok(number)) => Argument::Integer(number),
            (text, Err(_)) => Argument::Text(text.to_owned()),
        };
        Arguments::from([(key.to_owned(), value)])
    }

    fn queue(key: &str, argument: &str, policy: &str) -> QueueState {
        QueueState {
            kind: "quorum".to_owned(),
            durable: true,
            auto_delete: false,
            exclusive: false,
            arguments: table(&format!("x-{key}"), argument),
            policy: PolicyState::InForce { policy: None, operator_policy: None, definition: table(key, policy) },
            unclear: None,
        }
    }

    #[test]
    fn arguments_and_policies_resolve_as_in_the_broker() {
        // key | argument | policy | in force on 3.x | in force on 4.x
        let rows = "
            dead-letter-exchange    | a              | b              | a              | a
            dead-letter-exchange    | -              | b              | b              | b
            dead-letter-routing-key | a              | b              | a              | a
            dead-letter-strategy    | at-most-once   | at-least-once  | at-most-once   | at-most-once
            dead-letter-strategy    | -              | at-least-once  | at-least-once  | at-least-once
            overflow                | reject-publish | drop-head      | drop-head      | drop-head
            overflow                | drop-head      | reject-publish | reject-publish | reject-publish
            overflow                | reject-publish | -              | reject-publish | reject-publish
            overflow                | -              | -              | -              | -
            max-length              | 10             | 20             | 10             | 10
            max-length              | 20             | 10             | 10             | 10
            max-length              | -              | 10             | 10             | 10
            max-length              | -              | -              | -              | -
            message-ttl             | 10             | 5              | 5              | 5
            expires                 | -              | 5              | 5              | 5
            delivery-limit          | 1000           | 20             | 20             | 20
            delivery-limit          | 1000           | -              | 1000           | 1000
            delivery-limit          | 1000           | -1             | -1             | 1000
            delivery-limit          | -1             | 1000           | -1             | 1000
            delivery-limit          | -1             | -              | -1             | -1
            delivery-limit          | -              | -              | -              | 20
        ";
        for row in rows.lines().filter(|row| !row.trim().is_empty()) {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            let [key, argument, policy, on_v3, on_v4] = cells[..] else {
                panic!("a row has five cells: {row}");
            };
            let state = queue(key, argument, policy);
            for (series, expected) in [(Series::V3, on_v3), (Series::V4, on_v4)] {
                let found = resolve(&state, series, &format!("x-{key}"));
                let found = found.map_or("-".to_owned(), |found| found.value.to_string());
                assert_eq!(found, expected, "{series:?}: {row}");
            }
        }
    }

    #[test]
    fn an_unknown_broker_is_given_the_stricter_default() {
        let found = resolve(&queue("delivery-limit", "-", "-"), Series::Unknown, "x-delivery-limit");
        assert_eq!(
            found,
            Some(Effective { value: Argument::Integer(DELIVERY_LIMIT_DEFAULT_V4), origin: Origin::Default })
        );
    }
}
