//! The place of each message: what was published and confirmed enters, a verdict for each leaves, from the tables alone. What must never happen: a message that
//! is nowhere, or in two places, passes.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use fis::domain::disposition::Reason;
use fis::platform::amqp::Properties;
use fis::platform::amqp::wire::{Screen, UNREADABLE_HEADER, readable};
use lapin::BasicProperties;
use lapin::protocol::basic::parse_properties;
use sha2::{Digest as _, Sha256};

use super::message::Sent;
use crate::support::events::{Expect, Message};
use crate::support::fuzz::{about, outline};
use crate::support::invariants::event_key;
use crate::support::process::Run;
use crate::support::tree::{EXPIRATION, FRAME_BYTES, frame};
use crate::support::wait::wait_within;
use crate::support::world::World;

const SOON: Duration = Duration::from_secs(60);
const KEPT: usize = 256 * 1024;

/// Tenant, event id and payload hash.
type Key = (String, String, String);

/// A message that the broker has confirmed.
struct Confirmed {
    sent: Sent,
    routing_key: String,
    /// The hash of the part of the body that a letter keeps.
    kept: String,
    message_id: Option<String>,
    /// The event that it is, where it is one.
    event: Option<Key>,
    is_cart: bool,
    may_expire: bool,
    is_told: bool,
}

#[derive(Default)]
pub struct Places {
    confirmed: Vec<Confirmed>,
}

struct Letter {
    routing_key: String,
    reason: String,
    detail: String,
}

/// What the tables say.
struct Tables {
    /// With the message id of each.
    posted: HashMap<Key, Option<String>>,
    held: HashSet<Key>,
    letters: HashMap<String, Vec<Letter>>,
}

