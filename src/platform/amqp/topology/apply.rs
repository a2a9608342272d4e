//! Declares the definitions on the connection's virtual host.
//!
//! Enters: the topology and a connection. Leaves: what became of each object. What must never happen: a message can
//! be lost between two steps, or one object that differs keeps the others from being declared. The order:
//!
//! 1. the dead-letter exchange, its queue, their binding: no lane is ever without the place its dead letters go;
//! 2. all other queues;
//! 3. each other exchange with its bindings right behind it, so that a publisher who finds the exchange finds it
//!    connected, but for the moment between the two; an exchange that leads to another one comes after that one;
//! 4. the bindings of a former topology are taken away, and only where everything before is sound: in between a message
//!    may arrive twice.

use serde::Serialize;

use super::{
    super::{ReplyCode, link::Link, management::Management},
    Topology, TopologyError,
    check::told,
    definitions::{Binding, Exchange, Queue},
    judge::{Difference, facts, judge_exchange, judge_queue},
    managed,
    probe::{self, Sight},
    refusal::Refusal,
    remedy,
    state::Series,
    wire,
};

/// The outcome for one object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Applied {
    pub object: String,
    pub outcome: Outcome,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The object was not there and is now.
    Created,
    /// The object was there, and it is as defined.
    Present,
    /// The binding is there; AMQP does not tell whether it was before.
    Bound,
    /// The binding is not there; AMQP does not tell whether it was before.
    Unbound,
    /// The binding of a former topology was left: something that takes its place is not right yet.
    Kept,
    /// Nobody could see whether something is left over.
    Unseen { why: String },
    /// The object was there and is different; it was left alone.
    Differs { expected: String, found: String, remedy: String },
}

/// One declaration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<'a> {
    Exchange(&'a Exchange),
    Queue(&'a Queue),
    Binding(&'a Binding),
}

/// Declares everything, in the order that cannot lose. Repeating it changes nothing.
pub async fn apply(topology: &Topology, link: &Link) -> Result<Vec<Applied>, TopologyError> {
    let vhost = link.status().vhost().to_string();
    let mut applied = Vec::new();
    let mut is_sound = true;
    for step in declaration_order(topology) {
        let (one, is_lossy) = match step {
            Step::Exchange(exchange) => apply_exchange(link, exchange).await?,
            Step::Queue(queue) => apply_queue(topology, link, &vhost, queue).await?,
            Step::Binding(binding) => apply_binding(link, binding).await?,
        };
        applied.push(one);
        is_sound &= !is_lossy;
    }
    for former in &topology.former {
        applied.extend(take_away(link, &former.binding, is_sound).await?);
    }
    Ok(applied)
}

/// Takes bindings away that an exchange of ours still has and the topology does not name. Only the management API lists them.
pub async fn sweep(topology: &Topology, link: &Link, management: &Management) -> Result<Vec<Applied>, TopologyError> {
    if topology.closed.is_empty() {
        return Ok(Vec::new());
    }
    let rows = match managed::read_bindings(management).await {
        Ok(rows) => rows,
        Err(error) => {
            let unseen = |name: &String| Applied {
                object: format!("bindings of exchange {name}"),
                outcome: Outcome::Unseen { why: told(&error) },
            };
            return Ok(topology.closed.iter().map(unseen).collect());
        }
    };
    let mut swept = Vec::new();
    for row in rows.into_iter().filter(|row| topology.is_left_over(row)) {
        swept.extend(take_away(link, &row.into_binding(&topology.vhost), true).await?);
    }
    Ok(swept)
}

/// Nothing to tell where one of its exchanges does not exist.
async fn take_away(link: &Link, binding: &Binding, is_sound: bool) -> Result<Option<Applied>, TopologyError> {
    let is_there = async |exchange: &str| Ok(wire::exchange_exists(link, exchange).await?.is_ok());
    if !is_there(&binding.source).await? || (binding.is_to_exchange() && !is_there(&binding.destination).await?) {
        return Ok(None);
    }
    let object = binding.object();
    if !is_sound {
        return Ok(Some(Applied { object, outcome: Outcome::Kept }));
    }
    match wire::unbind(link, binding).await? {
        Ok(()) => Ok(Some(Applied { object, outcome: Outcome::Unbound })),
        Err(refusal) => Err(refused(object, refusal)),
    }
}

/// Pure: the order of declaration.
pub fn declaration_order(topology: &Topology) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    let is_first = |exchange: &&Exchange| topology.is_dead_letter_exchange(&exchange.name);
    let (first, others): (Vec<&Exchange>, Vec<&Exchange>) = topology.exchanges.iter().partition(is_first);
    for exchange in first {
        steps.push(Step::Exchange(exchange));
        for binding in bindings_of(topology, exchange) {
            // Queues before their bindings; a queue with two bindings is declared once.
            let queue = topology.queue(&binding.destination).map(Step::Queue);
            steps.extend(queue.filter(|step| !steps.contains(step)));
            steps.push(Step::Binding(binding));
        }
    }
    for queue in &topology.queues {
        if !steps.contains(&Step::Queue(queue)) {
            steps.push(Step::Queue(queue));
        }
    }
    for exchange in downstream_first(topology, others) {
        steps.push(Step::Exchange(exchange));
        steps.extend(bindings_of(topology, exchange).map(Step::Binding));
    }
    steps
}

/// Exchanges in such an order that whatever one leads to stands before it. Of exchanges in a circle the order is that of the file.
fn downstream_first<'a>(topology: &'a Topology, mut left: Vec<&'a Exchange>) -> Vec<&'a Exchange> {
    let mut ordered = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let waits = |exchange: &Exchange| left.iter().any(|other| leads_to(topology, exchange, &other.name));
        let next = left.iter().position(|exchange| !waits(exchange)).unwrap_or(0);
        ordered.push(left.remove(next));
    }
    ordered
}

