//! Single questions to the broker, each on a channel of its own.
//!
//! Enters: one object of the definitions. Leaves: the broker's yes, or its [`Refusal`]. What must never happen: a
//! refusal takes anything else down. RabbitMQ answers a mismatch by closing the channel, so every question gets
//! a channel that nothing else uses and that is thrown away afterwards.

use std::{future::Future, time::Duration};

use lapin::{
    Channel, ErrorKind, ExchangeKind,
    options::{
        ExchangeBindOptions, ExchangeDeclareOptions, ExchangeUnbindOptions, QueueBindOptions, QueueDeclareOptions,
    },
    protocol::AMQPErrorKind,
};
use tokio::time::timeout;

use super::{
    super::link::Link,
    TopologyError,
    arguments::{Arguments, field_table},
    definitions::{Binding, Exchange, Queue},
    refusal::Refusal,
};

/// A quorum queue is declared by electing a leader, which takes seconds on a loaded cluster; a broker that needs
/// longer than this is not well enough to start on.
const ANSWER_SECONDS_MAX: u64 = 15;

/// The broker's answer about one object.
pub type Answer = Result<(), Refusal>;

/// Is there a queue of this name? Creates nothing.
pub async fn queue_exists(link: &Link, name: &str) -> Result<Answer, TopologyError> {
    ask(link, &format!("queue {name}"), async |channel| {
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let declared = channel.queue_declare(name.into(), options, field_table(&Arguments::new()));
        declared.await.map(|_queue| ())
    })
    .await
}

/// Is there an exchange of this name? Creates nothing; RabbitMQ ignores the type in a passive declaration.
pub async fn exchange_exists(link: &Link, name: &str) -> Result<Answer, TopologyError> {
    ask(link, &format!("exchange {name}"), async |channel| {
        let options = ExchangeDeclareOptions { passive: true, ..ExchangeDeclareOptions::default() };
        let arguments = field_table(&Arguments::new());
        channel.exchange_declare(name.into(), ExchangeKind::Direct, options, arguments).await
    })
    .await
}

/// Creates the queue, or asks whether the existing one is equivalent.
pub async fn declare_queue(link: &Link, queue: &Queue) -> Result<Answer, TopologyError> {
    ask(link, &queue.object(), async |channel| {
        let options = QueueDeclareOptions {
            durable: queue.durable,
            auto_delete: queue.auto_delete,
            ..QueueDeclareOptions::default()
        };
        let arguments = field_table(&queue.arguments);
        let declared = channel.queue_declare(queue.name.as_str().into(), options, arguments);
        declared.await.map(|_queue| ())
    })
    .await
}

/// Creates the exchange, or asks whether the existing one is equivalent.
pub async fn declare_exchange(link: &Link, exchange: &Exchange) -> Result<Answer, TopologyError> {
    ask(link, &exchange.object(), async |channel| {
        let options = ExchangeDeclareOptions {
            durable: exchange.durable,
            auto_delete: exchange.auto_delete,
            internal: exchange.internal,
            ..ExchangeDeclareOptions::default()
        };
        let kind = exchange_kind(&exchange.kind);
        let arguments = field_table(&exchange.arguments);
        channel.exchange_declare(exchange.name.as_str().into(), kind, options, arguments).await
    })
    .await
}

/// Binds; a binding that is already there is left as it is.
pub async fn bind(link: &Link, binding: &Binding) -> Result<Answer, TopologyError> {
    let Binding { source, destination, routing_key, arguments, .. } = binding;
    let (to, from, key) = (destination.as_str().into(), source.as_str().into(), routing_key.as_str().into());
    ask(link, &binding.object(), async |channel| {
        let arguments = field_table(arguments);
        if binding.is_to_exchange() {
            channel.exchange_bind(to, from, key, ExchangeBindOptions::default(), arguments).await
        } else {
            channel.queue_bind(to, from, key, QueueBindOptions::default(), arguments).await
        }
    })
    .await
}

/// Takes a binding away; where there is none, RabbitMQ says yes as well.
pub async fn unbind(link: &Link, binding: &Binding) -> Result<Answer, TopologyError> {
    let Binding { source, destination, routing_key, arguments, .. } = binding;
    let (to, from, key) = (destination.as_str().into(), source.as_str().into(), routing_key.as_str().into());
    ask(link, &binding.object(), async |channel| {
        let arguments = field_table(arguments);
        if binding.is_to_exchange() {
            channel.exchange_unbind(to, from, key, ExchangeUnbindOptions::default(), arguments).await
        } else {
            channel.queue_unbind(to, from, key, arguments).await
        }
    })
    .await
}

fn exchange_kind(kind: &str) -> ExchangeKind {
    match kind {
        "direct" => ExchangeKind::Direct,
        "fanout" => ExchangeKind::Fanout,
        "headers" => ExchangeKind::Headers,
        "topic" => ExchangeKind::Topic,
        other => ExchangeKind::Custom(other.to_owned()),
    }
}

/// Opens a channel and asks; the link closes it when the next one is opened.
async fn ask<F>(link: &Link, object: &str, question: F) -> Result<Answer, TopologyError>
where
    F: AsyncFnOnce(&Channel) -> lapin::Result<()>,
{
    let channel = within(object, link.channel()).await?;
    let channel = channel.map_err(|source| lost(object, source))?;
    match within(object, question(&channel)).await? {
        Ok(()) => Ok(Ok(())),
        Err(error) => refusal(object, error).map(Err),
    }
}

async fn within<T>(object: &str, step: impl Future<Output = T>) -> Result<T, TopologyError> {
    let limit = Duration::from_secs(ANSWER_SECONDS_MAX);
    timeout(limit, step)
        .await
        .map_err(|_| TopologyError::TimedOut { object: object.to_owned(), seconds: ANSWER_SECONDS_MAX })
}

/// Only a channel-level error is an answer; anything else means that the connection is gone.
fn refusal(object: &str, error: lapin::Error) -> Result<Refusal, TopologyError> {
    if let ErrorKind::ProtocolError(said) = error.kind()
        && matches!(said.kind(), AMQPErrorKind::Soft(_))
    {
        return Ok(Refusal { code: said.get_id().into(), text: said.get_message().to_string() });
    }
    Err(lost(object, error))
}

fn lost(object: &str, source: lapin::Error) -> TopologyError {
    TopologyError::Connection { object: object.to_owned(), source }
}
