//! A GET to a server on the same machine or network: what the commands need to ask a running service.

use std::time::Duration;

use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

const TIMEOUT: Duration = Duration::from_secs(2);

/// Status and body.
///
/// # Errors
/// Nobody answers at that address in time.
pub async fn get(address: &str, path: &str) -> Result<(u16, String), String> {
    let asked = async {
        let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
        // Drives the exchange; it ends when the sender is dropped.
        tokio::spawn(connection);
        let request = hyper::Request::get(path)
            .header("host", address)
            .body(Empty::<Bytes>::new())
            .map_err(|error| error.to_string())?;
        let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
        Ok((status, String::from_utf8_lossy(&body).into_owned()))
    };
    tokio::time::timeout(TIMEOUT, asked).await.map_err(|_| "no answer in time".to_owned())?
}
