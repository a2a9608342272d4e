//! The configuration: a file, then the environment. What is unknown or wrong refuses the start by its name; a secret
//! never leaves through a log line, an error or `--help`.

mod environment;
mod listing;
mod secret;
mod tree;

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

pub use environment::strangers;
pub use listing::{Listed, Sources};
pub use secret::Secret;

use environment::Variable;

/// The beginning of the origin of a setting that the environment gave.
const VARIABLE: &str = "the environment variable ";

macro_rules! section {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty = $default:expr),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct $name { $(pub $field: $type,)* }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }
    };
}

section!(Amqp {
    url: Secret = "amqp://fis_service@127.0.0.1:5672/%2Ffis".into(),
    management_url: String = String::new(),
    timeout_ms: u64 = 10_000,
});
section!(Redis { url: Secret = "redis://127.0.0.1:6379/1".into(), timeout_ms: u64 = 250 });
section!(Database {
    url: Secret = "postgres://fis_service@127.0.0.1:5432/fis".into(),
    connections_max: u32 = 8,
    statement_timeout_ms: u64 = 30_000,
    lock_timeout_ms: u64 = 10_000,
});
section!(Http { addr: String = "127.0.0.1:8080".to_owned() });
section!(Intake {
    batch_events_max: u16 = 500,
    batch_bytes_max: usize = 1024 * 1024,
    batch_ms: u64 = 10,
    prefetch: u16 = 250,
    prefetch_max: u16 = 2000,
    prefetch_bytes_max: usize = 32 * 1024 * 1024,
    posters: u16 = 1,
    weight_urgent: u16 = 8,
    weight_live: u16 = 4,
    weight_backfill: u16 = 1,
    hold_seconds: u64 = 180,
    default_tenant: String = String::new(),
    publishers: String = String::new(),
    tenant_queues: String = String::new(),
});
section!(Retry {
    max_retries: u32 = 5,
    base_delay_seconds: u64 = 60,
    backoff_multiplier: f64 = 2.0, // a ratio of durations, never of money
    max_delay_seconds: u64 = 3600,
    jitter_seconds: u64 = 10,
});
section!(Outbox {
    window: u16 = 1000,
    poll_ms: u64 = 500,
    tenant_keys: bool = false,
    mirror: OutboxMirror = OutboxMirror::default(),
});
section!(OutboxMirror {
    enabled: bool = false,
    exchange: String = String::new(),
    kind: String = "fanout".to_owned(),
    until: String = String::new(),
});
section!(Log { format: LogFormat = LogFormat::Auto, filter: String = "info,lapin=off,sqlx=warn".to_owned() });
section!(Audit { signing_key: Secret = "".into() });
section!(Service { stop_seconds: u64 = 8 });

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    Auto,
    Json,
    Human,
}

/// Every setting, with its default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    pub amqp: Amqp,
    pub redis: Redis,
    pub database: Database,
    pub http: Http,
    pub intake: Intake,
    pub retry: Retry,
    pub outbox: Outbox,
    pub log: Log,
    pub audit: Audit,
    pub service: Service,
    /// Where the settings came from; no setting itself.
    #[serde(skip)]
    pub sources: Sources,
}

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read the configuration file {path}")]
    Read {
        path: String,
        #[source]
        source: std::io::Error,
    },
    #[error("the configuration file {path} is not TOML: {message}")]
    Syntax { path: String, message: String },
    #[error("unknown setting `{name}` from {origin}{hint}")]
    Unknown { name: String, origin: String, hint: String },
    #[error("setting `{name}` from {origin} must be {expected}")]
    Wrong { name: String, origin: String, expected: String },
}

impl Config {
    /// The settings that must not be seen, by their names.
    fn secrets(&mut self) -> [(&'static str, &mut Secret); 4] {
        [
            ("amqp.url", &mut self.amqp.url),
            ("redis.url", &mut self.redis.url),
            ("database.url", &mut self.database.url),
            ("audit.signing_key", &mut self.audit.signing_key),
        ]
    }

    /// Reads the file, where one is named, then lays the environment over it.
    ///
    /// # Errors
    /// The first setting that is unknown, of the wrong type or out of bounds, with where it came from.
    pub fn load(file: Option<&Path>, environment: impl Iterator<Item = (String, String)>) -> Result<Self, ConfigError> {
        let mut settings = Settings::new();
        if let Some(path) = file {
            settings.add_file(path)?;
        }
        settings.add_environment(environment)?;
        settings.finish()
    }
}

/// Settings by dotted name, each with the place it came from, so that a complaint can name both.
struct Settings {
    defaults: BTreeMap<String, Value>,
    given: BTreeMap<String, (Value, String)>,
    /// The file that was read.
    file: Option<String>,
}

impl Settings {
    fn new() -> Self {
        let table = Table::try_from(Config::default()).unwrap_or_default();
        Self { defaults: tree::flat(table, &|_| true), given: BTreeMap::new(), file: None }
    }

    fn add_file(&mut self, path: &Path) -> Result<(), ConfigError> {
        let origin = path.display().to_string();
        let text =
            std::fs::read_to_string(path).map_err(|source| ConfigError::Read { path: origin.clone(), source })?;
        let table: Table = toml::from_str(&text).map_err(|error| {
            // The message alone: toml's full text quotes the line, and the line may hold a password.
            ConfigError::Syntax { path: origin.clone(), message: position(&text, &error) }
        })?;
        let is_section = |name: &str| self.defaults.keys().any(|known| known.starts_with(&format!("{name}.")));
        for (name, value) in tree::flat(table, &is_section) {
            self.check(&name, &value, &origin)?;
            self.given.insert(name, (value, origin.clone()));
        }
        self.file = Some(origin);
        Ok(())
    }

