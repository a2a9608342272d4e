//! The five dialects: a JSON document and its message enter, the members of an envelope leave, by the names that the dialect
//! gives them. Which dialect it is, is decided by shape, in `Fields::of`, and nowhere else.

use std::borrow::Cow;

use chrono::{DateTime, Utc};

use super::{BatchRef, Dialect, Identity, InboundEvent, RawMessage, is_cloud_event_type};
use crate::domain::canonical::sha256_text;
use crate::domain::disposition::{Failure, Reason};
use crate::domain::ids::{EventId, EventType, NameError, TenantId};
use crate::domain::json::Json;
use crate::domain::names::TENANT_HEADER;

/// A batch beyond this is a mistake.
const BATCH_SIZE_MAX: i64 = 100_000_000;

/// The names that the dialects give the id, the tenant, the type, the time and the correlation.
const CANONICAL: [&str; 5] = ["eventId", "tenantId", "eventType", "occurredAt", "correlationId"];
const SNAKE_CASE: [&str; 5] = ["event_id", "tenant_id", "event_type", "timestamp", "correlation_id"];
const CLOUD_EVENT: [&str; 5] = ["id", "tenantid", "type", "time", "correlationid"];

/// The members of one dialect, by the names that dialect gives them.
pub(super) struct Fields<'a> {
    dialect: Dialect,
    event_id: Option<Text<'a>>,
    tenant_id: Option<Text<'a>>,
    event_type: Option<Text<'a>>,
    occurred_at: Option<Text<'a>>,
    correlation_id: Option<Text<'a>>,
    payload_member: Option<&'static str>,
    pub(super) batch: Option<Result<BatchRef, Failure>>,
    max_attempts: Option<Result<u32, Failure>>,
    payload: Result<(), Failure>,
}

/// A member's name with its text, or the complaint that it is no text.
struct Text<'a> {
    name: &'static str,
    value: Result<Cow<'a, str>, Failure>,
}

impl Text<'_> {
    fn as_str(&self) -> Result<&str, Failure> {
        self.value.as_deref().map_err(Clone::clone)
    }
}

fn member<'a>(root: &Json<'a>, name: &'static str) -> Option<Text<'a>> {
    match root.get(name)? {
        Json::Null => None,
        Json::String(text) => Some(Text { name, value: Ok(text.clone()) }),
        Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => {
            Some(Text { name, value: Err(Failure::new(Reason::BadField, format!("`{name}` is not a string"))) })
        }
    }
}

fn header_text<'a>(message: RawMessage<'a, '_>, name: &'static str) -> Option<Text<'a>> {
    let value = (message.header)(&format!("cloudEvents:{name}"))
        .or_else(|| (message.header)(&format!("cloudEvents_{name}")))?;
    Some(Text { name, value: Ok(Cow::Borrowed(value)) })
}

impl<'a> Fields<'a> {
    pub(super) fn of(message: RawMessage<'a, '_>, root: &Json<'a>) -> Self {
        let has = |name: &str| root.get(name).is_some();
        if ["cloudEvents:specversion", "cloudEvents_specversion"].iter().any(|name| (message.header)(name).is_some()) {
            return Self::cloud_event_binary(message);
        }
        // A queue envelope may name its tenant as the snake-case form does, but never has an `event_id`.
        let is_queued = has("payload")
            && (has("id") || has("idempotency_key"))
            && (has("action") || has("attempts") || has("created_at"));
        let cloud_type = is_cloud_event_type(message.content_type);
        let mut fields = if cloud_type || (has("specversion") && has("id") && has("type")) {
            Self::members(root, Dialect::CloudEventStructured, CLOUD_EVENT, "data")
        } else if has("eventId") || (has("payload") && (has("tenantId") || has("eventType"))) {
            Self::members(root, Dialect::Canonical, CANONICAL, "payload")
        } else if has("event_id") || (has("payload") && !is_queued && (has("tenant_id") || has("timestamp"))) {
            Self::members(root, Dialect::SnakeCase, SNAKE_CASE, "payload")
        } else if is_queued {
            Self::queue_envelope(root)
        } else if has("payload") {
            Self::members(root, Dialect::Canonical, CANONICAL, "payload")
        } else {
            Self::raw(message, root)
        };
        if fields.payload_member == Some("payload") {
            fields.batch = batch(root);
        }
        fields
    }

