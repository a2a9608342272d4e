//! RabbitMQ's management API, as much of it as the service needs.
//!
//! Enters: a base URL, or several separated by commas (the nodes of a cluster), a user and a virtual host. Leaves: JSON. What must never happen: the password reaches an
//! error, a log line or `{:?}`; a call waits for ever or reads without a bound. One connection per call: these
//! calls are rare, and a kept connection would have to be watched.

mod error;
mod place;

use std::{error::Error, fmt};

use base64::{Engine, prelude::BASE64_STANDARD};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::{
    Method, Request, StatusCode,
    body::Bytes,
    client::conn::http1,
    header::{AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST, HeaderValue},
};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{AmqpError, address};
use crate::platform::config;

pub use self::error::ManagementError;
use self::place::Place;

/// Some hundred bytes per binding: enough for ten thousands of them, and no threat to the memory.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The broker explains a refusal in one sentence; more would only flood the log.
const REASON_CHARS_MAX: usize = 300;

/// A client for one virtual host.
#[derive(Clone)]
pub struct Management {
    /// Any of them can answer for all; they are asked in turn.
    places: Vec<Place>,
    authorization: HeaderValue,
    vhost: String,
}

/// The numbers of messages that a queue holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct QueueCounts {
    pub ready: u64,
    pub unacked: u64,
}

#[derive(Deserialize)]
struct NameRow {
    name: String,
}

#[derive(Deserialize)]
struct CountsRow {
    // Statistics: absent until the queue has reported for the first time.
    messages_ready: Option<u64>,
    messages_unacknowledged: Option<u64>,
}

impl Management {
    /// Checks the URLs; connects to nothing. With `https` the server's certificate is judged as it is for `amqps`.
    pub fn new(base_urls: &str, user: &str, password: &str, vhost: &str) -> Result<Self, ManagementError> {
        let places = base_urls.split(',').map(Place::parse).collect::<Result<_, _>>()?;
        let token = BASE64_STANDARD.encode(format!("{user}:{password}"));
        let mut authorization =
            HeaderValue::try_from(format!("Basic {token}")).map_err(ManagementError::Credentials)?;
        authorization.set_sensitive(true);
        Ok(Self { places, authorization, vhost: vhost.to_owned() })
    }

    /// The API of the configured brokers: where the configuration says, else on the brokers' hosts at its usual port. Whoever has an
    /// address with TLS never has the password sent without, unless the configuration itself names an http address.
    ///
    /// # Errors
    /// An address cannot be read.
    pub fn of(config: &config::Amqp) -> Result<Self, AmqpError> {
        let addresses = address::parse(config)?;
        let urls = match config.management_url.as_str() {
            "" => addresses.iter().map(usual_url).collect::<Vec<_>>().join(","),
            urls => urls.to_owned(),
        };
        // The nodes of a cluster share their users.
        let (user, password, vhost) = match addresses.first() {
            Some(first) => (first.user.as_str(), first.password.expose(), first.vhost.as_str()),
            None => unreachable!("there is at least one address"),
        };
        Self::new(&urls, user, password, vhost).map_err(|error| AmqpError::ManagementUrl { reason: error.to_string() })
    }

    pub fn vhost(&self) -> &str {
        &self.vhost
    }

    /// The path of one object in the virtual host: `queues/%2Ffis/fis.ingestion.queue`.
    pub fn object_path(&self, kind: &str, name: &str) -> String {
        format!("{kind}/{}/{}", encode(&self.vhost), encode(name))
    }

    /// The path of all objects of a kind in the virtual host: `bindings/%2Ffis`.
    pub fn list_path(&self, kind: &str) -> String {
        format!("{kind}/{}", encode(&self.vhost))
    }

    /// `path` is what follows `/api/`, already encoded.
    pub async fn get_json<T: DeserializeOwned>(&self, path: &str) -> Result<T, ManagementError> {
        let answer = self.call(Method::GET, path, Bytes::new()).await?;
        read(path, &answer)
    }

