//! Where PostgreSQL is: the setting `database.url` enters, options for sqlx leave. What must never happen: the value of a parameter that sqlx
//! does not know reaches the log. sqlx would write it there, and libpq's `sslpassword` is such a parameter.

use sqlx::postgres::PgConnectOptions;

use super::PostgresError;
use crate::platform::config;
use crate::platform::server_address::ServerAddress;

/// The parameters that sqlx 0.8 reads; `options[…]` is one, too.
const KNOWN: [&str; 17] = [
    "sslmode",
    "ssl-mode",
    "sslrootcert",
    "ssl-root-cert",
    "ssl-ca",
    "sslcert",
    "ssl-cert",
    "sslkey",
    "ssl-key",
    "statement-cache-capacity",
    "host",
    "hostaddr",
    "port",
    "dbname",
    "user",
    "password",
    "application_name",
];

/// Reads an address without the parameters that nobody would act on; they are warned about by their names.
///
/// # Errors
/// It is not one of PostgreSQL's.
pub(super) fn parse(url: &str) -> Result<PgConnectOptions, PostgresError> {
    // sqlx reads any scheme, and an empty text, as an address of its own.
    if !["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme)) {
        return Err(PostgresError::Url);
    }
    let (address, query) = url.split_once('?').unwrap_or((url, ""));
    let (known, unknown): (Vec<&str>, Vec<&str>) =
        query.split('&').filter(|pair| !pair.is_empty()).partition(|pair| is_known(key_of(pair)));
    let options = format!("{address}?{}", known.join("&")).parse().map_err(|_| PostgresError::Url)?;
    for pair in unknown {
        tracing::warn!(
            parameter = printable(key_of(pair)),
            "setting `database.url` has a parameter that is not known; it is ignored"
        );
    }
    Ok(options)
}

/// The address as people are told: a socket's path, or host and port.
pub(super) fn of(options: &PgConnectOptions, config: &config::Database) -> ServerAddress {
    let place = match options.get_socket() {
        Some(path) => path.display().to_string(),
        None => format!("{}:{}", options.get_host(), options.get_port()),
    };
    ServerAddress::new("PostgreSQL", place, &config.url, "FIS_DATABASE_URL")
}

fn key_of(pair: &str) -> &str {
    pair.split_once('=').map_or(pair, |(key, _)| key)
}

fn is_known(key: &str) -> bool {
    key == "options" || key.starts_with("options[") || KNOWN.contains(&key)
}

/// A name as such; what is none may be a part of a password that was not encoded.
fn printable(key: &str) -> &str {
    let is_name = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    if is_name { key } else { "(not a name)" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_that_sqlx_reads_reach_it_and_others_do_not() {
        let options = parse("postgres://u@h:1/d?sslmode=verify-full&sslpassword=tops3cret&options[a]=b").unwrap();
        let shown = format!("{options:?}");
        assert!(shown.contains("VerifyFull") && shown.contains("-c a=b") && !shown.contains("tops3cret"), "{shown}");
        for wrong in ["", "mysql://u@h/d", "postgres://u@h:port/d", "postgres://u@h/d?sslmode=perhaps"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_names_are_told() {
        assert_eq!(printable("sslpassword"), "sslpassword");
        assert_eq!(printable("cret@host/fis"), "(not a name)");
        assert_eq!(printable(""), "(not a name)");
    }
}