    /// The fields of a message whose body cannot be read: what its headers say. The id of a raw event would be a hash of the body, by which nobody knows it.
    pub(super) fn without_body(message: RawMessage<'a, '_>) -> Self {
        let fields = Self::of(message, &Json::Null);
        match fields.dialect {
            Dialect::CloudEventBinary => fields,
            _ => Self { event_id: None, ..fields },
        }
    }

    fn members(root: &Json<'a>, dialect: Dialect, names: [&'static str; 5], payload: &'static str) -> Self {
        let [event_id, tenant_id, event_type, occurred_at, correlation_id] = names.map(|name| member(root, name));
        let shape = match root.get(payload) {
            Some(Json::Object(_)) => Ok(()),
            None if root.get("data_base64").is_some() => {
                Err(Failure::new(Reason::BadField, "`data_base64` is not taken; send `data` as a JSON object"))
            }
            None => Err(Failure::new(Reason::MissingField, format!("`{payload}` is missing"))),
            Some(_) => Err(Failure::new(Reason::BadField, format!("`{payload}` is not an object"))),
        };
        Self {
            dialect,
            event_id,
            tenant_id,
            event_type,
            occurred_at,
            correlation_id,
            payload_member: Some(payload),
            batch: None,
            max_attempts: None,
            payload: shape,
        }
    }

    fn queue_envelope(root: &Json<'a>) -> Self {
        let names = ["id", "tenant_id", "event_type", "created_at", "correlation_id"];
        let mut fields = Self::members(root, Dialect::QueueEnvelope, names, "payload");
        // Where the publisher gives its own key, a re-enqueued job keeps it while `id` changes.
        fields.event_id = member(root, "idempotency_key").or(fields.event_id);
        // `action` is a whole event type, or just the last word of one; then the routing key says more.
        fields.event_type = fields.event_type.or_else(|| member(root, "action").filter(is_event_type));
        fields.max_attempts = root
            .get("max_attempts")
            .and_then(|value| whole_number("max_attempts", value, 0, 1000))
            .map(|result| result.map(|n| u32::try_from(n).unwrap_or(u32::MAX)));
        fields
    }

    fn cloud_event_binary(message: RawMessage<'a, '_>) -> Self {
        let [event_id, tenant_id, event_type, occurred_at, correlation_id] =
            CLOUD_EVENT.map(|name| header_text(message, name));
        Self {
            dialect: Dialect::CloudEventBinary,
            event_id,
            tenant_id,
            event_type,
            occurred_at,
            correlation_id,
            payload_member: None,
            batch: None,
            max_attempts: None,
            payload: Ok(()),
        }
    }

    fn raw(message: RawMessage<'a, '_>, root: &Json<'a>) -> Self {
        let digest = sha256_text(message.body);
        Self {
            dialect: Dialect::Raw,
            event_id: Some(Text { name: "body", value: Ok(Cow::Owned(digest)) }),
            tenant_id: member(root, "tenantId").or_else(|| member(root, "tenant_id")),
            event_type: None,
            occurred_at: None,
            correlation_id: None,
            payload_member: None,
            batch: None,
            max_attempts: None,
            payload: Ok(()),
        }
    }

    pub(super) fn event(
        &self,
        message: RawMessage<'a, '_>,
        default_tenant: Option<&TenantId>,
    ) -> Result<InboundEvent<'a>, Failure> {
        let event_id = required(self.event_id.as_ref(), self.event_id_name(), EventId::parse)?;
        let tenant_id = self.tenant(message, default_tenant)?;
        let event_type = match &self.event_type {
            Some(text) => named(text.name, text.as_str()?, EventType::parse)?,
            None => named("routing key", message.routing_key, EventType::parse)?,
        };
        let occurred_at = self.occurred_at.as_ref().map(|text| instant(text.name, text.as_str()?)).transpose()?;
        let correlation_id =
            self.correlation_id.as_ref().map(|text| named(text.name, text.as_str()?, EventId::check)).transpose()?;
        self.payload.clone()?;
        Ok(InboundEvent {
            dialect: self.dialect,
            event_id,
            tenant_id,
            event_type,
            occurred_at,
            correlation_id: correlation_id.map(ToOwned::to_owned),
            batch: self.batch.clone().transpose()?,
            max_attempts: self.max_attempts.clone().transpose()?,
            payload: Json::Null,
            payload_hash: String::new(),
        })
    }

    fn event_id_name(&self) -> &'static str {
        match self.dialect {
            Dialect::Canonical => "eventId",
            Dialect::SnakeCase => "event_id",
            Dialect::QueueEnvelope | Dialect::CloudEventStructured | Dialect::CloudEventBinary => "id",
            Dialect::Raw => "body",
        }
    }

    /// The canonical form names its tenant itself; the others may leave it to a header or to the configuration.
    fn tenant(&self, message: RawMessage<'_, '_>, default: Option<&TenantId>) -> Result<TenantId, Failure> {
        if let Some(text) = &self.tenant_id {
            return named(text.name, text.as_str()?, TenantId::parse);
        }
        if self.dialect == Dialect::Canonical {
            return Err(Failure::new(Reason::MissingField, "`tenantId` is missing"));
        }
        if let Some(header) = (message.header)(TENANT_HEADER) {
            return named(TENANT_HEADER, header, TenantId::parse);
        }
        default.cloned().ok_or_else(|| {
            Failure::new(
                Reason::MissingField,
                "no tenant: neither in the body, nor in header `x-fis-tenant`, nor configured",
            )
        })
    }

    pub(super) fn identity(&self, message: RawMessage<'_, '_>, default_tenant: Option<&TenantId>) -> Identity {
        let text = |text: &Option<Text<'a>>| text.as_ref().and_then(|t| t.value.clone().ok());
        Identity {
            tenant_id: self.tenant(message, default_tenant).ok(),
            event_id: text(&self.event_id).and_then(|t| EventId::parse(&t).ok()),
            event_type: EventType::parse(&text(&self.event_type).unwrap_or(Cow::Borrowed(message.routing_key))).ok(),
            correlation_id: text(&self.correlation_id).filter(|t| EventId::check(t).is_ok()).map(Cow::into_owned),
        }
    }

    /// Moves the payload out of the document; the rest of the envelope is dropped.
    pub(super) fn take_payload(&self, root: Json<'a>) -> Json<'a> {
        match (self.payload_member, root) {
            (Some(name), Json::Object(members)) => {
                members.into_vec().into_iter().find(|(key, _)| key == name).map_or(Json::Null, |(_, value)| value)
            }
            (_, root) => root,
        }
    }
}