    /// Reads as [`Self::get_json`] does, with none for an object that does not exist.
    pub async fn find_json<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, ManagementError> {
        match self.call(Method::GET, path, Bytes::new()).await {
            Ok(answer) => read(path, &answer).map(Some),
            Err(ManagementError::Status { status: StatusCode::NOT_FOUND, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub async fn put_json<B: Serialize + ?Sized>(&self, path: &str, body: &B) -> Result<(), ManagementError> {
        self.call(Method::PUT, path, written(path, body)?).await.map(drop)
    }

    pub async fn post_json<B: Serialize + ?Sized>(&self, path: &str, body: &B) -> Result<(), ManagementError> {
        self.call(Method::POST, path, written(path, body)?).await.map(drop)
    }

    pub async fn delete(&self, path: &str) -> Result<(), ManagementError> {
        self.call(Method::DELETE, path, Bytes::new()).await.map(drop)
    }

    /// The message counts of a queue, up to five seconds old. None while a new queue has not reported yet: that is not zero.
    pub async fn queue_counts(&self, queue: &str) -> Result<Option<QueueCounts>, ManagementError> {
        let row: CountsRow = self.get_json(&self.object_path("queues", queue)).await?;
        let counts = row.messages_ready.zip(row.messages_unacknowledged);
        Ok(counts.map(|(ready, unacked)| QueueCounts { ready, unacked }))
    }

    /// The names of the queues that begin so.
    pub async fn queue_names(&self, beginning: &str) -> Result<Vec<String>, ManagementError> {
        let rows: Vec<NameRow> = self.get_json(&format!("{}?columns=name", self.list_path("queues"))).await?;
        Ok(rows.into_iter().map(|row| row.name).filter(|name| name.starts_with(beginning)).collect())
    }

    /// Asks one node after the other until one answers, whatever it says.
    async fn call(&self, method: Method, path: &str, body: Bytes) -> Result<Bytes, ManagementError> {
        let mut last = ManagementError::Url { reason: "it names no host" };
        for place in &self.places {
            last = match self.call_at(place, method.clone(), path, body.clone()).await {
                Err(error) if may_be_asked_elsewhere(&error, &method) => error,
                ended => return ended,
            };
        }
        Err(last)
    }

    /// One request on one connection. Dropping the future closes the connection; whether the broker has acted on
    /// it is then unknown.
    async fn call_at(&self, place: &Place, method: Method, path: &str, body: Bytes) -> Result<Bytes, ManagementError> {
        let request = self.request(place, &method, path, body)?;
        let stream = place.connect().await?;
        let broken = |source| ManagementError::Broken { address: place.address(), source };
        let shaken = place.within(http1::handshake(TokioIo::new(stream))).await?;
        let (mut sender, connection) = shaken.map_err(broken)?;
        let talk = async move {
            let response = sender.send_request(request).await.map_err(broken)?;
            let status = response.status();
            let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
            // The sender ends here, and with it the connection that is driven beside this.
            drop(sender);
            body.map(|body| (status, body.to_bytes())).map_err(|error| unread(path, error.as_ref()))
        };
        // Both together: the connection moves the bytes that the talk waits for. Its own error is the talk's, too.
        let (talked, _driven) = place.within(async { tokio::join!(talk, connection) }).await?;
        let (status, body) = talked?;
        if status.is_success() {
            return Ok(body);
        }
        Err(ManagementError::Status { method, path: path.to_owned(), status, reason: reason_of(&body) })
    }

    fn request(
        &self,
        place: &Place,
        method: &Method,
        path: &str,
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, ManagementError> {
        Request::builder()
            .method(method.clone())
            .uri(format!("{}/api/{path}", place.prefix))
            .header(HOST, place.address())
            .header(AUTHORIZATION, self.authorization.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(CONNECTION, "close")
            .body(Full::new(body))
            .map_err(|source| ManagementError::Request { path: path.to_owned(), source })
    }
}

/// The usual place of the API beside a broker.
fn usual_url(address: &address::Address) -> String {
    let (scheme, port) = if address.has_tls() { ("https", 15671) } else { ("http", 15672) };
    format!("{scheme}://{}:{port}", address.host)
}

/// A question may be put to the next node after any silence; an order only where nobody can have heard it.
fn may_be_asked_elsewhere(error: &ManagementError, method: &Method) -> bool {
    match error {
        ManagementError::Unreachable { .. } => true,
        ManagementError::TimedOut { .. } | ManagementError::Broken { .. } => method == Method::GET,
        _ => false,
    }
}

impl fmt::Debug for Management {
    /// Without the authorization, which is the password in another spelling.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Management").field("places", &self.places).field("vhost", &self.vhost).finish_non_exhaustive()
    }
}

fn read<T: DeserializeOwned>(path: &str, answer: &[u8]) -> Result<T, ManagementError> {
    serde_json::from_slice(answer).map_err(|source| json(path, source))
}

fn written<B: Serialize + ?Sized>(path: &str, body: &B) -> Result<Bytes, ManagementError> {
    let bytes = serde_json::to_vec(body).map_err(|source| json(path, source))?;
    Ok(Bytes::from(bytes))
}

fn json(path: &str, source: serde_json::Error) -> ManagementError {
    ManagementError::Json { path: path.to_owned(), source }
}

fn unread(path: &str, error: &(dyn Error + Send + Sync + 'static)) -> ManagementError {
    if error.is::<LengthLimitError>() {
        return ManagementError::TooLong { path: path.to_owned(), bytes: ANSWER_BYTES_MAX };
    }
    ManagementError::Unread { path: path.to_owned(), reason: error.to_string() }
}

/// The broker's `reason`, else the beginning of whatever it sent.
fn reason_of(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Refused {
        reason: String,
    }
    let text = match serde_json::from_slice::<Refused>(body) {
        Ok(refused) => refused.reason,
        Err(_) => String::from_utf8_lossy(body).into_owned(),
    };
    text.chars().take(REASON_CHARS_MAX).collect()
}

/// Percent-encodes one path segment: `/fis` becomes `%2Ffis`.
pub fn encode(segment: &str) -> String {
    let mut encoded = String::with_capacity(segment.len());
    for byte in segment.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests;
