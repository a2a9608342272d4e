//! Why a call to the management API failed.
//!
//! Enters: causes of the client crates. Leaves: one enum whose texts an admin can act on. What must never happen: a
//! variant holds the URL as it was given, a header or a request body; any of these may hold a password.

use std::io;

use hyper::{Method, StatusCode, header::InvalidHeaderValue};

#[derive(Debug, thiserror::Error)]
pub enum ManagementError {
    #[error("the management url is not usable: {reason}")]
    Url { reason: &'static str },
    #[error("the management user or password cannot be sent in a header")]
    Credentials(#[source] InvalidHeaderValue),
    #[error("the management api at {address} cannot be reached")]
    Unreachable {
        address: String,
        #[source]
        source: io::Error,
    },
    #[error("the management api at {address} gave no answer within {seconds} s")]
    TimedOut { address: String, seconds: u64 },
    #[error("the talk with the management api at {address} broke off")]
    Broken {
        address: String,
        #[source]
        source: hyper::Error,
    },
    #[error("the answer to {path} is longer than {bytes} bytes")]
    TooLong { path: String, bytes: usize },
    #[error("the answer to {path} could not be read: {reason}")]
    Unread { path: String, reason: String },
    #[error("no request could be made for {path}")]
    Request {
        path: String,
        #[source]
        source: hyper::http::Error,
    },
    #[error("{method} {path} was answered with {status}: {reason}")]
    Status { method: Method, path: String, status: StatusCode, reason: String },
    #[error("json of {path} is not in the expected form")]
    Json {
        path: String,
        #[source]
        source: serde_json::Error,
    },
}