fn leads_to(topology: &Topology, exchange: &Exchange, other: &str) -> bool {
    let is_bound = |binding: &Binding| binding.is_to_exchange() && binding.destination == other;
    exchange.alternate() == Some(other) || bindings_of(topology, exchange).any(is_bound)
}

fn bindings_of<'a>(topology: &'a Topology, exchange: &'a Exchange) -> impl Iterator<Item = &'a Binding> {
    topology.bindings.iter().filter(|binding| binding.source == exchange.name)
}

/// What became of it, and whether messages can be lost by it.
async fn apply_exchange(link: &Link, exchange: &Exchange) -> Result<(Applied, bool), TopologyError> {
    let object = exchange.object();
    let before = wire::exchange_exists(link, &exchange.name).await?;
    let refusal = match wire::declare_exchange(link, exchange).await? {
        Ok(()) => return Ok((Applied::alike(object, before.is_ok()), false)),
        Err(refusal) => refusal,
    };
    let sight = match is_difference(&refusal) {
        true => probe::exchange(link, exchange).await?,
        false => return Err(refused(object, refusal)),
    };
    let Sight::Seen(state) = sight else {
        return Err(refused(object, refusal));
    };
    let differences = judge_exchange(exchange, &state);
    let remedy = remedy::recreate_exchange(&exchange.name);
    let is_lossy = differences.iter().any(Difference::is_lossy);
    Ok((Applied::different(object, &differences, remedy), is_lossy))
}

async fn apply_queue(
    topology: &Topology,
    link: &Link,
    vhost: &str,
    queue: &Queue,
) -> Result<(Applied, bool), TopologyError> {
    let object = queue.object();
    let before = wire::queue_exists(link, &queue.name).await?;
    let refusal = match wire::declare_queue(link, queue).await? {
        Ok(()) => return Ok((Applied::alike(object, before.is_ok()), false)),
        Err(refusal) => refusal,
    };
    let sight = match is_difference(&refusal) {
        true => probe::queue(link, queue).await?,
        false => return Err(refused(object, refusal)),
    };
    let Sight::Seen(state) = sight else {
        return Err(refused(object, refusal));
    };
    let role = topology.role(queue);
    let differences = judge_queue(queue, role, &state, Series::Unknown);
    let lossy: Vec<&Difference> = differences.iter().filter(|d| d.is_lossy()).collect();
    let remedy = if lossy.is_empty() {
        remedy::differing_queue(&state)
    } else {
        let heal = remedy::lossy_queue(vhost, queue, role, &state, &lossy);
        format!("{heal}\nunless a policy has done it already: {}", remedy::CHECK)
    };
    Ok((Applied::different(object, &differences, remedy), !lossy.is_empty()))
}

