//! `fis books check|apply|show`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use sqlx::Row;

use crate::domain::books::{Books, Mistake};
use crate::journal::books::{BooksError, apply};
use crate::platform::config::Config;

#[derive(clap::Subcommand)]
pub enum BooksCommand {
    /// Look for mistakes, without a server
    Check { file: PathBuf },
    /// Put books in force
    Apply {
        file: PathBuf,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Print books as they were applied
    Show {
        #[arg(long)]
        tenant: String,
        /// The version, else the one in force
        #[arg(long)]
        version: Option<i32>,
        #[arg(long)]
        json: bool,
    },
}

impl BooksCommand {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        match self {
            Self::Check { file } => check(&file),
            Self::Apply { file, yes: _ } => apply_file(config, &file).await,
            Self::Show { tenant, version, json } => show(config, &tenant, version, json).await,
        }
    }
}

fn read(file: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

fn check(file: &Path) -> anyhow::Result<ExitCode> {
    match Books::parse(&read(file)?, 0) {
        Ok(books) => {
            println!(
                "{}: books of {}, {} accounts, {} rules, no mistakes",
                file.display(),
                books.tenant_id,
                books.accounts().count(),
                books.rules().len()
            );
            Ok(ExitCode::SUCCESS)
        }
        Err(mistakes) => Ok(complain(file, &mistakes)),
    }
}

fn complain(file: &Path, mistakes: &[Mistake]) -> ExitCode {
    for mistake in mistakes {
        eprintln!("{}: {mistake}", file.display());
    }
    eprintln!("fis: {} mistakes, nothing was changed", mistakes.len());
    ExitCode::FAILURE
}

async fn apply_file(config: &Config, file: &Path) -> anyhow::Result<ExitCode> {
    let source = read(file)?;
    let postgres = super::database(config).await?;
    let by = super::operator();
    match apply(&postgres.pool, &source, &by).await {
        Ok(applied) if applied.changed => {
            println!("applied version {} of the books of {}", applied.version, applied.tenant_id);
            Ok(ExitCode::SUCCESS)
        }
        Ok(applied) => {
            println!("the books of {} are these already (version {})", applied.tenant_id, applied.version);
            Ok(ExitCode::SUCCESS)
        }
        Err(BooksError::Mistakes(mistakes)) => Ok(complain(file, &mistakes)),
        Err(error) => Err(error.into()),
    }
}

async fn show(config: &Config, tenant: &str, version: Option<i32>, json: bool) -> anyhow::Result<ExitCode> {
    let postgres = super::database(config).await?;
    let row = sqlx::query(
        "select b.version, b.source, b.applied_at, b.applied_by
           from fis_books b
           join fis_chain_head h using (tenant_id)
          where b.tenant_id = $1 and b.version = coalesce($2, h.books_version)",
    )
    .bind(tenant)
    .bind(version)
    .fetch_optional(&postgres.pool)
    .await?;
    let Some(row) = row else {
        anyhow::bail!("tenant `{tenant}` has no such books");
    };
    let (version, source): (i32, String) = (row.try_get("version")?, row.try_get("source")?);
    let (at, by): (chrono::DateTime<chrono::Utc>, String) = (row.try_get("applied_at")?, row.try_get("applied_by")?);
    if json {
        super::print_json(
            &serde_json::json!({ "tenantId": tenant, "version": version, "appliedAt": at, "appliedBy": by, "source": source }),
        )?;
    } else {
        print!("# version {version}, applied {} by {by}\n{source}", at.format("%Y-%m-%d %H:%M:%S UTC"));
    }
    Ok(ExitCode::SUCCESS)
}
