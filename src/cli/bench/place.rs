//! A database and a virtual host for one round, so that it starts from nothing and leaves nothing.

use anyhow::Context;

use crate::platform::amqp::Connection;
use crate::platform::amqp::management::{Management, encode};
use crate::platform::amqp::topology::Topology;
use crate::platform::config::Config;
use crate::platform::postgres::Postgres;
use crate::service;

pub struct Place {
    pub config: Config,
    pub postgres: Postgres,
    admin: Postgres,
    management: Management,
    pub name: String,
}

impl Place {
    /// Needs a role that may create databases, and a broker user that may create virtual hosts: the private servers'.
    pub async fn make(config: &Config) -> anyhow::Result<Self> {
        let name = format!("fis_bench_{:08x}", fastrand::u32(..));
        let admin = Postgres::new(&config.database)?;
        let management = service::management(config)?;
        let address = Connection::address(&config.amqp)?;
        // The name is ours: letters, digits and underscores.
        sqlx::raw_sql(sqlx::AssertSqlSafe(format!("create database {name}"))).execute(&admin.pool).await?;
        management
            .put_json(&format!("vhosts/{name}"), &serde_json::json!({}))
            .await
            .context("cannot create a virtual host")?;
        let rights = serde_json::json!({ "configure": ".*", "write": ".*", "read": ".*" });
        management.put_json(&format!("permissions/{name}/{}", encode(&address.user)), &rights).await?;

        let mut own = config.clone();
        own.amqp.url = elsewhere(config.amqp.url.expose(), &name).as_str().into();
        own.database.url = elsewhere(config.database.url.expose(), &name).as_str().into();
        let postgres = Postgres::new(&own.database)?;
        postgres.migrate().await?;
        let connection = Connection::open(&own.amqp, "fis bench").await?;
        connection.apply_topology(&Topology::embedded()?).await?;
        connection.close().await;
        Ok(Self { config: own, postgres, admin, management, name })
    }

    /// Best effort: what is left over is named after us.
    pub async fn remove(self) {
        self.postgres.pool.close().await;
        let dropped = sqlx::raw_sql(sqlx::AssertSqlSafe(format!("drop database if exists {} with (force)", self.name)));
        if let Err(error) = dropped.execute(&self.admin.pool).await {
            eprintln!("cannot drop the database {}: {error}", self.name);
        }
        if let Err(error) = self.management.delete(&format!("vhosts/{}", self.name)).await {
            eprintln!("cannot delete the virtual host {}: {error}", self.name);
        }
    }
}

/// The URL with another path: its database or virtual host.
fn elsewhere(url: &str, name: &str) -> String {
    let (address, query) = url.split_once('?').map_or((url, ""), |(address, query)| (address, query));
    let authority = address.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
    let query = if query.is_empty() { String::new() } else { format!("?{query}") };
    format!("{authority}/{name}{query}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_differs_in_the_path_alone() {
        assert_eq!(elsewhere("amqp://u:p@h:1/%2Ffis?heartbeat=10", "x"), "amqp://u:p@h:1/x?heartbeat=10");
        assert_eq!(elsewhere("postgres://fis@h:1/fis", "x"), "postgres://fis@h:1/x");
    }
}