async fn apply_binding(link: &Link, binding: &Binding) -> Result<(Applied, bool), TopologyError> {
    let object = binding.object();
    let outcome = match wire::bind(link, binding).await? {
        Ok(()) => return Ok((Applied { object, outcome: Outcome::Bound }, false)),
        // The queue is somebody's own. That has been told with the queue; the other bindings must not suffer.
        Err(refusal) if is_difference(&refusal) => Outcome::Differs {
            expected: "exists".to_owned(),
            found: refusal.text,
            remedy: format!("put {} {} right first", binding.destination_type, binding.destination),
        },
        Err(refusal) => return Err(refused(object, refusal)),
    };
    Ok((Applied { object, outcome }, true))
}

impl Applied {
    fn alike(object: String, was_there: bool) -> Self {
        let outcome = if was_there { Outcome::Present } else { Outcome::Created };
        Self { object, outcome }
    }

    fn different(object: String, differences: &[Difference], remedy: String) -> Self {
        let all: Vec<&Difference> = differences.iter().collect();
        let outcome = Outcome::Differs {
            expected: facts(&all, |difference| &difference.expected),
            found: facts(&all, |difference| &difference.found),
            remedy,
        };
        Self { object, outcome }
    }
}

/// An object of that name exists and is not as defined (or is somebody's own); other refusals are about us.
fn is_difference(refusal: &Refusal) -> bool {
    matches!(refusal.code, ReplyCode::PreconditionFailed | ReplyCode::ResourceLocked)
}

fn refused(object: String, refusal: Refusal) -> TopologyError {
    TopologyError::Refused { object, code: refusal.code.into(), text: refusal.text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spoken(steps: &[Step<'_>]) -> Vec<String> {
        steps
            .iter()
            .map(|step| match step {
                Step::Exchange(exchange) => exchange.object(),
                Step::Queue(queue) => queue.object(),
                Step::Binding(binding) => binding.object(),
            })
            .collect()
    }

    #[test]
    fn dead_letters_have_a_place_before_any_lane_exists() {
        let topology = Topology::embedded().unwrap();
        let order = spoken(&declaration_order(&topology));
        assert_eq!(
            order,
            [
                "exchange fis.dlx.exchange",
                "queue fis.ingestion.dlq.queue",
                "binding fis.dlx.exchange -> fis.ingestion.dlq.queue with key fis.ingestion.dlq",
                "queue fis.ingestion.queue",
                "queue fis.urgent.queue",
                "queue fis.backfill.queue",
                "queue fis.journal.stream",
                "exchange fis.events.exchange",
                "binding fis.events.exchange -> fis.ingestion.queue with key *.*.*",
                "binding fis.events.exchange -> fis.ingestion.queue with key #",
                "exchange fis.urgent.exchange",
                "binding fis.urgent.exchange -> fis.urgent.queue with key #",
                "exchange fis.backfill.exchange",
                "binding fis.backfill.exchange -> fis.backfill.queue with key #",
                "exchange fis.domain.exchange",
                "binding fis.domain.exchange -> fis.journal.stream with key fis.#",
            ]
        );
    }

    /// The order must follow from the roles and not from where somebody wrote an object in the file.
    #[test]
    fn the_order_does_not_depend_on_the_order_in_the_file() {
        let mut topology = Topology::embedded().unwrap();
        topology.exchanges.reverse();
        topology.queues.reverse();
        topology.bindings.reverse();
        let order = declaration_order(&topology);
        assert_eq!(spoken(&order)[..2], ["exchange fis.dlx.exchange", "queue fis.ingestion.dlq.queue"]);
        let place = |wanted: &str| spoken(&order).iter().position(|step| step == wanted);
        for binding in &topology.bindings {
            let bound = place(&binding.object());
            assert!(place(&format!("queue {}", binding.destination)) < bound);
            assert!(place(&format!("exchange {}", binding.source)) < bound);
        }
        let count = topology.exchanges.len() + topology.queues.len() + topology.bindings.len();
        assert_eq!(order.len(), count, "everything is declared, once");
    }
}
