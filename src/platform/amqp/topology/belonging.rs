//! To whom a virtual host belongs: a marker enters, an exchange that nobody publishes to and whose one argument names the owner. What leaves is
//! whether the virtual host is ours. What must never happen: a marker of somebody else is changed.
//!
//! RabbitMQ compares a second declaration with what is there: of an exchange's arguments it compares the alternate exchange, refuses another
//! one and tells the present one; and that exchange need not exist.

use super::{
    super::link::Link,
    TopologyError,
    arguments::{Argument, Arguments},
    definitions::Exchange,
    refusal::{Current, Inequivalent},
    wire,
};

const ALTERNATE: &str = "alternate-exchange";

/// The answer to whom a virtual host belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Belongs {
    ToUs,
    /// The name of the other one; `None`: the broker cut its answer off before it.
    ToAnother(Option<String>),
}

/// Takes the virtual host where it is nobody's, and tells whose it is where it is not ours.
pub async fn take(link: &Link, marker: &str, owner: &str) -> Result<Belongs, TopologyError> {
    let exchange = Exchange {
        name: marker.to_owned(),
        vhost: link.status().vhost().to_string(),
        kind: "fanout".to_owned(),
        durable: true,
        auto_delete: false,
        internal: true,
        arguments: Arguments::from([(ALTERNATE.to_owned(), Argument::Text(owner.to_owned()))]),
    };
    let refusal = match wire::declare_exchange(link, &exchange).await? {
        Ok(()) => return Ok(Belongs::ToUs),
        Err(refusal) => refusal,
    };
    match refusal.inequivalent() {
        Some(Inequivalent { argument, current: Current::Value(value) }) if argument == ALTERNATE => {
            Ok(Belongs::ToAnother(Some(value.to_string())))
        }
        // An exchange of that name which fis has not made names nobody either.
        Some(_) => Ok(Belongs::ToAnother(None)),
        None => {
            let (code, text) = (refusal.code.into(), refusal.text);
            Err(TopologyError::Refused { object: exchange.object(), code, text })
        }
    }
}
