//! The exit code of a command that failed: its error enters, 1 or 2 leaves. `ops/fis.service` starts fis again after 1, because a
//! server may come back, and never after 2, because only a person mends a setting.

use std::io::ErrorKind;
use std::process::ExitCode;

use crate::desk::DeskError;
use crate::platform::amqp::AmqpError;
use crate::platform::config::ConfigError;
use crate::platform::postgres::PostgresError;
use crate::platform::redis::RedisError;
use crate::platform::signing::SigningError;
use crate::service::ServiceError;

/// The exit code of wrong usage, as clap has it, and of a wrong configuration.
pub(super) const WRONG_USAGE: u8 = 2;

/// A command that cannot be meant as it was given; the text says what would be right.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct WrongUsage(pub String);

/// Says why a command failed, as JSON where `--json` was given, and chooses the exit code that tells a supervisor whether another start can help.
#[must_use]
pub fn failure(error: &anyhow::Error) -> ExitCode {
    let is_wrong = is_wrong(error);
    let known = error.chain().find_map(|cause| cause.downcast_ref::<DeskError>()).map(DeskError::code);
    let usage = error.chain().any(|cause| cause.is::<WrongUsage>()).then_some("wrong_usage");
    let code = known.or(usage).unwrap_or(if is_wrong { "wrong_setting" } else { "failed" });
    say(code, &format!("{error:#}"));
    if is_wrong { ExitCode::from(WRONG_USAGE) } else { ExitCode::FAILURE }
}

/// Says what is wrong with the command line, as JSON where `--json` was given, and ends. A question for help is answered.
pub(super) fn wrong_line(error: &clap::Error) -> ! {
    if error.use_stderr() && asks_for_json() {
        let text = error.render().to_string();
        say("wrong_usage", text.strip_prefix("error: ").unwrap_or(&text).trim_end());
        std::process::exit(i32::from(WRONG_USAGE));
    }
    error.exit()
}

/// Says on standard error what is wrong, as JSON where `--json` was given.
pub(super) fn say(code: &str, detail: &str) {
    if asks_for_json() {
        eprintln!("{}", serde_json::json!({ "code": code, "detail": detail }));
    } else {
        let name = console::style("fis:").for_stderr().red().bold();
        eprintln!("{name} {detail}");
    }
}

fn asks_for_json() -> bool {
    std::env::args_os().any(|word| word == "--json")
}

fn is_wrong(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.is::<ConfigError>()
            || cause.is::<WrongUsage>()
            || cause.is::<SigningError>()
            || matches!(
                cause.downcast_ref(),
                Some(DeskError::Setting { .. } | DeskError::NoTenant { .. } | DeskError::NoLetters { .. })
            )
            || cause.downcast_ref().is_some_and(is_wrong_database)
            || cause.downcast_ref().is_some_and(is_wrong_redis)
            || cause.downcast_ref().is_some_and(is_wrong_broker)
            || cause.downcast_ref().is_some_and(is_wrong_service)
    })
}

fn is_wrong_database(error: &PostgresError) -> bool {
    matches!(error, PostgresError::Url)
}

fn is_wrong_redis(error: &RedisError) -> bool {
    matches!(error, RedisError::Url)
}

fn is_wrong_broker(error: &AmqpError) -> bool {
    matches!(error, AmqpError::Url { .. } | AmqpError::Vhosts { .. } | AmqpError::ManagementUrl { .. })
}

fn is_wrong_service(error: &ServiceError) -> bool {
    match error {
        ServiceError::Setting { .. } | ServiceError::OtherLedger(_) => true,
        // An address that is in use may be free a moment later.
        ServiceError::Listen { source, .. } => source.kind() == ErrorKind::InvalidInput,
        ServiceError::Postgres(error) => is_wrong_database(error),
        ServiceError::Redis(error) => is_wrong_redis(error),
        ServiceError::Amqp(error) => is_wrong_broker(error),
        ServiceError::Schema(_)
        | ServiceError::NoIdentity
        | ServiceError::Topology(_)
        | ServiceError::Books(_)
        | ServiceError::TaskEnded { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    fn is_wrong(error: impl Into<anyhow::Error>) -> bool {
        super::is_wrong(&error.into())
    }

    #[test]
    fn only_a_wrong_setting_keeps_a_supervisor_from_starting_fis_again() {
        let listen = |kind: ErrorKind| ServiceError::Listen { addr: "x".to_owned(), source: kind.into() };
        let early = ServiceError::TaskEnded { task: "relay", reason: "x".to_owned() };
        assert!(is_wrong(SigningError::NoKey));
        assert!(is_wrong(PostgresError::Url));
        assert!(is_wrong(ServiceError::from(PostgresError::Url)));
        assert!(is_wrong(ServiceError::from(RedisError::Url)));
        assert!(is_wrong(ServiceError::from(AmqpError::Url { which: String::new() })));
        assert!(is_wrong(listen(ErrorKind::InvalidInput)));
        assert!(is_wrong(Err::<(), _>(RedisError::Url).context("the start").unwrap_err()));
        assert!(!is_wrong(listen(ErrorKind::AddrInUse)));
        assert!(!is_wrong(early));
        assert!(!is_wrong(ServiceError::Topology(String::new())));
        assert!(is_wrong(ServiceError::OtherLedger(String::new())));
        assert!(is_wrong(WrongUsage(String::new())));
        assert!(is_wrong(DeskError::NoTenant { name: "nobody".to_owned(), near: None }));
        assert!(!is_wrong(anyhow::anyhow!("the ledger is broken")));
    }
}
