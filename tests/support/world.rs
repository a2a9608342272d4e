//! A world of one test: its own database, virtual host and Redis database, removed when the test succeeds and kept, with a
//! note where they are, when it fails.

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use deadpool_redis::redis;
use fis::platform::amqp::Connection as FisConnection;
use fis::platform::amqp::management::{Management, encode};
use fis::platform::amqp::topology::Topology;
use fis::platform::config;
use fis::platform::postgres::Postgres;
use serde_json::json;
use sqlx::postgres::PgPoolOptions;
use sqlx::{Connection as _, PgConnection, PgPool};
use tokio::sync::{OnceCell, Semaphore, SemaphorePermit};

use super::events::{Message, books};
use super::process::Said;
use super::servers::{OWNER, SERVICE, Servers, as_role, password, with_path};

/// Worlds at a time: each may run services, and more of them than this only wait for the processor.
static PLACES: Semaphore = Semaphore::const_new(4);
/// What the names of our databases and virtual hosts begin with.
const PREFIX: &str = "fis_t_";
/// Worlds of earlier runs that are older than this belong to nobody any more.
const FORGOTTEN_SECONDS: u64 = 2 * 3600;
/// Serialises the making of the template database between test processes: `fis` and `tpl` in ASCII.
const TEMPLATE_LOCK: i64 = 0x0066_6973_0074_706c;

/// What a world is given before its test begins.
pub struct Setup {
    /// Without one the world has only a virtual host and a Redis database.
    pub database: bool,
    pub migrated: bool,
    pub topology: bool,
    /// Books for these tenants.
    pub tenants: &'static [&'static str],
    pub servers: Servers,
}

impl Default for Setup {
    fn default() -> Self {
        Self { database: true, migrated: true, topology: true, tenants: &["acme"], servers: Servers::shared().clone() }
    }
}

pub struct World {
    pub name: String,
    pub vhost: String,
    pub servers: Servers,
    pub amqp_url: String,
    pub redis_url: String,
    /// As the service's role: whatever fis does in a test, it does without a right to alter the journal.
    pub database_url: String,
    /// As the superuser, for whoever tampers.
    pub admin_url: String,
    /// The test's own look at the tables, as the superuser.
    pub pool: PgPool,
    pub management: Management,
    /// A directory of its own: logs, files for the commands.
    pub dir: PathBuf,
    /// Everything published and confirmed, for the invariants.
    pub published: Mutex<Vec<Message>>,
    _place: SemaphorePermit<'static>,
}

impl World {
    /// A migrated database, the topology, and books for the tenant `acme`.
    pub async fn new(name: &str) -> Self {
        Self::with(name, Setup::default()).await
    }

    pub async fn with(name: &str, setup: Setup) -> Self {
        let place = PLACES.acquire().await.unwrap();
        let Setup { database, migrated, topology, tenants, servers } = setup;
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let name = format!("{PREFIX}{seconds}_{:08x}_{name}", fastrand::u32(..));
        let name = name.get(..60).unwrap_or(&name).to_owned();
        let vhost = format!("/{name}");

        let mut admin = PgConnection::connect(&servers.database).await.unwrap();
        sweep(&servers, &mut admin, seconds).await;
        make_roles(&servers, &mut admin).await;
        if database {
            let from = if migrated { template(&servers, &mut admin).await } else { "template1".to_owned() };
            execute(&mut admin, &format!("create database {name} template {from}")).await;
            if !migrated {
                prepare_roles(&with_path(&servers.database, &name)).await;
            }
        }

        let amqp_url = with_path(&servers.amqp, &encode(&vhost));
        let management = management(&servers, &vhost);
        management.put_json(&format!("vhosts/{}", encode(&vhost)), &json!({})).await.unwrap();
        let rights = json!({"configure": ".*", "write": ".*", "read": ".*"});
        let path = format!("permissions/{}/{}", encode(&vhost), encode(&user(&servers)));
        management.put_json(&path, &rights).await.unwrap();

        let admin_url = with_path(&servers.database, &name);
        let database_url = as_role(&admin_url, SERVICE);
        let pool = PgPoolOptions::new().max_connections(3).connect_lazy(&admin_url).unwrap();
        let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("worlds").join(&name);
        std::fs::create_dir_all(&dir).unwrap();
        let redis_url = own_redis(&servers).await;
        let published = Mutex::default();
        let world = Self {
            name,
            vhost,
            servers,
            amqp_url,
            redis_url,
            database_url,
            admin_url,
            pool,
            management,
            dir,
            published,
            _place: place,
        };
        if topology {
            world.apply_topology().await;
            world.declare_readers().await;
        }
        for tenant in tenants {
            world.apply_books(&books(tenant)).await;
        }
        world
    }

