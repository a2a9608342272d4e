//! Is what the management API says about policies up to date?
//!
//! Enters: the policies of the virtual host (current at once) and the definition in force on a queue (part of the
//! queue's statistics, up to five seconds old). Leaves: the definition in force, or "ask again". What must never
//! happen: an admin sets the policy we printed, checks again and is told the old story; or a `drop-head` that was
//! set a moment ago goes unseen.

use serde::Deserialize;

use super::{
    arguments::{Arguments, lenient_table},
    state::PolicyState,
};

/// Each `.*` multiplies the ways to match; nobody writes a queue policy with more of them.
const WILDCARD_COUNT_MAX: usize = 3;

/// A policy as `/api/policies/{vhost}` and `/api/operator-policies/{vhost}` list it.
#[derive(Debug, Clone, Deserialize)]
pub struct Policy {
    pub name: String,
    pub pattern: String,
    #[serde(rename = "apply-to")]
    pub apply_to: String,
    pub priority: i64,
    #[serde(deserialize_with = "lenient_table")]
    pub definition: Arguments,
}

/// All policies of a virtual host.
#[derive(Debug, Clone, Default)]
pub struct Policies {
    pub user: Vec<Policy>,
    pub operator: Vec<Policy>,
}

/// The part of a queue's statistics that tells about policies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Statistics {
    pub policy: Option<String>,
    pub operator_policy: Option<String>,
    /// None until the queue has reported for the first time.
    pub definition: Option<Arguments>,
}

impl Policies {
    /// The policies in force, or none where the statistics cannot be right yet.
    pub fn in_force(&self, queue: &str, kind: &str, said: &Statistics) -> Option<PolicyState> {
        let user = candidates(&self.user, queue, kind);
        let operator = candidates(&self.operator, queue, kind);
        if user.is_empty() && operator.is_empty() {
            // Nothing can apply, so there is nothing to wait for.
            return Some(PolicyState::InForce { policy: None, operator_policy: None, definition: Arguments::new() });
        }
        let definition = said.definition.as_ref()?;
        let user = chosen(&user, said.policy.as_deref())?;
        let operator = chosen(&operator, said.operator_policy.as_deref())?;
        if !stands_for(definition, user, operator) {
            return None;
        }
        Some(PolicyState::InForce {
            policy: said.policy.clone(),
            operator_policy: said.operator_policy.clone(),
            definition: definition.clone(),
        })
    }
}

/// A policy that may apply, and whether that is certain.
struct Candidate<'a> {
    policy: &'a Policy,
    certain: bool,
}

fn candidates<'a>(policies: &'a [Policy], queue: &str, kind: &str) -> Vec<Candidate<'a>> {
    let of_kind = format!("{kind}_queues");
    policies
        .iter()
        .filter(|policy| {
            let to = policy.apply_to.as_str();
            to == "all" || to == "queues" || to == of_kind
        })
        .filter_map(|policy| match matches(&policy.pattern, queue) {
            Some(false) => None,
            Some(true) => Some(Candidate { policy, certain: true }),
            None => Some(Candidate { policy, certain: false }),
        })
        .collect()
}

/// Checks the named policy against those that may apply. The outer `None` means that the name is out of date.
fn chosen<'a>(candidates: &[Candidate<'a>], named: Option<&str>) -> Option<Option<&'a Policy>> {
    let floor =
        candidates.iter().filter(|candidate| candidate.certain).map(|candidate| candidate.policy.priority).max();
    let Some(named) = named else {
        return if floor.is_none() { Some(None) } else { None };
    };
    let found = candidates.iter().find(|candidate| candidate.policy.name == named)?;
    let outranked = floor.is_some_and(|floor| floor > found.policy.priority);
    if outranked { None } else { Some(Some(found.policy)) }
}

/// True where the definition in force is made of exactly these two policies as they are now. Where both have a
/// key, RabbitMQ merges the values by rules of its own, so either value may stand there or none of the two.
fn stands_for(definition: &Arguments, user: Option<&Policy>, operator: Option<&Policy>) -> bool {
    let empty = Arguments::new();
    let user = user.map_or(&empty, |policy| &policy.definition);
    let operator = operator.map_or(&empty, |policy| &policy.definition);
    let known = |key: &String| user.contains_key(key) || operator.contains_key(key);
    let alone = |own: &Arguments, other: &Arguments| {
        own.iter().all(|(key, value)| other.contains_key(key) || definition.get(key) == Some(value))
    };
    definition.keys().all(known) && alone(user, operator) && alone(operator, user)
}

