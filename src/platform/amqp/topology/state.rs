//! What the broker has, as far as somebody could see it.
//!
//! Enters: nothing; these are the words that `probe` (AMQP), `managed` (management API) and `judge` (pure)
//! share. What must never happen: "not seen" turns into "not there"; the two have different names here.

use super::arguments::Arguments;

/// The broker's release series, whose rules it follows where 3.x and 4.x differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Series {
    V3,
    /// 4.0 and later.
    V4,
    /// AMQP alone does not tell (lapin keeps the server's properties to itself): the stricter rule applies.
    Unknown,
}

/// A queue as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueState {
    pub kind: String,
    pub durable: bool,
    pub auto_delete: bool,
    pub exclusive: bool,
    pub arguments: Arguments,
    pub policy: PolicyState,
    /// A refusal that could not be read: the object differs in a way nobody can name.
    pub unclear: Option<String>,
}

/// An exchange as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExchangeState {
    pub kind: String,
    pub durable: bool,
    pub auto_delete: bool,
    pub internal: bool,
    pub arguments: Arguments,
    pub unclear: Option<String>,
}

/// The policies in force on a queue.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum PolicyState {
    /// Nobody could look.
    #[default]
    Unseen,
    /// The definition in force: the user's policy merged with the operator's; empty where there is none.
    InForce { policy: Option<String>, operator_policy: Option<String>, definition: Arguments },
}

impl Series {
    /// From the version text of `/api/overview`, for example `3.10.8`.
    pub fn of_version(version: &str) -> Self {
        let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
        match major {
            Some(0..=3) => Self::V3,
            Some(_) => Self::V4,
            None => Self::Unknown,
        }
    }
}

impl PolicyState {
    /// The keys in force; none where nobody could look.
    pub fn definition(&self) -> Option<&Arguments> {
        match self {
            Self::Unseen => None,
            Self::InForce { definition, .. } => Some(definition),
        }
    }

    /// For people: which policies stand behind the definition in force.
    pub fn names(&self) -> String {
        match self {
            Self::Unseen => "policies not seen".to_owned(),
            Self::InForce { policy, operator_policy, .. } => match (policy, operator_policy) {
                (Some(user), Some(operator)) => {
                    format!("policy '{user}' and operator policy '{operator}'")
                }
                (Some(user), None) => format!("policy '{user}'"),
                (None, Some(operator)) => format!("operator policy '{operator}'"),
                (None, None) => "no policy".to_owned(),
            },
        }
    }
}
