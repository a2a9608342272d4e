//! The role that the product runs as: the same one as in production, which cannot alter the journal. The address of a role that may do
//! anything enters, for databases are made here; that of `fis_service` leaves.

use fis::platform::config::Database;
use fis::platform::postgres::Postgres;

const ROLES: &str = include_str!("../../../ops/roles.sql");
const SERVICE: &str = "fis_service";

/// Makes the roles where they are missing, and returns the service's address. A server that asks for passwords keeps the given address: the
/// roles have none there yet.
///
/// # Errors
/// The database is away, or the role may not make roles.
pub async fn restricted(database: &Database, admin: &Postgres) -> anyhow::Result<Database> {
    sqlx::raw_sql(ROLES).execute(&admin.pool).await?;
    let url = as_service(database.url.expose());
    Ok(Database { url: url.as_deref().unwrap_or(database.url.expose()).into(), ..database.clone() })
}

/// None where the address has a password.
fn as_service(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let (user, place) = rest.rsplit_once('@')?;
    (!user.contains(':')).then(|| format!("{scheme}://{SERVICE}@{place}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_password_becomes_the_services() {
        assert_eq!(as_service("postgres://fis@h:1/x?a=b").as_deref(), Some("postgres://fis_service@h:1/x?a=b"));
        assert_eq!(as_service("postgres://fis:secret@h:1/x"), None);
    }
}
