//! Where the broker is: the setting `amqp.url` enters, one address or, for a cluster, several separated by commas; its nodes
//! leave. What must never happen: a user or a password reaches an error.

use lapin::uri::{AMQPScheme, AMQPUri};

use super::AmqpError;
use crate::platform::config;
use crate::platform::server_address::ServerAddress;

/// A node of the broker, and who we are there.
#[derive(Clone)]
pub struct Address {
    pub host: String,
    pub user: String,
    pub password: config::Secret,
    pub vhost: String,
    uri: AMQPUri,
}

impl Address {
    fn parse(text: &str) -> Option<Self> {
        // Without both slashes the rest would be taken for a path, and a password for part of a virtual host's name.
        let has_authority = ["amqp://", "amqps://"].iter().any(|scheme| text.starts_with(scheme));
        let uri: AMQPUri = text.parse().ok().filter(|_| has_authority)?;
        Some(Self {
            host: uri.authority.host.clone(),
            user: uri.authority.userinfo.username.clone(),
            password: uri.authority.userinfo.password.as_str().into(),
            vhost: uri.vhost.clone(),
            uri,
        })
    }

    /// `host:port`, as people are told.
    #[must_use]
    pub fn place(&self) -> String {
        format!("{}:{}", self.host, self.uri.authority.port)
    }

    #[must_use]
    pub fn has_tls(&self) -> bool {
        self.uri.scheme == AMQPScheme::AMQPS
    }

    pub(super) fn uri(&self) -> AMQPUri {
        self.uri.clone()
    }
}

/// The addresses as people are told.
#[must_use]
pub fn server(config: &config::Amqp, addresses: &[Address]) -> ServerAddress {
    let places: Vec<String> = addresses.iter().map(Address::place).collect();
    ServerAddress::new("RabbitMQ", places.join(", "), &config.url, "FIS_AMQP_URL")
}

/// All nodes, in the order given; at least one.
///
/// # Errors
/// One of them cannot be read, or leads to another virtual host than the first: that would be another broker's work.
pub fn parse(config: &config::Amqp) -> Result<Vec<Address>, AmqpError> {
    let texts: Vec<&str> = config.url.expose().split(',').map(str::trim).collect();
    let mut addresses: Vec<Address> = Vec::with_capacity(texts.len());
    for (text, number) in texts.iter().zip(1..) {
        // By its number: a text that cannot be read may hold a password anywhere.
        let which = if texts.len() == 1 { String::new() } else { format!("address {number} of {} ", texts.len()) };
        let address = Address::parse(text).ok_or(AmqpError::Url { which })?;
        match addresses.first() {
            Some(first) if first.vhost != address.vhost => {
                return Err(AmqpError::Vhosts { place: address.place() });
            }
            Some(_) | None => addresses.push(address),
        }
    }
    Ok(addresses)
}
