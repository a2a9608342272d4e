//! Where a management API is: a URL enters, a connection leaves, with TLS where the URL says https. What must never happen: a
//! request leaves without TLS for a place that was named with https.

use std::{future::Future, io, time::Duration};

use hyper::Uri;
use lapin::uri::{AMQPAuthority, AMQPScheme, AMQPUri};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};
use tokio_util::compat::FuturesAsyncReadCompatExt;

use super::ManagementError;
use crate::platform::amqp::transport;

/// A healthy management API answers in milliseconds; what takes longer must not hold up a start.
const STEP_SECONDS_MAX: u64 = 5;
/// The ports a URL without one means.
const HTTP_PORT: u16 = 80;
const HTTPS_PORT: u16 = 443;

#[derive(Debug, Clone)]
pub(super) struct Place {
    tls: bool,
    /// An IPv6 host in brackets.
    host: String,
    port: u16,
    /// The path that stands before `/api`, for a broker behind a path prefix.
    pub prefix: String,
}

impl Place {
    pub fn parse(base_url: &str) -> Result<Self, ManagementError> {
        let unusable = |reason| ManagementError::Url { reason };
        let uri: Uri = base_url.trim().trim_end_matches('/').parse().map_err(|_| unusable("it is not a url"))?;
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            Some(_) | None => return Err(unusable("it must begin with http:// or https://")),
        };
        let authority = uri.authority().ok_or(unusable("it names no host"))?;
        if authority.as_str().contains('@') {
            return Err(unusable("user and password do not belong into it"));
        }
        if uri.query().is_some() {
            return Err(unusable("it must not have a query"));
        }
        let port = authority.port_u16().unwrap_or(if tls { HTTPS_PORT } else { HTTP_PORT });
        let prefix = uri.path().trim_end_matches('/').to_owned();
        Ok(Self { tls, host: authority.host().to_owned(), port, prefix })
    }

    /// `host:port`, as people and the server are told.
    pub fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// Connects as a connection for AMQP is made, and believes the same certificates.
    pub async fn connect(&self) -> Result<impl AsyncRead + AsyncWrite + Send + Unpin + use<>, ManagementError> {
        let scheme = if self.tls { AMQPScheme::AMQPS } else { AMQPScheme::AMQP };
        let host = self.host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let authority = AMQPAuthority { host, port: self.port, ..AMQPAuthority::default() };
        let uri = AMQPUri { scheme, authority, ..AMQPUri::default() };
        let unreachable = |source: io::Error| ManagementError::Unreachable { address: self.address(), source };
        // On the heap: a handshake of TLS is large, and everybody who asks the API would carry it.
        let dialled = Box::pin(transport::dial(&uri));
        Ok(self.within(dialled).await?.map_err(unreachable)?.compat())
    }

    pub async fn within<T>(&self, step: impl Future<Output = T>) -> Result<T, ManagementError> {
        let limit = Duration::from_secs(STEP_SECONDS_MAX);
        timeout(limit, step)
            .await
            .map_err(|_| ManagementError::TimedOut { address: self.address(), seconds: STEP_SECONDS_MAX })
    }
}