fn hash(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// The properties as they come to the service.
fn seen(header: &[u8]) -> BasicProperties {
    let mut screen = Screen::new(u32::try_from(FRAME_BYTES).unwrap());
    let (mut rest, mut out) = (&frame(2, 1, header)[..], Vec::new());
    while !rest.is_empty() {
        let room = screen.room();
        let count = room.len().min(rest.len());
        room[..count].copy_from_slice(&rest[..count]);
        screen.filled(count);
        rest = &rest[count..];
        let mut taken = vec![0; FRAME_BYTES * 2];
        let count = screen.take(&mut taken);
        out.extend_from_slice(&taken[..count]);
    }
    parse_properties(&out[7 + 12..out.len() - 1]).unwrap().1
}

impl Places {
    pub fn add(&mut self, sent: Sent) {
        let properties = seen(&sent.header);
        // PostgreSQL cannot store NUL.
        let routing_key = readable(&sent.routing_key);
        let message_id = properties.message_id().as_ref().map(|id| id.as_str().to_owned());
        let (body, expect) = (sent.body.clone(), Expect::Any);
        let message = Message { exchange: sent.exchange, routing_key, body, properties, expect };
        let flags = u16::from_be_bytes([sent.header[12], sent.header[13]]);
        self.confirmed.push(Confirmed {
            kept: hash(sent.body.get(..KEPT).unwrap_or(&sent.body)),
            message_id,
            event: event_key(&message),
            is_cart: is_cart(&message),
            may_expire: flags & (1 << (15 - EXPIRATION)) != 0,
            routing_key: message.routing_key.replace('\0', "\u{fffd}"),
            is_told: false,
            sent,
        });
    }

    /// All messages, as files of the corpus.
    pub fn inputs(&self) -> Vec<Vec<u8>> {
        self.confirmed.iter().map(|confirmed| confirmed.sent.encode()).collect()
    }

    /// Waits until each has its place; then the input and the shape of each message that came since the last time, or what is wrong.
    pub async fn judged(&mut self, world: &World, run: &mut Run) -> Result<Vec<(Vec<u8>, String)>, String> {
        let expiring = self.confirmed.iter().filter(|confirmed| confirmed.may_expire).count();
        let all = self.confirmed.len() + world.published.lock().unwrap().len();
        let deadline = Instant::now() + SOON;
        let tables = wait_within("each message has its place", 2 * SOON, async || {
            if !run.is_running() {
                return Ok(Err("the service ended".to_owned()));
            }
            let decided = decided(run).await;
            let tables = Tables::read(world).await;
            let lost = self.confirmed.iter().find(|confirmed| tables.place_of(confirmed).is_none());
            let missing = match lost {
                Some(lost) => format!("{:?} {:?} {:?} has no place", lost.message_id, lost.routing_key, lost.event),
                None if decided + expiring < all => format!("{decided} of {all} deliveries are settled"),
                None => return Ok(Ok(tables)),
            };
            // One that never finds its place is a finding, to be written down.
            if Instant::now() < deadline { Err(missing) } else { Ok(Err(missing)) }
        })
        .await?;
        world.quiet().await;
        tables.check(&self.confirmed)?;
        let mut told = Vec::new();
        for confirmed in self.confirmed.iter_mut().filter(|confirmed| !confirmed.is_told) {
            confirmed.is_told = true;
            let size = about(confirmed.sent.body.len() as u64) / 3;
            let place = tables.place_of(confirmed).unwrap_or_default();
            told.push((confirmed.sent.encode(), format!("{place} {size}")));
        }
        Ok(told)
    }

    /// Every letter's properties can be read back, and of a body that was cut it says what the whole was.
    pub async fn check_letters(&self, world: &World) -> Result<(), String> {
        let letters: Vec<(String, String, String)> =
            sqlx::query_as("select id, properties, encode(sha256(body), 'hex') from fis_dead_letter")
                .fetch_all(&world.pool)
                .await
                .unwrap();
        for (id, properties, kept) in letters {
            let Some(properties) = Properties::from_text(&properties) else {
                return Err(format!("the properties of {id} cannot be read back"));
            };
            let mark = properties.header(UNREADABLE_HEADER).unwrap_or_default();
            let mut of_it = self.confirmed.iter().filter(|confirmed| confirmed.kept == kept);
            let is_told = |confirmed: &Confirmed| {
                let body = &confirmed.sent.body;
                body.len() <= KEPT || mark == format!("body_cut {} bytes, sha256:{}", body.len(), hash(body))
            };
            if !of_it.any(is_told) {
                return Err(format!("{id} does not say what its body was"));
            }
        }
        Ok(())
    }
}

/// The deliveries that the service has settled.
async fn decided(run: &Run) -> usize {
    let (_, metrics) = run.get("/metrics").await;
    let count = |line: &str| line.rsplit(' ').next().and_then(|count| count.parse::<usize>().ok());
    metrics.lines().filter(|line| line.starts_with("fis_intake_deliveries_total{")).filter_map(count).sum()
}

/// Whether a message is of the one kind that a rule ignores.
fn is_cart(message: &Message) -> bool {
    let named = |text: &str| text.strip_prefix("ecommerce.cart.").is_some_and(|rest| !rest.contains('.'));
    let body: serde_json::Value = serde_json::from_slice(&message.body).unwrap_or_default();
    let types = ["eventType", "action", "type"].map(|name| body[name].as_str());
    let header = message.header_text("cloudEvents:type").or_else(|| message.header_text("cloudEvents_type"));
    named(&message.routing_key) || types.into_iter().flatten().chain(header).any(named)
}

impl Tables {
    async fn read(world: &World) -> Self {
        let posted: Vec<(String, String, String, Option<String>)> =
            sqlx::query_as("select tenant_id, event_id, payload_hash, message_id from fis_journal_entry")
                .fetch_all(&world.pool)
                .await
                .unwrap();
        let held: Vec<Key> = sqlx::query_as("select tenant_id, event_id, payload_hash from fis_held")
            .fetch_all(&world.pool)
            .await
            .unwrap();
        let rows: Vec<(String, String, String, String)> =
            sqlx::query_as("select encode(sha256(body), 'hex'), routing_key, reason, detail from fis_dead_letter")
                .fetch_all(&world.pool)
                .await
                .unwrap();
        let mut letters: HashMap<String, Vec<Letter>> = HashMap::new();
        for (kept, routing_key, reason, detail) in rows {
            letters.entry(kept).or_default().push(Letter { routing_key, reason, detail });
        }
        let posted = posted.into_iter().map(|(tenant, event, hash, id)| ((tenant, event, hash), id)).collect();
        Self { posted, held: held.into_iter().collect(), letters }
    }

    /// The place of a message, in words; `None`: it has none.
    fn place_of(&self, confirmed: &Confirmed) -> Option<String> {
        if let Some(letters) = self.letters.get(&confirmed.kept) {
            let own = letters.iter().find(|letter| letter.routing_key == confirmed.routing_key);
            // A publisher who writes a death of his own chooses the key under which the broker's letter is parked.
            let letter = own.or_else(|| letters.first().filter(|_| confirmed.names_a_death()))?;
            return Some(format!("letter {} {}", letter.reason, outline(&letter.detail)));
        }
        let event = confirmed.event.as_ref();
        match event.and_then(|event| self.posted.get(event)) {
            Some(id) if *id == confirmed.message_id => return Some("posted".to_owned()),
            Some(_) => return Some("duplicate".to_owned()),
            None => {}
        }
        if event.is_some_and(|event| self.held.contains(event)) {
            return Some("held".to_owned());
        }
        (event.is_some() && confirmed.is_cart).then(|| "ignored".to_owned())
    }

    /// No message is in two places, no letter is of no message, no message became two letters, and every reason is a known one.
    fn check(&self, confirmed: &[Confirmed]) -> Result<(), String> {
        let mut messages: HashMap<&str, usize> = HashMap::new();
        for one in confirmed {
            *messages.entry(&one.kept).or_default() += 1;
            let entry = one.event.as_ref().and_then(|event| self.posted.get(event));
            let is_posted = one.message_id.is_some() && entry == Some(&one.message_id);
            let is_letter = self.letters.contains_key(&one.kept);
            let is_held = one.event.as_ref().is_some_and(|event| self.held.contains(event));
            if u8::from(is_posted) + u8::from(is_letter) + u8::from(is_held) > 1 {
                return Err(format!(
                    "{:?} is in two places: posted {is_posted}, letter {is_letter}, held {is_held}",
                    one.message_id
                ));
            }
        }
        for (kept, letters) in &self.letters {
            let count = messages.get(kept.as_str()).copied().unwrap_or(0);
            if letters.len() > count {
                return Err(format!("{count} messages are {} letters: {kept}", letters.len()));
            }
            let is_known = |letter: &Letter| Reason::ALL.iter().any(|reason| reason.code() == letter.reason);
            if !letters.iter().all(is_known) {
                return Err(format!("a letter has an unknown reason: {kept}"));
            }
        }
        Ok(())
    }
}

impl Confirmed {
    fn names_a_death(&self) -> bool {
        self.sent.header.windows(7).any(|window| window == b"x-death")
    }
}
