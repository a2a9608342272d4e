//! The broker's topology: one file, declared, compared, drawn.
//!
//! Enters: `topology/definitions.json` (embedded) and a broker. Leaves: declarations ([`apply()`]), findings
//! ([`check()`], [`report()`]) and a drawing ([`draw()`]). What must never happen: the service runs on a topology
//! that can lose messages, or a difference stops it without saying what to do.
//!
//! | file | does |
//! |---|---|
//! | `definitions` | the file, typed, its names resolved |
//! | `arguments` | one value type and the keys that matter |
//! | `wire` | one question to the broker, on a throw-away channel |
//! | `refusal` | reads the broker's "no" |
//! | `apply` | declares in the order that cannot lose |
//! | `belonging` | marks a virtual host as somebody's |
//! | `check` | compares, and tells what could not be seen |
//! | `probe` | reads an object through AMQP alone |
//! | `managed`, `policies` | read objects and policies through the management API |
//! | `state` | what was read |
//! | `effective` | arguments and policies resolved as RabbitMQ does it |
//! | `judge` | what a difference means |
//! | `remedy` | what to do about it |
//! | `report`, `draw` | text for people |

mod apply;
mod arguments;
mod belonging;
mod check;
mod definitions;
mod draw;
mod effective;
mod judge;
mod managed;
mod policies;
mod probe;
mod refusal;
mod remedy;
mod report;
mod state;
mod wire;

pub use apply::{Applied, Outcome, Step, apply, declaration_order, sweep};
pub use arguments::{Argument, Arguments};
pub use belonging::{Belongs, take};
pub use check::check;
pub use definitions::{Binding, DEFINITIONS, DefinitionsError, Exchange, Former, Queue, Role, Topology};
pub use draw::draw;
pub use remedy::{APPLY, SafePolicy};
pub use report::{Finding, Severity, is_lossy, report};

use super::ReplyCode;

/// Why the topology could not be declared or compared at all. A difference is not an error but a [`Finding`].
#[derive(Debug, thiserror::Error)]
pub enum TopologyError {
    #[error("connection to the broker failed at {object}")]
    Connection {
        object: String,
        #[source]
        source: lapin::Error,
    },
    #[error("the broker gave no answer about {object} within {seconds} s")]
    TimedOut { object: String, seconds: u64 },
    #[error("the broker refused {object} with {code}: {text}")]
    Refused { object: String, code: u16, text: String },
}

impl TopologyError {
    /// The broker's answer, where it gave one.
    #[must_use]
    pub fn code(&self) -> Option<ReplyCode> {
        match self {
            Self::Connection { source, .. } => super::reply::code_of(source),
            Self::TimedOut { .. } => None,
            Self::Refused { code, .. } => Some((*code).into()),
        }
    }
}
