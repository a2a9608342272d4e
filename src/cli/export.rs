//! `fis export`: page by page from the desk to the file, in constant memory.

use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use chrono::NaiveDate;

use super::TenantArg;
use crate::desk::export::JournalExport;
use crate::desk::{Desk, DeskError};
use crate::domain::export::Format;
use crate::platform::config::Config;

#[derive(clap::Args)]
pub struct Export {
    #[command(flatten)]
    tenant: TenantArg,
    #[arg(long, value_enum)]
    format: Choice,
    /// First accounting date
    #[arg(long, value_name = "DATE", value_parser = super::day)]
    from: Option<NaiveDate>,
    /// Last accounting date
    #[arg(long, value_name = "DATE", value_parser = super::day)]
    to: Option<NaiveDate>,
    /// The file to write, completely or not at all [default: standard output]
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
        let desk = Desk::open(config).await?;
        let tenant = self.tenant.one(&desk).await?;
        let request = JournalExport { tenant, format: self.format.format(), from: self.from, to: self.to };
        let Some(path) = &self.output else {
            return match write(&desk, &request, std::io::stdout(), &mut |_| {}).await {
                // A reader that has seen enough (`| head`) is no failure.
                Err(DeskError::Sink(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
                written => Ok(written.map(|_| ExitCode::SUCCESS)?),
            };
        };
        let bar = indicatif::ProgressBar::new_spinner().with_message("entries");
        let part = part_of(path);
        let file = File::create(&part).with_context(|| format!("cannot write {}", part.display()))?;
        let written = write(&desk, &request, file, &mut |count| bar.set_position(count)).await;
        bar.finish_and_clear();
        if written.is_err() && part != *path {
            // A half export must not lie about; where even this fails, its name says what it is.
            let _ = std::fs::remove_file(&part);
        }
        let count = written?;
        if part != *path {
            std::fs::rename(&part, path).with_context(|| format!("cannot write {}", path.display()))?;
        }
        let count = match count {
            1 => "1 entry".to_owned(),
            count => format!("{count} entries"),
        };
        println!("exported {count} of {} to {}", request.tenant, path.display());
        Ok(ExitCode::SUCCESS)
    }
}

async fn write(
    desk: &Desk,
    request: &JournalExport,
    sink: impl Write + Send,
    progress: &mut (dyn FnMut(u64) + Send),
) -> Result<u64, DeskError> {
    let mut sink = BufWriter::new(sink);
    let count = desk.export(request, &mut |text| sink.write_all(text.as_bytes()), progress).await?;
    sink.flush().map_err(DeskError::Sink)?;
    Ok(count)
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
