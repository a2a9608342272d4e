//! The names of things. Text enters, a checked name leaves. A name that would be ambiguous inside a Redis key, a
//! URL path or a hash input is never made.

use std::fmt;
use std::sync::Arc;

/// The longest event id: long enough for any id scheme seen, short enough for an index entry.
pub const EVENT_ID_BYTES_MAX: usize = 255;
/// Tenants appear in every row, key and header.
pub const TENANT_ID_BYTES_MAX: usize = 64;
/// Account codes are written by people.
pub const ACCOUNT_CODE_BYTES_MAX: usize = 64;
/// A routing key cannot be longer in AMQP, and event types are routing keys.
pub const EVENT_TYPE_BYTES_MAX: usize = 255;

/// Why a text is not a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("is empty")]
    Empty,
    #[error("is longer than {max} bytes")]
    TooLong { max: usize },
    #[error("contains the character {0:?}, which is not allowed here")]
    Character(char),
}

fn check(text: &str, max: usize, allowed: impl Fn(char) -> bool) -> Result<&str, NameError> {
    if text.is_empty() {
        return Err(NameError::Empty);
    }
    if text.len() > max {
        return Err(NameError::TooLong { max });
    }
    match text.chars().find(|c| !allowed(*c)) {
        Some(c) => Err(NameError::Character(c)),
        None => Ok(text),
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $max:expr, $allowed:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            /// # Errors
            /// The text is empty, too long, or has a character that this kind of name may not have.
            pub fn parse(text: &str) -> Result<Self, NameError> {
                Self::check(text).map(|text| Self(text.into()))
            }

            /// Hands the text back where it could be such a name.
            ///
            /// # Errors
            /// As `parse`.
            pub fn check(text: &str) -> Result<&str, NameError> {
                check(text, $max, $allowed)
            }

            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name!(
    /// A tenant. No colon, so that `fis:ik:{tenant}:{event}` can be read in one way only; no slash, because
    /// `{tenant}/{sequence}` is an entry's id.
    TenantId,
    TENANT_ID_BYTES_MAX,
    |c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
);
name!(
    /// The publisher's own id of an event: anything printable.
    EventId,
    EVENT_ID_BYTES_MAX,
    |c| !c.is_control()
);
name!(
    /// `{domain}.{entity}.{action}`, or whatever the publisher uses as its routing key.
    EventType,
    EVENT_TYPE_BYTES_MAX,
    |c| !c.is_control()
);
name!(
    /// An account of the tenant's chart.
    AccountCode,
    ACCOUNT_CODE_BYTES_MAX,
    |c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':')
);

/// An event of a tenant: the two names under which it is posted at most once.
pub type EventKey = (TenantId, EventId);

/// The place of an entry: its tenant and its sequence.
pub type EntryPlace = (TenantId, i64);

/// An entry's id is its place in the chain, so it needs no index and no generator: `acme/1042`.
#[must_use]
pub fn entry_id(tenant: &TenantId, seq: i64) -> String {
    format!("{tenant}/{seq}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_cannot_contain_what_separates_keys_and_ids() {
        assert!(TenantId::parse("acme-gmbh_1.eu").is_ok());
        for (text, why) in [
            ("", NameError::Empty),
            ("a:b", NameError::Character(':')),
            ("a/b", NameError::Character('/')),
            ("a b", NameError::Character(' ')),
            ("{a}", NameError::Character('{')),
        ] {
            assert_eq!(TenantId::parse(text), Err(why), "{text:?}");
        }
        assert_eq!(TenantId::parse(&"x".repeat(65)), Err(NameError::TooLong { max: 64 }));
    }

    #[test]
    fn an_event_id_may_be_anything_printable() {
        for text in ["evt_1", "a:b", "{x} y", "ünïcode", "sha256:00"] {
            assert!(EventId::parse(text).is_ok(), "{text}");
        }
        assert_eq!(EventId::parse("a\nb"), Err(NameError::Character('\n')));
    }
}
