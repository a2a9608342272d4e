//! The names of the broker's objects and of the message headers that fis speaks, once. Publishers, readers and scripts rely on them.

/// The exchange to which publishers send their events: the live lane.
pub const EVENTS_EXCHANGE: &str = "fis.events.exchange";
pub const URGENT_EXCHANGE: &str = "fis.urgent.exchange";
/// The exchange of the low lane: publishers' back-fills.
pub const BACKFILL_EXCHANGE: &str = "fis.backfill.exchange";
/// The exchange that takes events of named tenants out of the live lane, into queues of their own.
pub const TENANTS_EXCHANGE: &str = "fis.tenants.exchange";
/// The exchange of what those tenants' queues leave: the live lane's own queue is behind it.
pub const REST_EXCHANGE: &str = "fis.rest.exchange";
/// The exchange of everything that fis announces.
pub const DOMAIN_EXCHANGE: &str = "fis.domain.exchange";

pub const INGESTION_QUEUE: &str = "fis.ingestion.queue";
/// The beginning of the names of tenants' own queues; the tenant follows.
pub const TENANT_QUEUES: &str = "fis.tenant.queue.";
pub const URGENT_QUEUE: &str = "fis.urgent.queue";
pub const BACKFILL_QUEUE: &str = "fis.backfill.queue";
pub const DEAD_LETTER_QUEUE: &str = "fis.ingestion.dlq.queue";
/// The stream that keeps every announcement for its readers.
pub const JOURNAL_STREAM: &str = "fis.journal.stream";
/// The exchange that names the ledger to which a virtual host belongs. Nobody publishes to it.
pub const LEDGER_EXCHANGE: &str = "fis.ledger.exchange";
/// The exclusive queue of the instance that relays for the whole virtual host.
pub const RELAY_OWNER_QUEUE: &str = "fis.relay.owner";
/// The exclusive queue of the instance that mirrors for the whole virtual host.
pub const MIRROR_OWNER_QUEUE: &str = "fis.mirror.owner";

/// The tenant of an event whose body names none, and of an announcement.
pub const TENANT_HEADER: &str = "x-fis-tenant";
/// The sequence of the entry that an announcement is about.
pub const SEQUENCE_HEADER: &str = "x-fis-sequence";
/// The W3C trace that an event belongs to.
pub const TRACEPARENT_HEADER: &str = "traceparent";
/// The beginning of the headers in which a binary CloudEvent keeps its envelope.
pub const CLOUD_EVENT_HEADERS: &str = "cloudEvents";
/// The header of a message that lost headers on its way in, because they could not be read: too deep, or larger than a frame.
/// What is left of it may look like another event of another tenant.
pub const UNREADABLE_HEADER: &str = "x-fis-unreadable";
/// The text that stood in the place of a stored message's properties, and is none.
pub const DAMAGED_HEADER: &str = "x-fis-damaged-properties";

/// The lease of the instance that follows the inbox for all of them.
pub const INBOX_LEASE: &str = "inbox";
