//! Logs: JSON for machines, text for people, to standard error. Set up once, before anything can go wrong.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use super::config::{Log, LogFormat};

/// # Errors
/// The filter cannot be read, or logging was set up before.
pub fn start(config: &Log) -> Result<(), String> {
    let filter = EnvFilter::try_new(&config.filter).map_err(|error| error.to_string())?;
    let human = match config.format {
        LogFormat::Human => true,
        LogFormat::Json => false,
        LogFormat::Auto => std::io::stderr().is_terminal(),
    };
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = if human {
        builder
            .with_target(false)
            .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none())
            .try_init()
    } else {
        builder.json().flatten_event(true).try_init()
    };
    started.map_err(|error| error.to_string())
}
