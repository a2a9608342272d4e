//! `fis-bench`: the tools that stand beside the product and are no part of it. `fis-bench bench` measures the service beside the
//! limits of the same machine, `fis-bench demo` shows it at work. Both start the built `fis` as a child and look at it from outside.
//!
//! Enters: the configuration that `fis` itself reads. Leaves: tables for people, JSON for scripts, an exit code: 0 done, 1 failed,
//! 2 wrong usage. Must never happen: a figure that was measured on another program than the `fis` beside this one.

mod bench;
mod demo;
mod rights;
mod service;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand};
use fis::platform::config::Config;

/// The file that is read where none is named.
const USUAL_FILE: &str = "fis.toml";

/// Measures and shows `fis`, the program beside this one.
#[derive(Parser)]
#[command(name = "fis-bench", version, about, max_term_width = 100)]
struct Cli {
    /// Configuration file [default: $FIS_CONFIG, else fis.toml where there is one]
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// How fast a backlog becomes a ledger, beside the limit of the same machine
    Bench(bench::Bench),
    /// Ten thousand sample events through the whole service
    Demo(demo::Demo),
}

fn main() -> ExitCode {
    // Before anything can speak TLS: two providers may be compiled in by features, one is chosen here.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("fis-bench: cannot start: {error}");
            return ExitCode::FAILURE;
        }
    };
    let code = match runtime.block_on(cli.run()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("fis-bench: {error:#}");
            ExitCode::FAILURE
        }
    };
    // Nobody waits any more for what still runs in the background.
    runtime.shutdown_background();
    code
}

impl Cli {
    async fn run(self) -> anyhow::Result<ExitCode> {
        let config = self.config()?;
        match self.command {
            Command::Bench(bench) => bench.run(&config).await,
            Command::Demo(demo) => demo.run(&config).await,
        }
    }

    fn config(&self) -> anyhow::Result<Config> {
        let named = self.config.clone().or_else(|| std::env::var_os("FIS_CONFIG").map(PathBuf::from));
        let usual = || Some(PathBuf::from(USUAL_FILE)).filter(|path| path.exists());
        let file = named.or_else(usual);
        let environment =
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        Config::load(file.as_deref(), environment).context("the configuration is wrong")
    }
}

/// A table as `fis` itself draws them.
fn table(header: &[&str]) -> comfy_table::Table {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::UTF8_FULL_CONDENSED).set_header(header);
    table
}