    /// The address of the role that owns the tables.
    pub fn owner_url(&self) -> String {
        as_role(&self.admin_url, OWNER)
    }

    /// Migrates as the owner: the service's role may not.
    pub async fn migrate(&self) -> Said {
        self.fis_with(&["migrate"], &[("FIS_DATABASE_URL", &self.owner_url())]).await
    }

    /// The environment of a `fis` in this world.
    pub fn environment(&self) -> Vec<(String, String)> {
        let named = [
            ("FIS_AMQP_URL", self.amqp_url.as_str()),
            ("FIS_REDIS_URL", &self.redis_url),
            ("FIS_DATABASE_URL", &self.database_url),
            ("FIS__AMQP__MANAGEMENT_URL", &self.servers.management),
            // On a busy machine Redis may take longer than a quarter of a second; its keys would then be missing.
            ("FIS__REDIS__TIMEOUT_MS", "5000"),
        ];
        named.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
    }

    /// The library's configuration of the broker.
    pub fn amqp(&self) -> config::Amqp {
        config::Amqp {
            url: self.amqp_url.as_str().into(),
            management_url: self.servers.management.clone(),
            ..config::Amqp::default()
        }
    }

    pub async fn apply_topology(&self) {
        let connection = FisConnection::open(&self.amqp(), "test topology").await.unwrap();
        connection.apply_topology(&Topology::embedded().unwrap()).await.unwrap();
        connection.close().await;
    }

    pub async fn apply_books(&self, source: &str) {
        fis::journal::books::apply(&self.pool, source, "test").await.unwrap();
    }

    pub async fn redis(&self) -> redis::aio::MultiplexedConnection {
        redis::Client::open(self.redis_url.as_str()).unwrap().get_multiplexed_async_connection().await.unwrap()
    }

    /// A client of the management API for another virtual host.
    pub fn management_of(&self, vhost: &str) -> Management {
        management(&self.servers, vhost)
    }

    /// The user of the addresses.
    pub fn user(&self) -> String {
        user(&self.servers)
    }

    /// Writes a file into the world's directory.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.dir.join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// One number from the database.
    pub async fn count(&self, sql: &'static str) -> i64 {
        sqlx::query_scalar(sql).fetch_one(&self.pool).await.unwrap()
    }

    /// Statements whose success is not in question.
    pub async fn sql(&self, sql: &'static str) {
        sqlx::raw_sql(sql).execute(&self.pool).await.unwrap();
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "kept for inspection: database {}, virtual host {}, redis {}, logs {}",
                self.database_url,
                self.vhost,
                self.redis_url,
                self.dir.display()
            );
            return;
        }
        let (servers, vhost, name) = (self.servers.clone(), self.vhost.clone(), self.name.clone());
        let _ = std::fs::remove_dir_all(&self.dir);
        // Best effort, on a thread of its own: a destructor cannot wait for the runtime it runs in.
        let removal = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let _ = management(&servers, &vhost).delete(&format!("vhosts/{}", encode(&vhost))).await;
                if let Ok(mut admin) = PgConnection::connect(&servers.database).await {
                    drop_database(&mut admin, &name).await;
                }
            });
        });
        let _ = removal.join();
    }
}

/// A client of the management API for one virtual host, as the user of the address.
fn management(servers: &Servers, vhost: &str) -> Management {
    let who = first_uri(servers).authority.userinfo;
    Management::new(&servers.management, &who.username, &who.password, vhost).unwrap()
}

fn user(servers: &Servers) -> String {
    first_uri(servers).authority.userinfo.username
}

/// The nodes of a cluster share their users.
fn first_uri(servers: &Servers) -> lapin::uri::AMQPUri {
    servers.amqp.split(',').next().unwrap().parse().unwrap()
}

