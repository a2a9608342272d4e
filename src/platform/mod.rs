//! The world: configuration, time, logs, metrics, and the three servers. No ledger word is known here.

pub mod amqp;
pub mod config;
pub mod health;
pub mod http;
pub mod mac;
pub mod metrics;
pub mod postgres;
pub mod printable;
pub mod redis;
pub mod server_address;
pub mod signing;
pub mod telemetry;
pub mod time;