fn is_event_type(action: &Text<'_>) -> bool {
    action.value.as_ref().is_ok_and(|text| text.split('.').count() == 3 && text.split('.').all(|word| !word.is_empty()))
}

fn required<T>(text: Option<&Text<'_>>, name: &str, parse: fn(&str) -> Result<T, NameError>) -> Result<T, Failure> {
    match text {
        Some(text) => named(text.name, text.as_str()?, parse),
        None => Err(Failure::new(Reason::MissingField, format!("`{name}` is missing"))),
    }
}

fn named<'t, T>(name: &str, text: &'t str, parse: fn(&'t str) -> Result<T, NameError>) -> Result<T, Failure> {
    parse(text).map_err(|error| Failure::new(Reason::BadField, format!("`{name}` {error}")))
}

fn instant(name: &str, text: &str) -> Result<DateTime<Utc>, Failure> {
    DateTime::parse_from_rfc3339(text).map(|instant| instant.to_utc()).map_err(|_| {
        Failure::new(Reason::BadField, format!("`{name}` is not an RFC 3339 time such as 2026-02-25T10:00:00Z"))
    })
}

fn batch(root: &Json<'_>) -> Option<Result<BatchRef, Failure>> {
    let batch = match root.get("batch")? {
        Json::Null => return None,
        batch @ Json::Object(_) => batch,
        Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => {
            return Some(Err(Failure::new(Reason::BadField, "`batch` is not an object")));
        }
    };
    let id = match member(batch, "id") {
        Some(text) => text.value.and_then(|id| named("batch.id", &id, EventId::parse)),
        None => Err(Failure::new(Reason::MissingField, "`batch.id` is missing")),
    };
    let size = batch.get("size").and_then(|size| whole_number("batch.size", size, 1, BATCH_SIZE_MAX)).transpose();
    Some(id.and_then(|id| Ok(BatchRef { id, size: size? })))
}

fn whole_number(name: &str, value: &Json<'_>, min: i64, max: i64) -> Option<Result<i64, Failure>> {
    let number = match value {
        Json::Null => return None,
        Json::Number(number) => number.text().parse::<i64>().ok(),
        Json::Bool(_) | Json::String(_) | Json::Array(_) | Json::Object(_) => None,
    };
    Some(
        number.filter(|n| (min..=max).contains(n)).ok_or_else(|| {
            Failure::new(Reason::BadField, format!("`{name}` is not a whole number from {min} to {max}"))
        }),
    )
}