async fn execute(admin: &mut PgConnection, sql: &str) {
    sqlx::raw_sql(sql).execute(admin).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

async fn drop_database(admin: &mut PgConnection, name: &str) {
    let sql = format!("drop database if exists {name} with (force)");
    let _ = sqlx::raw_sql(&sql).execute(admin).await;
}

const ROLES: &str = include_str!("../../ops/roles.sql");

/// The roles of a server, by the file that an operator runs. Where the server asks for passwords, they have the superuser's.
async fn make_roles(servers: &Servers, admin: &mut PgConnection) {
    sqlx::query("select pg_advisory_lock($1)").bind(TEMPLATE_LOCK).execute(&mut *admin).await.unwrap();
    execute(&mut *admin, ROLES).await;
    if let Some(password) = password(&servers.database) {
        for role in [OWNER, SERVICE, "fis_reader", "fis_console"] {
            execute(&mut *admin, &format!("alter role {role} password '{password}'")).await;
        }
    }
    sqlx::query("select pg_advisory_unlock($1)").bind(TEMPLATE_LOCK).execute(&mut *admin).await.unwrap();
}

/// The rights that the roles have in a database before it is migrated.
async fn prepare_roles(url: &str) {
    let mut inside = PgConnection::connect(url).await.unwrap();
    execute(&mut inside, ROLES).await;
    inside.close().await.unwrap();
}

/// A migrated database to copy from, named after its migrations, so that later runs find it. Made under a lock.
async fn template(servers: &Servers, admin: &mut PgConnection) -> String {
    static MADE: OnceCell<()> = OnceCell::const_new();
    let name = format!("fis_template_{:016x}", migrations_fingerprint());
    let mut make = async || {
        sqlx::query("select pg_advisory_lock($1)").bind(TEMPLATE_LOCK).execute(&mut *admin).await.unwrap();
        let ready = sqlx::query_scalar("select exists (select from pg_database where datname = $1 and datistemplate)");
        let ready: bool = ready.bind(&name).fetch_one(&mut *admin).await.unwrap();
        if !ready {
            // One without the mark is what a killed run left half done.
            drop_database(&mut *admin, &name).await;
            execute(&mut *admin, &format!("create database {name}")).await;
            let url = with_path(&servers.database, &name);
            prepare_roles(&url).await;
            let url = as_role(&url, OWNER).as_str().into();
            let postgres = Postgres::new(&config::Database { url, ..config::Database::default() }).unwrap();
            fis::store::schema::migrate(&postgres).await.unwrap();
            postgres.pool.close().await;
            execute(&mut *admin, &format!("alter database {name} with is_template true")).await;
        }
        sqlx::query("select pg_advisory_unlock($1)").bind(TEMPLATE_LOCK).execute(&mut *admin).await.unwrap();
    };
    if servers.dev_dir.is_some() {
        make().await;
    } else {
        MADE.get_or_init(make).await;
    }
    name
}

fn migrations_fingerprint() -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let rights = [ROLES, include_str!("../../src/store/rights.sql")];
    let mut files: Vec<PathBuf> = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let mut hasher = DefaultHasher::new();
    rights.hash(&mut hasher);
    for file in files {
        file.file_name().hash(&mut hasher);
        std::fs::read(&file).unwrap().hash(&mut hasher);
    }
    hasher.finish()
}

/// Removes what crashed runs left behind, once per process.
async fn sweep(servers: &Servers, admin: &mut PgConnection, now: u64) {
    static SWEPT: OnceCell<()> = OnceCell::const_new();
    let is_old = |name: &str| {
        let made = name.strip_prefix(PREFIX).and_then(|rest| rest.split('_').next()?.parse::<u64>().ok());
        made.is_some_and(|made| made + FORGOTTEN_SECONDS < now)
    };
    let sweep = async || {
        let databases: Vec<String> =
            sqlx::query_scalar("select datname::text from pg_database").fetch_all(&mut *admin).await.unwrap();
        for name in databases.iter().filter(|name| is_old(name)) {
            drop_database(&mut *admin, name).await;
        }
        let management = management(servers, "/");
        let vhosts: Vec<serde_json::Value> = management.get_json("vhosts").await.unwrap_or_default();
        for name in vhosts.iter().filter_map(|vhost| vhost["name"].as_str()) {
            if is_old(name.trim_start_matches('/')) {
                let _ = management.delete(&format!("vhosts/{}", encode(name))).await;
            }
        }
    };
    SWEPT.get_or_init(sweep).await;
}

/// A Redis database of its own, empty. A counter in database 0 deals them out.
async fn own_redis(servers: &Servers) -> String {
    let client = redis::Client::open(with_path(&servers.redis, "0")).unwrap();
    let mut zero = client.get_multiplexed_async_connection().await.unwrap();
    let databases: Vec<String> =
        redis::cmd("CONFIG").arg("GET").arg("databases").query_async(&mut zero).await.unwrap_or_default();
    let databases: u64 = databases.get(1).and_then(|text| text.parse().ok()).unwrap_or(16);
    let number: u64 = redis::cmd("INCR").arg("fis:test:databases").query_async(&mut zero).await.unwrap();
    let url = with_path(&servers.redis, &(number % (databases - 1) + 1).to_string());
    let mut own = redis::Client::open(url.as_str()).unwrap().get_multiplexed_async_connection().await.unwrap();
    let _: () = redis::cmd("FLUSHDB").query_async(&mut own).await.unwrap();
    url
}
