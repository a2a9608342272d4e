//! The finance team: reads the feed from a queue of its own and keeps the books on it: which sequences came, of which tenant,
//! and whether one was missing or came twice.

use std::collections::{BTreeMap, HashSet};

use fis::domain::names::DOMAIN_EXCHANGE;
use fis::platform::amqp::{AmqpError, Connection, Consumer};

const PREFETCH: u16 = 1000;

pub struct Finance {
    consumer: Consumer,
    /// Per tenant: the first sequence seen, the last one, and how many times the order was broken.
    feeds: BTreeMap<String, Feed>,
    messages: HashSet<String>,
    pub rejections: u64,
}

pub struct Feed {
    pub first: i64,
    pub last: i64,
    pub faults: u64,
}

impl Finance {
    pub async fn attach(connection: &Connection) -> Result<Self, AmqpError> {
        let consumer = Consumer::attach(connection, DOMAIN_EXCHANGE, "fis.#", PREFETCH).await?;
        Ok(Self { consumer, feeds: BTreeMap::new(), messages: HashSet::new(), rejections: 0 })
    }

    /// Distinct announcements seen so far.
    pub fn seen(&self) -> u64 {
        self.messages.len() as u64
    }

    pub fn entries(&self) -> u64 {
        self.seen() - self.rejections
    }

    pub fn feeds(&self) -> impl Iterator<Item = (&String, &Feed)> {
        self.feeds.iter()
    }

    /// Takes one message.
    pub async fn next(&mut self) -> Result<(), AmqpError> {
        let delivery = self.consumer.next().await?;
        let id = delivery.properties.message_id().unwrap_or_default().to_owned();
        // The feed is at least once: what came before comes with the same id.
        if self.messages.insert(id) {
            let tenant = delivery.properties.header("x-fis-tenant").unwrap_or_default().to_owned();
            match delivery.properties.header_number("x-fis-sequence") {
                None => self.rejections += 1,
                Some(sequence) => {
                    let feed =
                        self.feeds.entry(tenant).or_insert(Feed { first: sequence, last: sequence - 1, faults: 0 });
                    feed.faults += u64::from(sequence != feed.last + 1);
                    feed.last = sequence;
                }
            }
        }
        self.consumer.settler().settle(&[delivery], |_| false).await
    }
}
