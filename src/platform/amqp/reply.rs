//! The broker's reply codes: a number of AMQP enters, one of the words that somebody here acts upon leaves.

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

/// The code in an error of lapin's, where it was the broker who spoke.
pub(super) fn code_of(error: &lapin::Error) -> Option<ReplyCode> {
    match error.kind() {
        lapin::ErrorKind::ProtocolError(said) => Some(said.get_id().into()),
        _ => None,
    }
}
