//! The broker's reply codes: a number of AMQP enters, one of the words that somebody here acts upon leaves.

use crate::platform::server_address::io_text;

/// The code with which the broker refused something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyCode {
    AccessRefused,
    NotFound,
    ResourceLocked,
    PreconditionFailed,
    NotAllowed,
    /// Nobody tells these apart.
    Other(u16),
}

impl From<u16> for ReplyCode {
    fn from(code: u16) -> Self {
        match code {
            403 => Self::AccessRefused,
            404 => Self::NotFound,
            405 => Self::ResourceLocked,
            406 => Self::PreconditionFailed,
            530 => Self::NotAllowed,
            other => Self::Other(other),
        }
    }
}

impl From<ReplyCode> for u16 {
    fn from(code: ReplyCode) -> Self {
        match code {
            ReplyCode::AccessRefused => 403,
            ReplyCode::NotFound => 404,
            ReplyCode::ResourceLocked => 405,
            ReplyCode::PreconditionFailed => 406,
            ReplyCode::NotAllowed => 530,
            ReplyCode::Other(other) => other,
        }
    }
}

/// What an error of lapin's means, in the broker's words where it was the broker who spoke.
pub(super) fn text_of(error: &lapin::Error) -> String {
    match error.kind() {
        lapin::ErrorKind::ProtocolError(said) => said.get_message().to_string(),
        lapin::ErrorKind::IOError(error) => io_text(error),
        lapin::ErrorKind::MissingHeartbeatError => "does not answer: its heartbeats are missing".to_owned(),
        lapin::ErrorKind::InvalidConnectionState(_) | lapin::ErrorKind::InvalidChannelState(..) => {
            "closed the connection".to_owned()
        }
        _ => error.to_string(),
    }
}

/// The code in an error of lapin's, where it was the broker who spoke.
pub(super) fn code_of(error: &lapin::Error) -> Option<ReplyCode> {
    match error.kind() {
        lapin::ErrorKind::ProtocolError(said) => Some(said.get_id().into()),
        _ => None,
    }
}
