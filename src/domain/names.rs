//! The names of the broker's objects and of the message headers that fis speaks, once. Publishers, readers and scripts rely on them.

/// The exchange to which publishers send their events: the live lane.
pub const EVENTS_EXCHANGE: &str = "fis.events.exchange";
pub const URGENT_EXCHANGE: &str = "fis.urgent.exchange";
/// The exchange of the low lane: publishers' back-fills, retries and replays.
pub const BACKFILL_EXCHANGE: &str = "fis.backfill.exchange";
/// The exchange of everything that fis announces.
pub const DOMAIN_EXCHANGE: &str = "fis.domain.exchange";

pub const INGESTION_QUEUE: &str = "fis.ingestion.queue";
pub const URGENT_QUEUE: &str = "fis.urgent.queue";
pub const BACKFILL_QUEUE: &str = "fis.backfill.queue";
pub const DEAD_LETTER_QUEUE: &str = "fis.ingestion.dlq.queue";
/// The stream that keeps every announcement for its readers.
pub const JOURNAL_STREAM: &str = "fis.journal.stream";
/// The exclusive queue of the instance that relays for the whole virtual host.
pub const RELAY_OWNER_QUEUE: &str = "fis.relay.owner";
/// The exclusive queue of the instance that mirrors for the whole virtual host.
pub const MIRROR_OWNER_QUEUE: &str = "fis.mirror.owner";

/// The tenant of an event whose body names none, and of an announcement.
pub const TENANT_HEADER: &str = "x-fis-tenant";
/// The sequence of the entry that an announcement is about.
pub const SEQUENCE_HEADER: &str = "x-fis-sequence";
/// The number of times that an event was held before; travels with its retry.
pub const ATTEMPT_HEADER: &str = "x-fis-attempt";
/// The publisher's own message id, where a retry or a replay had to have another one.
pub const MESSAGE_ID_HEADER: &str = "x-fis-message-id";
/// The letter of which a message says that it is the replay. It is a hint and never a proof: which letter a message is, its content says.
pub const LETTER_HEADER: &str = "x-fis-dead-letter";
/// The edited copy that a replay carries; for readers, nothing depends on it.
pub const EDIT_HEADER: &str = "x-fis-edit";
/// The W3C trace that an event belongs to.
pub const TRACEPARENT_HEADER: &str = "traceparent";
/// The beginning of the headers in which a binary CloudEvent keeps its envelope.
pub const CLOUD_EVENT_HEADERS: &str = "cloudEvents";
/// The header of a message that lost headers on its way in, because they could not be read: too deep, or larger than a frame.
/// What is left of it may look like another event of another tenant.
pub const UNREADABLE_HEADER: &str = "x-fis-unreadable";