/// Does a pattern match a name? None where the pattern is beyond the few forms understood here; RabbitMQ's are
/// Perl-compatible, and a wrong guess would be worse than none.
fn matches(pattern: &str, name: &str) -> Option<bool> {
    let (from_start, pattern) = match pattern.strip_prefix('^') {
        Some(rest) => (true, rest),
        None => (false, pattern),
    };
    let mut pieces = Vec::new();
    let mut to_end = false;
    let mut characters = pattern.chars().peekable();
    while let Some(character) = characters.next() {
        let piece = match character {
            '$' if characters.peek().is_none() => {
                to_end = true;
                continue;
            }
            '\\' => match characters.next() {
                Some(escaped) if !escaped.is_alphanumeric() => Piece::One(escaped),
                Some(_) | None => return None,
            },
            '.' if characters.next_if_eq(&'*').is_some() => Piece::Many,
            '.' => Piece::Any,
            '^' | '$' | '*' | '+' | '?' | '(' | ')' | '[' | ']' | '{' | '}' | '|' => return None,
            literal => Piece::One(literal),
        };
        pieces.push(piece);
    }
    let wildcards = pieces.iter().filter(|piece| **piece == Piece::Many).count();
    if wildcards > WILDCARD_COUNT_MAX {
        return None;
    }
    let name: Vec<char> = name.chars().collect();
    let starts = if from_start { 0..=0 } else { 0..=name.len() };
    let fits_from = |start| name.get(start..).is_some_and(|rest| fits(&pieces, rest, to_end));
    Some(starts.into_iter().any(fits_from))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece {
    One(char),
    Any,
    Many,
}

fn fits(all: &[Piece], name: &[char], to_end: bool) -> bool {
    let Some((piece, pieces)) = all.split_first() else {
        return !to_end || name.is_empty();
    };
    match (piece, name.split_first()) {
        (Piece::One(wanted), Some((first, rest))) => wanted == first && fits(pieces, rest, to_end),
        (Piece::Any, Some((_, rest))) => fits(pieces, rest, to_end),
        (Piece::One(_) | Piece::Any, None) => false,
        (Piece::Many, None) => fits(pieces, name, to_end),
        (Piece::Many, Some((_, rest))) => fits(pieces, name, to_end) || fits(all, rest, to_end),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::amqp::topology::arguments::Argument;

    #[test]
    fn simple_patterns_are_understood_and_others_are_left_open() {
        let name = "fis.ingestion.queue";
        for (pattern, expected) in [
            ("", Some(true)),
            (".*", Some(true)),
            ("^.*$", Some(true)),
            ("^fis", Some(true)),
            ("ingestion", Some(true)),
            ("queue$", Some(true)),
            (r"^fis\.ingestion\.queue$", Some(true)),
            ("^fis.ingestion.queue$", Some(true)),
            (r"^fis\..*\.queue$", Some(true)),
            ("^ingestion", Some(false)),
            (r"^fis\.ingestion$", Some(false)),
            (r"^fis\.urgent\.queue$", Some(false)),
            (r"^fis\..*(dlq|unrouted)\.queue$", None),
            ("^(?!amq).*", None),
            (r"^\w+", None),
            ("^fi+s", None),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern}");
        }
    }

    fn policy(name: &str, pattern: &str, priority: i64, overflow: &str) -> Policy {
        Policy {
            name: name.to_owned(),
            pattern: pattern.to_owned(),
            apply_to: "queues".to_owned(),
            priority,
            definition: overflow_is(overflow),
        }
    }

    fn overflow_is(value: &str) -> Arguments {
        Arguments::from([("overflow".to_owned(), Argument::Text(value.to_owned()))])
    }

    fn said(policy: &str, overflow: &str) -> Statistics {
        Statistics { policy: Some(policy.to_owned()), operator_policy: None, definition: Some(overflow_is(overflow)) }
    }

    fn settled(user: Vec<Policy>, said: &Statistics) -> bool {
        let policies = Policies { user, operator: Vec::new() };
        policies.in_force("q", "quorum", said).is_some()
    }

    #[test]
    fn statistics_older_than_the_policies_are_not_believed() {
        let silent = Statistics { definition: Some(Arguments::new()), ..Statistics::default() };
        let drop = || policy("p", "^q$", 0, "drop-head");
        assert!(settled(vec![drop()], &said("p", "drop-head")));
        assert!(!settled(vec![drop()], &Statistics::default()), "not reported yet");
        assert!(!settled(vec![drop()], &silent), "set a moment ago");
        assert!(!settled(vec![drop()], &said("p", "reject-publish")), "just changed");
        assert!(!settled(vec![drop()], &said("gone", "drop-head")), "just replaced");
        let outranked = vec![drop(), policy("ours", "q", 100, "reject-publish")];
        assert!(!settled(outranked, &said("p", "drop-head")), "just outranked");
        let unknown = vec![policy("p", "(x|y)", 0, "drop-head")];
        assert!(settled(unknown, &silent), "may well not apply");
    }

    #[test]
    fn where_no_policy_can_apply_nothing_is_waited_for() {
        assert!(settled(Vec::new(), &Statistics::default()));
        let other = vec![policy("p", "^other$", 0, "drop-head")];
        assert!(settled(other, &Statistics::default()));
        let mut exchanges = policy("p", ".*", 0, "drop-head");
        exchanges.apply_to = "exchanges".to_owned();
        assert!(settled(vec![exchanges], &Statistics::default()));
    }
}
