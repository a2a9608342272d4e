//! Which letters are of which message. A letter has its message's routing key and body; where the body is only the beginning of one, the letter says what
//! the whole was. The same bytes under a content type that makes them a CloudEvent are another message.

use std::collections::{HashMap, HashSet};

use lapin::BasicProperties;
use lapin::types::AMQPValue;

use super::Breach;
use crate::json::sha256;
use crate::model::{Message, Script};
use crate::poison::BODY_BYTES_MAX;
use crate::snapshot::LetterRow;

#[derive(PartialEq, Eq, Hash)]
struct Key<'a> {
    routing_key: &'a str,
    kept: &'a [u8],
    is_cloud_event: bool,
    /// The length and the hash of a body that was not kept whole.
    whole: Option<String>,
}

pub struct Letters<'a> {
    by_key: HashMap<Key<'a>, Vec<&'a LetterRow>>,
}

impl<'a> Letters<'a> {
    pub fn new(rows: &'a [LetterRow]) -> Self {
        let mut by_key: HashMap<Key<'_>, Vec<&LetterRow>> = HashMap::new();
        for row in rows {
            by_key.entry(key_of_letter(row)).or_default().push(row);
        }
        Self { by_key }
    }

    pub fn of(&self, message: &'a Message) -> Vec<&'a LetterRow> {
        self.by_key.get(&key_of_message(message)).cloned().unwrap_or_default()
    }

    /// No letter is of a message that nobody sent, and no message has two.
    pub fn strangers(&self, script: &'a Script) -> Vec<Breach> {
        let mut sent: HashMap<Key<'_>, HashSet<Vec<u8>>> = HashMap::new();
        for message in &script.messages {
            sent.entry(key_of_message(message)).or_default().insert(headers_of(message));
        }
        let mut breaches = Vec::new();
        for (key, letters) in &self.by_key {
            // With other headers the same body is another message, or may be one.
            let most = sent.get(key).map_or(0, HashSet::len);
            if letters.len() > most {
                let ids: Vec<&str> = letters.iter().map(|letter| letter.id.as_str()).collect();
                let body = String::from_utf8_lossy(&key.kept[..key.kept.len().min(200)]).into_owned();
                let what = format!("{ids:?} are letters of {most} messages to {}: {body}", key.routing_key);
                let (tenant, event) = (letters[0].tenant_id.as_deref(), letters[0].event_id.as_deref());
                breaches.push(Breach::new(1, what).of(tenant.unwrap_or_default(), event.unwrap_or_default()));
            }
        }
        breaches
    }
}

fn key_of_message(message: &Message) -> Key<'_> {
    let body = message.body.as_slice();
    let kept = body.get(..BODY_BYTES_MAX).unwrap_or(body);
    Key {
        routing_key: &message.routing_key,
        kept,
        is_cloud_event: is_cloud_event(message.content_type),
        whole: (kept.len() < body.len()).then(|| format!("{} bytes, sha256:{}", body.len(), sha256(body))),
    }
}

fn key_of_letter(letter: &LetterRow) -> Key<'_> {
    let properties: BasicProperties = serde_json::from_str(&letter.properties).unwrap_or_default();
    let content_type = properties.content_type().as_ref().map_or("", |kind| kind.as_str());
    let mark = properties.headers().as_ref().and_then(|headers| headers.inner().get("x-fis-unreadable"));
    let whole = match mark {
        Some(AMQPValue::LongString(mark)) if letter.body.len() == BODY_BYTES_MAX => {
            let mark = String::from_utf8_lossy(mark.as_bytes()).into_owned();
            mark.strip_prefix("body_cut ").map(ToOwned::to_owned)
        }
        _ => None,
    };
    let is_cloud_event = is_cloud_event(content_type);
    Key { routing_key: &letter.routing_key, kept: &letter.body, is_cloud_event, whole }
}

fn is_cloud_event(content_type: &str) -> bool {
    content_type.starts_with("application/cloudevents")
}

fn headers_of(message: &Message) -> Vec<u8> {
    match &message.odd {
        Some(odd) => odd.properties.headers.clone(),
        None => format!("{:?}", message.headers).into_bytes(),
    }
}
