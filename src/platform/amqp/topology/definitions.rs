//! `topology/definitions.json`, typed.
//!
//! Enters: the embedded file, in RabbitMQ's own definitions format. Leaves: a [`Topology`] whose names all
//! resolve. What must never happen: a second list of queue names or arguments anywhere in the program. What
//! `fis topology apply` declares and what an admin imports into the broker are the same bytes.

use serde::Deserialize;

use super::arguments::{Argument, Arguments, keys};

/// The only source. Embedded, so that the binary can never run against another version of the file.
pub const DEFINITIONS: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/topology/definitions.json"));

/// Everything the service needs from the broker, of one virtual host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// The virtual host the file is written for. A connection's own virtual host has precedence over it.
    pub vhost: String,
    pub exchanges: Vec<Exchange>,
    pub queues: Vec<Queue>,
    pub bindings: Vec<Binding>,
    /// Bindings of another form of the topology. They go last, when everything that takes their place is there.
    pub former: Vec<Former>,
    /// Exchanges to which nobody binds but this topology: a binding that it does not name is left over.
    pub closed: Vec<String>,
}

/// A binding that is not wanted any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Former {
    pub binding: Binding,
    /// For whoever finds the binding in force: what that means, and what to do.
    pub remedy: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exchange {
    pub name: String,
    pub vhost: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub durable: bool,
    pub auto_delete: bool,
    pub internal: bool,
    pub arguments: Arguments,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Queue {
    pub name: String,
    pub vhost: String,
    pub durable: bool,
    pub auto_delete: bool,
    pub arguments: Arguments,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Binding {
    pub source: String,
    pub vhost: String,
    pub destination: String,
    pub destination_type: String,
    pub routing_key: String,
    pub arguments: Arguments,
}

/// The purpose of a queue, read from the definitions themselves: the rules of safety differ by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Messages wait here for the service and leave by dead-lettering when they are refused.
    Lane,
    /// Dead letters end here; what this queue drops is gone.
    LastStop,
    /// A log that readers attach to; it never removes a message because somebody read it.
    Stream,
    /// None of these: no rule beyond existing with the right type.
    Plain,
}

#[derive(Debug, thiserror::Error)]
pub enum DefinitionsError {
    #[error("topology definitions are not in the expected form")]
    Json(#[source] serde_json::Error),
    #[error("topology definitions must name exactly one virtual host, they name {count}")]
    VhostCount { count: usize },
    #[error("{object} belongs to virtual host {found}, the definitions to {expected}")]
    ForeignVhost { object: String, expected: String, found: String },
    #[error("binding {binding} names {missing}, which the definitions do not declare")]
    DanglingBinding { binding: String, missing: String },
    #[error("queue {queue} dead-letters to {exchange} with key {key}, which no binding takes")]
    DanglingDeadLetter { queue: String, exchange: String, key: String },
    #[error("{object} has the argument {key} of a kind that cannot be declared")]
    Argument { object: String, key: String },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    vhosts: Vec<Vhost>,
    exchanges: Vec<Exchange>,
    queues: Vec<Queue>,
    bindings: Vec<Binding>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vhost {
    name: String,
}

impl Topology {
    /// The topology this binary was built with.
    pub fn embedded() -> Result<Self, DefinitionsError> {
        Self::parse(DEFINITIONS)
    }

    pub fn parse(text: &str) -> Result<Self, DefinitionsError> {
        let file: File = serde_json::from_str(text).map_err(DefinitionsError::Json)?;
        let [vhost] = file.vhosts.as_slice() else {
            return Err(DefinitionsError::VhostCount { count: file.vhosts.len() });
        };
        let (vhost, exchanges, queues, bindings) = (vhost.name.clone(), file.exchanges, file.queues, file.bindings);
        let topology = Self { vhost, exchanges, queues, bindings, former: Vec::new(), closed: Vec::new() };
        topology.assert_one_vhost()?;
        topology.assert_names_resolve()?;
        topology.assert_declarable()?;
        Ok(topology)
    }

    pub fn exchange(&self, name: &str) -> Option<&Exchange> {
        self.exchanges.iter().find(|exchange| exchange.name == name)
    }

    pub fn queue(&self, name: &str) -> Option<&Queue> {
        self.queues.iter().find(|queue| queue.name == name)
    }

    /// True where some queue of the file sends its dead letters to this exchange.
    pub fn is_dead_letter_exchange(&self, exchange: &str) -> bool {
        self.queues.iter().any(|queue| queue.text(keys::X_DEAD_LETTER_EXCHANGE) == Some(exchange))
    }

    pub fn role(&self, queue: &Queue) -> Role {
        if queue.kind() == "stream" {
            return Role::Stream;
        }
        if queue.text(keys::X_DEAD_LETTER_EXCHANGE).is_some() {
            return Role::Lane;
        }
        let takes_dead_letters = self
            .bindings
            .iter()
            .any(|binding| binding.destination == queue.name && self.is_dead_letter_exchange(&binding.source));
        if takes_dead_letters { Role::LastStop } else { Role::Plain }
    }

    fn assert_one_vhost(&self) -> Result<(), DefinitionsError> {
        let exchanges = self.exchanges.iter().map(|e| (e.object(), &e.vhost));
        let queues = self.queues.iter().map(|q| (q.object(), &q.vhost));
        let bindings = self.bindings.iter().map(|b| (b.object(), &b.vhost));
        for (object, found) in exchanges.chain(queues).chain(bindings) {
            if *found != self.vhost {
                return Err(DefinitionsError::ForeignVhost {
                    object,
                    expected: self.vhost.clone(),
                    found: found.clone(),
                });
            }
        }
        Ok(())
    }

    fn assert_names_resolve(&self) -> Result<(), DefinitionsError> {
        for binding in &self.bindings {
            // Only bindings to queues: nothing in the file needs an exchange behind an exchange.
            let queue_known = binding.destination_type == "queue" && self.queue(&binding.destination).is_some();
            let missing = match (self.exchange(&binding.source), queue_known) {
                (Some(_), true) => continue,
                (None, _) => &binding.source,
                (Some(_), false) => &binding.destination,
            };
            return Err(DefinitionsError::DanglingBinding { binding: binding.object(), missing: missing.clone() });
        }
        self.queues.iter().try_for_each(|queue| self.assert_dead_letters_arrive(queue))
    }

    /// A dead letter that no binding takes stays invisible in its source queue, so such a file is refused.
    fn assert_dead_letters_arrive(&self, queue: &Queue) -> Result<(), DefinitionsError> {
        let Some(exchange) = queue.text(keys::X_DEAD_LETTER_EXCHANGE) else {
            return Ok(());
        };
        let key = queue.text(keys::X_DEAD_LETTER_ROUTING_KEY).unwrap_or("");
        let taken = self.bindings.iter().any(|binding| binding.source == exchange && binding.routing_key == key);
        if taken {
            return Ok(());
        }
        Err(DefinitionsError::DanglingDeadLetter {
            queue: queue.name.clone(),
            exchange: exchange.to_owned(),
            key: key.to_owned(),
        })
    }

    fn assert_declarable(&self) -> Result<(), DefinitionsError> {
        let exchanges = self.exchanges.iter().map(|e| (e.object(), &e.arguments));
        let queues = self.queues.iter().map(|q| (q.object(), &q.arguments));
        let bindings = self.bindings.iter().map(|b| (b.object(), &b.arguments));
        for (object, arguments) in exchanges.chain(queues).chain(bindings) {
            for (key, value) in arguments {
                if matches!(value, Argument::Other(_)) {
                    return Err(DefinitionsError::Argument { object, key: key.clone() });
                }
            }
        }
        Ok(())
    }
}

impl Exchange {
    pub fn object(&self) -> String {
        format!("exchange {}", self.name)
    }

    /// The exchange that gets what no binding of this one takes.
    pub fn alternate(&self) -> Option<&str> {
        match self.arguments.get(keys::ALTERNATE_EXCHANGE) {
            Some(Argument::Text(name)) => Some(name),
            Some(Argument::Flag(_) | Argument::Integer(_) | Argument::Other(_)) | None => None,
        }
    }
}

impl Queue {
    pub fn object(&self) -> String {
        format!("queue {}", self.name)
    }

    /// `classic`, `quorum` or `stream`. RabbitMQ takes a queue without the argument as classic.
    pub fn kind(&self) -> &str {
        self.text(keys::X_QUEUE_TYPE).unwrap_or("classic")
    }

    pub fn text(&self, key: &str) -> Option<&str> {
        match self.arguments.get(key) {
            Some(Argument::Text(text)) => Some(text),
            Some(Argument::Flag(_) | Argument::Integer(_) | Argument::Other(_)) | None => None,
        }
    }
}

impl Binding {
    /// True where messages go on to another exchange.
    pub fn is_to_exchange(&self) -> bool {
        self.destination_type == "exchange"
    }

    pub fn object(&self) -> String {
        format!("binding {} -> {} with key {}", self.source, self.destination, self.routing_key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_file_has_the_roles_of_the_contract() {
        let topology = Topology::embedded().unwrap();
        let roles: Vec<(&str, Role)> =
            topology.queues.iter().map(|queue| (queue.name.as_str(), topology.role(queue))).collect();
        assert_eq!(
            roles,
            [
                ("fis.ingestion.dlq.queue", Role::LastStop),
                ("fis.ingestion.queue", Role::Lane),
                ("fis.urgent.queue", Role::Lane),
                ("fis.backfill.queue", Role::Lane),
                ("fis.journal.stream", Role::Stream),
            ]
        );
        assert_eq!(topology.vhost, "/fis");
        // An argument here would refuse the publishers, who declare this exchange without any.
        assert!(topology.exchange("fis.events.exchange").unwrap().arguments.is_empty());
    }

    #[test]
    fn a_file_that_does_not_hold_together_is_refused() {
        for (from, to, reason) in [
            ("\"vhosts\"", "\"hosts\"", "not in the expected form"),
            ("\"internal\": false,", "\"internal\": false, \"typo\": 1,", "not in the expected form"),
            ("\"name\": \"/fis\"", "\"name\": \"/other\"", "belongs to virtual host /fis"),
            ("\"destination\": \"fis.urgent.queue\"", "\"destination\": \"typo\"", "names typo"),
            ("\"source\": \"fis.dlx.exchange\"", "\"source\": \"typo\"", "names typo"),
            ("\"routing_key\": \"fis.ingestion.dlq\"", "\"routing_key\": \"typo\"", "which no binding takes"),
            ("\"x-max-length\": 5000000", "\"x-max-length\": 1.5", "of a kind that cannot be declared"),
        ] {
            assert!(DEFINITIONS.contains(from), "{from}");
            let error = Topology::parse(&DEFINITIONS.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.contains(reason), "{to}: {error}");
        }
    }
}