    fn add_environment(&mut self, variables: impl Iterator<Item = (String, String)>) -> Result<(), ConfigError> {
        for (variable, text) in variables {
            let Variable::Setting(name) = environment::variable(&variable) else { continue };
            let origin = format!("{VARIABLE}{variable}");
            let Some(default) = self.defaults.get(&name) else {
                return Err(self.unknown(name, &origin));
            };
            let value = match default {
                Value::Integer(_) => text.trim().parse().ok().map(Value::Integer),
                Value::Float(_) => text.trim().parse().ok().map(Value::Float),
                Value::Boolean(_) => text.trim().parse().ok().map(Value::Boolean),
                Value::String(_) | Value::Datetime(_) | Value::Array(_) | Value::Table(_) => Some(Value::String(text)),
            };
            let value = value.ok_or_else(|| wrong(&name, &origin, kind(default)))?;
            self.check(&name, &value, &origin)?;
            self.given.insert(name, (value, origin));
        }
        Ok(())
    }

    fn check(&self, name: &str, value: &Value, origin: &str) -> Result<(), ConfigError> {
        let Some(default) = self.defaults.get(name) else {
            return Err(self.unknown(name.to_owned(), origin));
        };
        if kind(default) != kind(value) {
            return Err(wrong(name, origin, kind(default)));
        }
        if let (Some(words), Value::String(text)) = (words(name), value)
            && !words.contains(&text.as_str())
        {
            return Err(wrong(name, origin, tree::listed(words)));
        }
        let Some((min, max)) = bounds(name) else { return Ok(()) };
        let inside = match value {
            Value::Integer(number) => (min..=max).contains(number),
            Value::Float(ratio) => (1.0..=100.0).contains(ratio), // the one ratio; NaN is in no range
            _ => true,
        };
        if inside { Ok(()) } else { Err(wrong(name, origin, format!("from {min} to {max}"))) }
    }

    fn unknown(&self, name: String, origin: &str) -> ConfigError {
        let section = name.split('.').next().unwrap_or_default();
        let same = |known: &&String| known.split('.').next() == Some(section);
        let mut known: Vec<&str> = self.defaults.keys().filter(same).map(String::as_str).collect();
        if known.is_empty() {
            known = self.defaults.keys().filter_map(|known| known.split('.').next()).collect();
            known.dedup();
        }
        ConfigError::Unknown { name, origin: origin.to_owned(), hint: format!("; known are {}", known.join(", ")) }
    }

    fn finish(self) -> Result<Config, ConfigError> {
        let mut table = Table::new();
        for (name, (value, _)) in &self.given {
            tree::plant(&mut table, name, value.clone());
        }
        // Names, types, words and bounds are checked above, so that nothing is left to be refused here.
        let mut config =
            table.try_into::<Config>().map_err(|_| wrong("*", "all places together", "as in ops/fis.example.toml"))?;
        for (name, secret) in config.secrets() {
            if let Some((_, origin)) = self.given.get(name) {
                secret.came_from(origin);
            }
        }
        config.sources = Sources::new(self.file, self.given.into_iter().map(|(name, (_, origin))| (name, origin)));
        Ok(config)
    }
}

fn wrong(name: &str, origin: &str, expected: impl Into<String>) -> ConfigError {
    ConfigError::Wrong { name: name.to_owned(), origin: origin.to_owned(), expected: expected.into() }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "a string",
        Value::Integer(_) => "a whole number",
        Value::Float(_) => "a number with a decimal point",
        Value::Boolean(_) => "true or false",
        Value::Datetime(_) => "a date",
        Value::Array(_) => "a list",
        Value::Table(_) => "a section",
    }
}

/// Closed lists of words.
fn words(name: &str) -> Option<&'static [&'static str]> {
    Some(match name {
        "log.format" => &["auto", "json", "human"],
        "outbox.mirror.kind" => &["fanout", "topic", "direct"],
        _ => return None,
    })
}

/// Bounds of the numbers: outside of them the service would not work, or would not be bounded.
fn bounds(name: &str) -> Option<(i64, i64)> {
    Some(match name {
        "amqp.timeout_ms" => (100, 120_000),
        "redis.timeout_ms" => (1, 10_000),
        "database.connections_max" => (4, 200),
        "database.statement_timeout_ms" | "database.lock_timeout_ms" => (100, 600_000),
        "intake.batch_events_max" => (1, 5_000),
        "intake.batch_bytes_max" => (1024, 64 * 1024 * 1024),
        "intake.batch_ms" => (0, 1_000),
        "intake.prefetch" | "intake.prefetch_max" | "outbox.window" => (1, 20_000),
        "intake.prefetch_bytes_max" => (1024 * 1024, 1024 * 1024 * 1024),
        "intake.posters" => (1, 64),
        "intake.weight_urgent" | "intake.weight_live" | "intake.weight_backfill" => (1, 1_000),
        // Three batches may have to wait one after the other: together well under the broker's consumer timeout of 30 minutes.
        "intake.hold_seconds" => (1, 500),
        "outbox.poll_ms" => (10, 60_000),
        "retry.max_retries" => (0, 1_000),
        "retry.backoff_multiplier" => (1, 100),
        "retry.base_delay_seconds" | "retry.max_delay_seconds" | "retry.jitter_seconds" => (0, 30 * 86_400),
        "service.stop_seconds" => (1, 600),
        _ => return None,
    })
}

fn position(text: &str, error: &toml::de::Error) -> String {
    let line = error.span().map_or(1, |span| text.get(..span.start).unwrap_or("").matches('\n').count() + 1);
    format!("line {line}: {}", error.message())
}
