//! Tenants with a queue of their own in the live lane (ADR 49): the setting `intake.tenant_queues` enters; the queues, their limits and the topology
//! that has them leave. A quorum queue is first in, first out, so a tenant's backlog delays everybody behind it in the same queue; in a queue of
//! its own it delays nobody. What must never happen: an event is in no queue while the topology changes.

use std::num::NonZeroU32;

use crate::domain::ids::TenantId;
use crate::domain::names::{
    EVENTS_EXCHANGE, INGESTION_QUEUE, REST_EXCHANGE, TENANT_HEADER, TENANT_QUEUES, TENANTS_EXCHANGE,
};
use crate::platform::amqp::topology::{Argument, Arguments, Binding, Exchange, Former, Queue, Topology};

/// The broker compares an event with one binding after the other: sixteen cost it half as much again as none.
const TENANTS_MAX: usize = 16;
/// More events a second than any instance posts: such a limit is a slip.
const LIMIT_MAX: u32 = 1_000_000;

/// A tenant with a queue of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantQueue {
    pub tenant: TenantId,
    /// Events a second that an instance takes from the queue.
    pub limit: Option<NonZeroU32>,
}

impl TenantQueue {
    #[must_use]
    pub fn name(&self) -> String {
        format!("{TENANT_QUEUES}{}", self.tenant)
    }

    /// The tenant's queue of this name, without a limit.
    fn named(queue: &str) -> Option<Self> {
        let tenant = queue.strip_prefix(TENANT_QUEUES)?;
        Some(Self { tenant: TenantId::parse(tenant).ok()?, limit: None })
    }
}

/// The tenants with queues of their own, in the order of the setting.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TenantQueues(Vec<TenantQueue>);

impl TenantQueues {
    /// Reads `TENANT TENANT=LIMIT`: tenants with spaces in between, each with its limit where it has one.
    ///
    /// # Errors
    /// The text is wrong; the error says how, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut queues: Vec<TenantQueue> = Vec::new();
        for part in text.split_whitespace() {
            let (name, limit) = part.split_once('=').map_or((part, None), |(name, limit)| (name, Some(limit)));
            let tenant = TenantId::parse(name).map_err(|error| format!("tenant `{name}` {error}"))?;
            if queues.iter().any(|queue| queue.tenant == tenant) {
                return Err(format!("tenant `{tenant}` is named twice"));
            }
            let limit = limit.map(|limit| parse_limit(&tenant, limit)).transpose()?;
            queues.push(TenantQueue { tenant, limit });
        }
        if queues.len() > TENANTS_MAX {
            return Err(format!("{} tenants are named, at most {TENANTS_MAX} can have a queue", queues.len()));
        }
        Ok(Self(queues))
    }

    pub fn iter(&self) -> impl Iterator<Item = &TenantQueue> {
        self.0.iter()
    }

    /// Of these queues of the broker, the ones that belong to a tenant who has none any more. Nothing new comes to them, and what is in
    /// them is still to be posted.
    #[must_use]
    pub fn left_over(&self, queues: &[String]) -> Vec<TenantQueue> {
        let found = queues.iter().filter_map(|queue| TenantQueue::named(queue));
        found.filter(|queue| !self.0.iter().any(|named| named.tenant == queue.tenant)).collect()
    }

    /// The topology with the tenants' queues in the live lane, and the bindings that it takes the place of.
    #[must_use]
    pub fn laid_over(&self, mut topology: Topology) -> Topology {
        let rest = binding(&topology, REST_EXCHANGE, ("queue", INGESTION_QUEUE), "", Arguments::new());
        let onward = binding(&topology, EVENTS_EXCHANGE, ("exchange", TENANTS_EXCHANGE), "#", Arguments::new());
        if self.0.is_empty() {
            let remedy = "tenants have queues of their own on this broker: name them in `intake.tenant_queues`, as the \
                          other instances do\nwhere none is to have one any more: fis topology apply";
            topology.former.push(Former { binding: onward, remedy: remedy.to_owned() });
            topology.former.push(Former { binding: rest, remedy: remedy.to_owned() });
            return topology;
        }
        let is_front_door =
            |binding: &Binding| binding.source == EVENTS_EXCHANGE && binding.destination == INGESTION_QUEUE;
        let (front_door, mut bindings): (Vec<_>, Vec<_>) = topology.bindings.drain(..).partition(is_front_door);
        topology.former.extend(front_door.into_iter().map(|binding| {
            let remedy =
                "beside the tenants' exchange every event arrives twice, and ends as a duplicate: fis topology apply"
                    .to_owned();
            Former { binding, remedy }
        }));
        bindings.push(onward);
        bindings.push(rest);
        let alternate = Arguments::from([("alternate-exchange".to_owned(), Argument::Text(REST_EXCHANGE.to_owned()))]);
        topology.exchanges.push(exchange(&topology, TENANTS_EXCHANGE, "headers", alternate));
        topology.exchanges.push(exchange(&topology, REST_EXCHANGE, "fanout", Arguments::new()));
        let live = topology.queue(INGESTION_QUEUE).cloned();
        for queue in &self.0 {
            // Without `-with-x` RabbitMQ leaves headers out that begin with `x-`. It knows the word since 3.10.
            let matching = [("x-match", "all-with-x"), (TENANT_HEADER, queue.tenant.as_str())];
            let matching = matching.map(|(key, value)| (key.to_owned(), Argument::Text(value.to_owned())));
            // A headers exchange does not look at the key; people do.
            let (name, key) = (queue.name(), queue.tenant.as_str());
            bindings.push(binding(&topology, TENANTS_EXCHANGE, ("queue", &name), key, Arguments::from(matching)));
            topology.queues.extend(live.clone().map(|live| Queue { name, ..live }));
        }
        topology.closed.push(TENANTS_EXCHANGE.to_owned());
        topology.bindings = bindings;
        topology
    }
}

