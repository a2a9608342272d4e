//! `fis run`.

use std::process::ExitCode;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::platform::config::Config;
use crate::service;

#[derive(clap::Args)]
pub struct Run {
    /// Post what is in the queues, announce it, and stop
    #[arg(long)]
    once: bool,
}

impl Run {
    pub async fn run(self, config: Config) -> anyhow::Result<ExitCode> {
        let stop = CancellationToken::new();
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let told = stop.clone();
        tokio::spawn(async move {
            for told_before in [false, true] {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
                if told_before {
                    // Nothing is lost by it: what is unsettled comes again.
                    tracing::warn!("a second signal: leaving at once");
                    std::process::exit(1);
                }
                tracing::info!("stopping on a signal; a second one leaves at once");
                told.cancel();
            }
        });
        service::run(config, self.once, stop).await?;
        tracing::info!("stopped");
        Ok(ExitCode::SUCCESS)
    }
}
