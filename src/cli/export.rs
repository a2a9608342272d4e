//! `fis export`: page by page from the database to the file, in constant memory.

use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use chrono::NaiveDate;
use sqlx::PgConnection;

use crate::domain::export::{Exporter, Format};
use crate::domain::ids::TenantId;
use crate::domain::money::Currency;
use crate::platform::config::Config;
use crate::store::heads::last_seq;
use crate::store::journal::pages as report;

#[derive(clap::Args)]
pub struct Export {
    /// Whose journal
    #[arg(long, value_parser = super::tenant)]
    tenant: TenantId,
    #[arg(long, value_enum)]
    format: Choice,
    /// First accounting date
    #[arg(long, value_name = "DATE", value_parser = super::day)]
    from: Option<NaiveDate>,
    /// Last accounting date
    #[arg(long, value_name = "DATE", value_parser = super::day)]
    to: Option<NaiveDate>,
    /// Written whole or not at all [default: standard output]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Choice {
    Csv,
    Beancount,
    Hledger,
}

impl Choice {
    fn format(self) -> Format {
        match self {
            Self::Csv => Format::Csv,
            Self::Beancount => Format::Beancount,
            Self::Hledger => Format::Hledger,
        }
    }
}

impl Export {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        let postgres = super::database(config).await?;
        let mut db = postgres.pool.acquire().await?;
        let Some(path) = &self.output else {
            let stdout = BufWriter::new(std::io::stdout().lock());
            return match self.write(&mut db, stdout, |_| {}).await {
                // A reader that has seen enough (`| head`) is no failure.
                Err(error) if is_broken_pipe(&error) => Ok(ExitCode::SUCCESS),
                Err(error) => Err(error),
                Ok(_) => Ok(ExitCode::SUCCESS),
            };
        };
        let progress = indicatif::ProgressBar::new_spinner().with_message("entries");
        let part = part_of(path);
        let file = File::create(&part).with_context(|| format!("cannot write {}", part.display()))?;
        let written = self.write(&mut db, BufWriter::new(file), |count| progress.set_position(count)).await;
        progress.finish_and_clear();
        if written.is_err() && part != *path {
            // A half export must not lie about; where even this fails, its name says what it is.
            let _ = std::fs::remove_file(&part);
        }
        let count = written?;
        if part != *path {
            std::fs::rename(&part, path).with_context(|| format!("cannot write {}", path.display()))?;
        }
        println!("exported {count} entries of {} to {}", self.tenant, path.display());
        Ok(ExitCode::SUCCESS)
    }

    /// Everything up to the head of now; entries posted meanwhile belong to the next export.
    async fn write(&self, db: &mut PgConnection, mut sink: impl Write, progress: impl Fn(u64)) -> anyhow::Result<u64> {
        let last = last_seq(db, &self.tenant).await?.unwrap_or_default();
        // Read after the head: whatever account and currency an entry up to it has is among these.
        let books = super::books_of(db, &self.tenant).await?;
        let mut currencies: Vec<Currency> =
            report::read_balances(db, &self.tenant).await?.iter().map(|sum| sum.currency).collect();
        currencies.push(books.base_currency);
        currencies.sort();
        currencies.dedup();
        let exporter = Exporter::new(self.format.format(), &books);
        sink.write_all(exporter.head(&currencies).as_bytes())?;
        let (mut after, mut count) = (0, 0);
        let mut text = String::new();
        while after < last {
            for entry in report::read_span(db, &self.tenant, after, last, (self.from, self.to)).await? {
                exporter.entry(&entry, &mut text)?;
                sink.write_all(text.as_bytes())?;
                text.clear();
                count += 1;
            }
            after += report::SPAN;
            progress(count);
        }
        sink.flush()?;
        Ok(count)
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

/// Beside the file, and renamed to it at the end. What is no plain file (a pipe, a terminal) is written directly.
fn part_of(path: &Path) -> PathBuf {
    if path.metadata().is_ok_and(|there| !there.is_file()) {
        return path.to_owned();
    }
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    name.into()
}
