//! A publisher of messages that no library would send: `wire` in a test's world, where nothing may fail.

use super::wire::{self, Properties, Wire};
use super::world::World;

pub struct Raw {
    wire: Wire,
}

impl Raw {
    pub const HEADER_BYTES_MAX: usize = wire::HEADER_BYTES_MAX;

    pub async fn open(world: &World) -> Self {
        let address = world.servers.amqp.rsplit('@').next().unwrap().split('/').next().unwrap();
        Self { wire: Wire::open(address, &world.vhost).await.unwrap() }
    }

    /// The payload of a content header with a message id and these headers.
    pub fn header(body_bytes: usize, message_id: &[u8], headers: &[u8]) -> Vec<u8> {
        properties(message_id, headers).header(body_bytes)
    }

    /// Publishes, and waits for the broker's confirm.
    pub async fn publish(
        &mut self,
        exchange: &str,
        routing_key: &[u8],
        message_id: &[u8],
        headers: &[u8],
        body: &[u8],
    ) {
        let properties = properties(message_id, headers);
        assert!(self.wire.publish(exchange, routing_key, &properties, body).await.unwrap(), "the broker has it");
    }

    /// Publishes with any content header, and waits for the broker's confirm. A broker that refuses says why and closes: then this is of no use any more.
    pub async fn offer(
        &mut self,
        exchange: &str,
        routing_key: &[u8],
        header: &[u8],
        body: &[u8],
    ) -> Result<(), String> {
        match self.wire.offer(exchange, routing_key, header, body).await {
            Ok(true) => Ok(()),
            Ok(false) => Err("the broker did not take it".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Takes the first message of a queue and puts it back: it was delivered once, and its consumer was lost.
    pub async fn give_back(&mut self, queue: &str) {
        self.wire.give_back(queue).await.unwrap();
    }
}

fn properties(message_id: &[u8], headers: &[u8]) -> Properties {
    Properties { headers: headers.to_vec(), message_id: message_id.to_vec(), ..Properties::default() }
}
