//! Reads an existing object through AMQP alone.
//!
//! Enters: an object of the definitions that is known to exist. Leaves: its state, argument by argument. What must
//! never happen: a question creates the object. AMQP can only be asked "is it like this?", and a refusal names
//! the first argument that is not; so the question is repeated with what was learnt until the answer is yes. Before
//! every question a passive declaration makes sure that there still is something to ask about.

use super::{
    super::{ReplyCode, link::Link},
    TopologyError,
    arguments::{Argument, keys},
    definitions::{Exchange, Queue},
    refusal::{Current, Inequivalent, Refusal},
    state::{ExchangeState, PolicyState, QueueState},
    wire,
};

/// More differences than RabbitMQ has arguments to compare; reached only if the broker contradicts itself.
const QUESTION_COUNT_MAX: usize = 24;
const CONTRADICTION: &str = "the broker's answers contradict each other";

/// The answer to a probe: as much as could be learnt of an object.
#[derive(Debug)]
pub enum Sight<T> {
    Seen(T),
    /// There is no such object, in the broker's words.
    Gone(String),
    /// The user may not declare, so the broker does not compare for it.
    Hidden(String),
}

/// The queue as it stands.
pub async fn queue(link: &Link, expected: &Queue) -> Result<Sight<QueueState>, TopologyError> {
    let mut asked = expected.clone();
    for _ in 0..QUESTION_COUNT_MAX {
        match wire::queue_exists(link, &asked.name).await? {
            Ok(()) => {}
            Err(refusal) if refusal.code == ReplyCode::ResourceLocked => {
                let mut state = state_of(&asked);
                state.exclusive = true;
                return Ok(Sight::Seen(state));
            }
            Err(refusal) => return Ok(Sight::Gone(refusal.text)),
        }
        let refusal = match wire::declare_queue(link, &asked).await? {
            Ok(()) => return Ok(Sight::Seen(state_of(&asked))),
            Err(refusal) if refusal.code == ReplyCode::AccessRefused => {
                return Ok(Sight::Hidden(refusal.text));
            }
            Err(refusal) => refusal,
        };
        if let Some(found) = learn_queue(&mut asked, &refusal) {
            return Ok(Sight::Seen(found));
        }
    }
    Ok(Sight::Seen(unclear_queue(&asked, CONTRADICTION)))
}

/// The exchange as it stands.
pub async fn exchange(link: &Link, expected: &Exchange) -> Result<Sight<ExchangeState>, TopologyError> {
    let mut asked = expected.clone();
    for _ in 0..QUESTION_COUNT_MAX {
        if let Err(refusal) = wire::exchange_exists(link, &asked.name).await? {
            return Ok(Sight::Gone(refusal.text));
        }
        let refusal = match wire::declare_exchange(link, &asked).await? {
            Ok(()) => return Ok(Sight::Seen(exchange_state_of(&asked, None))),
            Err(refusal) if refusal.code == ReplyCode::AccessRefused => {
                return Ok(Sight::Hidden(refusal.text));
            }
            Err(refusal) => refusal,
        };
        if let Some(found) = learn_exchange(&mut asked, &refusal) {
            return Ok(Sight::Seen(found));
        }
    }
    let state = exchange_state_of(&asked, Some(CONTRADICTION.to_owned()));
    Ok(Sight::Seen(state))
}

/// Takes one difference into the next question; returns the state where there is no point in asking on.
fn learn_queue(asked: &mut Queue, refusal: &Refusal) -> Option<QueueState> {
    let Some(Inequivalent { argument, current }) = refusal.inequivalent() else {
        return Some(unclear_queue(asked, &refusal.text));
    };
    let mut state = state_of(asked);
    match (argument.as_str(), current) {
        // These settle the matter, and asking on with them would mix the rules of two queue types.
        (keys::X_QUEUE_TYPE, Current::Value(kind)) => state.kind = kind.to_string(),
        (keys::X_QUEUE_TYPE, Current::Missing) => state.kind = "classic".to_owned(),
        ("durable", Current::Value(Argument::Flag(flag))) => state.durable = flag,
        ("auto_delete", Current::Value(Argument::Flag(flag))) => state.auto_delete = flag,
        ("exclusive", Current::Value(Argument::Flag(flag))) => state.exclusive = flag,
        (key, Current::Missing) if asked.arguments.remove(key).is_some() => return None,
        (key, Current::Value(value)) if key.starts_with("x-") => {
            asked.arguments.insert(key.to_owned(), value);
            return None;
        }
        (_, Current::Missing | Current::Value(_) | Current::CutOff) => {
            return Some(unclear_queue(asked, &refusal.text));
        }
    }
    Some(state)
}

fn learn_exchange(asked: &mut Exchange, refusal: &Refusal) -> Option<ExchangeState> {
    let unclear = |asked: &Exchange| exchange_state_of(asked, Some(refusal.text.clone()));
    let Some(Inequivalent { argument, current }) = refusal.inequivalent() else {
        return Some(unclear(asked));
    };
    let mut state = exchange_state_of(asked, None);
    match (argument.as_str(), current) {
        ("type", Current::Value(kind)) => state.kind = kind.to_string(),
        ("durable", Current::Value(Argument::Flag(flag))) => state.durable = flag,
        ("auto_delete", Current::Value(Argument::Flag(flag))) => state.auto_delete = flag,
        ("internal", Current::Value(Argument::Flag(flag))) => state.internal = flag,
        (key, Current::Missing) if asked.arguments.remove(key).is_some() => return None,
        // Of an exchange's arguments RabbitMQ compares only this one.
        ("alternate-exchange", Current::Value(value)) => {
            asked.arguments.insert(argument, value);
            return None;
        }
        (_, Current::Missing | Current::Value(_) | Current::CutOff) => return Some(unclear(asked)),
    }
    Some(state)
}

fn state_of(queue: &Queue) -> QueueState {
    QueueState {
        kind: queue.kind().to_owned(),
        durable: queue.durable,
        auto_delete: queue.auto_delete,
        exclusive: false,
        arguments: queue.arguments.clone(),
        policy: PolicyState::Unseen,
        unclear: None,
    }
}

fn unclear_queue(queue: &Queue, said: &str) -> QueueState {
    QueueState { unclear: Some(said.to_owned()), ..state_of(queue) }
}

fn exchange_state_of(exchange: &Exchange, unclear: Option<String>) -> ExchangeState {
    ExchangeState {
        kind: exchange.kind.clone(),
        durable: exchange.durable,
        auto_delete: exchange.auto_delete,
        internal: exchange.internal,
        arguments: exchange.arguments.clone(),
        unclear,
    }
}