fn parse_limit(tenant: &TenantId, text: &str) -> Result<NonZeroU32, String> {
    let limit = text.parse::<NonZeroU32>().ok().filter(|limit| limit.get() <= LIMIT_MAX);
    limit.ok_or_else(|| format!("the limit `{text}` of tenant `{tenant}` is not a whole number from 1 to {LIMIT_MAX}"))
}

fn exchange(topology: &Topology, name: &str, kind: &str, arguments: Arguments) -> Exchange {
    let (name, vhost, kind) = (name.to_owned(), topology.vhost.clone(), kind.to_owned());
    Exchange { name, vhost, kind, durable: true, auto_delete: false, internal: false, arguments }
}

fn binding(topology: &Topology, source: &str, to: (&str, &str), routing_key: &str, arguments: Arguments) -> Binding {
    Binding {
        source: source.to_owned(),
        vhost: topology.vhost.clone(),
        destination: to.1.to_owned(),
        destination_type: to.0.to_owned(),
        routing_key: routing_key.to_owned(),
        arguments,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::amqp::topology::{Step, declaration_order, draw};

    fn queues(text: &str) -> TenantQueues {
        TenantQueues::parse(text).unwrap()
    }

    #[test]
    fn a_tenant_has_a_queue_and_perhaps_a_limit() {
        let queues = queues(" acme=500  globex.eu ");
        let told: Vec<(String, Option<u32>)> =
            queues.iter().map(|queue| (queue.name(), queue.limit.map(NonZeroU32::get))).collect();
        assert_eq!(
            told,
            [("fis.tenant.queue.acme".to_owned(), Some(500)), ("fis.tenant.queue.globex.eu".to_owned(), None)]
        );
    }

    #[test]
    fn a_wrong_list_is_refused_with_the_place() {
        let many = (0..=TENANTS_MAX).map(|n| format!("t{n} ")).collect::<String>();
        for (text, words) in [
            ("acme acme=5", "`acme` is named twice"),
            ("a/b", "tenant `a/b` contains the character '/'"),
            ("=5", "tenant `` is empty"),
            ("acme=", "the limit `` of tenant `acme`"),
            ("acme=0", "from 1 to 1000000"),
            ("acme=1.5", "the limit `1.5`"),
            ("acme=1000001", "from 1 to 1000000"),
            ("acme,globex", "','"),
            (&many, "17 tenants are named, at most 16"),
        ] {
            let error = TenantQueues::parse(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn without_tenants_the_topology_is_that_of_the_file() {
        let plain = Topology::embedded().unwrap();
        let same = queues("").laid_over(plain.clone());
        assert_eq!((&same.exchanges, &same.queues, &same.bindings), (&plain.exchanges, &plain.queues, &plain.bindings));
    }

    /// Until the front door is reached by the new way, it must be reached by the old one.
    #[test]
    fn every_place_is_there_before_a_way_leads_to_it() {
        let mut topology = queues("acme globex").laid_over(Topology::embedded().unwrap());
        for _ in 0..2 {
            let order = declaration_order(&topology);
            let place = |wanted: &str| {
                let is = |step: &Step<'_>| match step {
                    Step::Exchange(exchange) => exchange.object() == wanted,
                    Step::Queue(queue) => queue.object() == wanted,
                    Step::Binding(binding) => binding.object() == wanted,
                };
                order.iter().position(is).unwrap_or_else(|| panic!("{wanted} is not declared"))
            };
            let in_this_order = [
                "queue fis.tenant.queue.globex",
                "exchange fis.rest.exchange",
                "binding fis.rest.exchange -> fis.ingestion.queue with key ",
                "exchange fis.tenants.exchange",
                "binding fis.tenants.exchange -> fis.tenant.queue.globex with key globex",
                "exchange fis.events.exchange",
                "binding fis.events.exchange -> fis.tenants.exchange with key #",
            ];
            assert!(in_this_order.is_sorted_by_key(|object| place(object)), "{order:?}");
            topology.exchanges.reverse();
            topology.queues.reverse();
            topology.bindings.reverse();
        }
        let former: Vec<String> = topology.former.iter().map(|former| former.binding.object()).collect();
        assert_eq!(
            former,
            [
                "binding fis.events.exchange -> fis.ingestion.queue with key *.*.*",
                "binding fis.events.exchange -> fis.ingestion.queue with key #"
            ]
        );
    }

    #[test]
    fn a_tenants_queue_is_as_safe_as_the_lanes_and_drawn() {
        let topology = queues("acme").laid_over(Topology::embedded().unwrap());
        let live = topology.queue(INGESTION_QUEUE).unwrap();
        let own = topology.queue("fis.tenant.queue.acme").unwrap();
        assert_eq!(own.arguments, live.arguments);
        let drawing = draw(&topology);
        let readme = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/topology/README.md"));
        for exchange in ["fis.events.exchange", TENANTS_EXCHANGE, REST_EXCHANGE] {
            let part = drawing.split("\n\n").find(|part| part.starts_with(exchange)).unwrap();
            assert!(readme.contains(part), "put this into topology/README.md:\n{part}");
        }
    }

    #[test]
    fn a_queue_whose_tenant_is_not_named_any_more_is_left_over() {
        let names = ["fis.ingestion.queue", "fis.tenant.queue.acme", "fis.tenant.queue.old", "fis.tenant.queue.a/b"];
        let left = queues("acme").left_over(&names.map(str::to_owned));
        assert_eq!(left.iter().map(TenantQueue::name).collect::<Vec<_>>(), ["fis.tenant.queue.old"]);
    }
}
