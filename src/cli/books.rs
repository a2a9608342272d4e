//! `fis books check|apply|show|versions`. Files enter; plans, mistakes and versions leave. Nothing is put in force that
//! nobody confirmed, at the terminal or with `--yes`.

mod plan;

use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use serde_json::json;

use crate::desk::Desk;
use crate::domain::books::{Act, Books, Change, Mistake, Position, Thing};
use crate::domain::period::Period;
use crate::journal::books::{self, Against, BooksError, Outlook};
use crate::platform::config::Config;

/// Wrong usage: somebody has to confirm, and nobody is there.
const NOT_CONFIRMED: u8 = 2;

#[derive(clap::Subcommand)]
pub enum BooksCommand {
    /// Look for mistakes, without a server
    Check {
        file: PathBuf,
        #[arg(long)]
        json: bool,
    },
    /// Show what a file would change, and put it in force
    Apply(Apply),
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
    /// List the versions: when, and by whom
    Versions {
        #[arg(long)]
        tenant: String,
        #[arg(long)]
        json: bool,
    },
}

#[derive(clap::Args)]
pub struct Apply {
    file: PathBuf,
    /// Do not ask; without a terminal nothing is applied unless this is given
    #[arg(long)]
    yes: bool,
    /// Who applies, for the record [default: $USER]
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    #[arg(long)]
    json: bool,
}

impl BooksCommand {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        match self {
            Self::Check { file, json } => check(&file, json),
            Self::Apply(apply) => apply.run(config).await,
            Self::Show { tenant, version, json } => show(config, &tenant, version, json).await,
            Self::Versions { tenant, json } => versions(config, &tenant, json).await,
        }
    }
}

fn read(file: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

fn check(file: &Path, json: bool) -> anyhow::Result<ExitCode> {
    match Books::parse(&read(file)?, 0) {
        Ok(books) => {
            let (tenant, accounts, rules) = (&books.tenant_id, books.accounts().count(), books.rules().len());
            if json {
                let told = json!({ "file": file, "tenantId": tenant.as_str(), "accounts": accounts, "rules": rules, "mistakes": [] });
                super::print_json(&told)?;
            } else {
                println!("{}: books of {tenant}, {accounts} accounts, {rules} rules, no mistakes", file.display());
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(mistakes) => complain(file, &mistakes, json),
    }
}

/// One mistake per line, in the form that editors jump to.
fn complain(file: &Path, mistakes: &[Mistake], json: bool) -> anyhow::Result<ExitCode> {
    if json {
        super::print_json(&json!({ "file": file, "mistakes": mistakes }))?;
        return Ok(ExitCode::FAILURE);
    }
    for mistake in mistakes {
        match mistake.position {
            Some(Position { line, column }) => eprintln!("{}:{line}:{column}: {mistake}", file.display()),
            None => eprintln!("{}: {mistake}", file.display()),
        }
    }
    let noun = if mistakes.len() == 1 { "mistake" } else { "mistakes" };
    eprintln!("fis: {} {noun}, nothing was changed", mistakes.len());
    Ok(ExitCode::FAILURE)
}

impl Apply {
    async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        let source = read(&self.file)?;
        // Before a server is asked: a file with mistakes needs none.
        if let Err(mistakes) = Books::parse(&source, 0) {
            return complain(&self.file, &mistakes, self.json);
        }
        let postgres = super::database(config).await?;
        let outlook = match books::outlook(&postgres.pool, &source).await {
            Ok(outlook) => outlook,
            Err(BooksError::Mistakes(mistakes)) => return complain(&self.file, &mistakes, self.json),
            Err(error) => return Err(error.into()),
        };
        if !self.json {
            plan::print(&outlook);
        }
        let desk = Desk { config: config.clone(), postgres: postgres.clone() };
        self.warn_of_closing(&desk, &source, &outlook).await?;
        if outlook.plan.is_empty() {
            return self.done(&outlook, false, 0);
        }
        if !self.yes && !confirmed(&outlook)? {
            if self.json {
                plan::print_json(&outlook, false, 0)?;
            }
            return Ok(ExitCode::from(NOT_CONFIRMED));
        }
        let by = self.by.clone().filter(|by| !by.trim().is_empty()).unwrap_or_else(super::operator);
        match books::put_in_force(&postgres.pool, &source, &by, Against::Planned(outlook.version)).await {
            Ok(applied) => {
                let outlook = Outlook { version: Some(applied.version), ..outlook };
                let code = self.done(&outlook, applied.changed, applied.released)?;
                if applied.changed && !self.json {
                    self.offer(&desk, &source, &by).await;
                }
                Ok(code)
            }
            Err(BooksError::Mistakes(mistakes)) => complain(&self.file, &mistakes, self.json),
            Err(error) => Err(error.into()),
        }
    }

    /// Money that is dated in a period to be closed, and not in the books.
    async fn warn_of_closing(&self, desk: &Desk, source: &str, outlook: &Outlook) -> anyhow::Result<()> {
        let Ok(books) = Books::parse(source, 0) else { return Ok(()) };
        let closes = |period: &&Period| {
            let is_closed = |change: &Change| change.act == Act::Closed && change.thing == Thing::Period;
            outlook.plan.changes.iter().any(|change| is_closed(change) && change.name == period.name)
        };
        for period in books.calendar.periods().iter().filter(closes) {
            if let Some(warning) = super::dlq::offer::before_closing(desk, &outlook.tenant_id, period).await? {
                eprintln!("fis: warning: {warning}");
            }
        }
        Ok(())
    }

    /// Dead letters that would now post. The books are in force whatever comes of this.
    async fn offer(&self, desk: &Desk, source: &str, by: &str) {
        let Ok(books) = Books::parse(source, 0) else { return };
        if let Err(error) = super::dlq::offer::after_books(desk, &books, by).await {
            eprintln!("fis: the books are in force, but not all dead letters could be tried: {error:#}");
        }
    }

    fn done(&self, outlook: &Outlook, applied: bool, released: u64) -> anyhow::Result<ExitCode> {
        let (tenant, version) = (&outlook.tenant_id, outlook.version.unwrap_or_default());
        if self.json {
            plan::print_json(outlook, applied, released)?;
        } else if applied {
            println!("applied version {version} of the books of {tenant}");
            if released > 0 {
                println!("released {released} held events, whose cause is gone");
            }
        } else {
            println!("the books of {tenant} are these already (version {version}); nothing was changed");
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Asks the person at the terminal. Without one nothing is asked, and the answer is no.
fn confirmed(outlook: &Outlook) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        eprintln!("fis: not applied: nobody sits at a terminal to confirm this plan; --yes applies it");
        return Ok(false);
    }
    eprint!("Apply this to the books of {}? [y/N] ", outlook.tenant_id);
    std::io::stderr().flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    let yes = matches!(answer.trim().to_lowercase().as_str(), "y" | "yes");
    if !yes {
        eprintln!("fis: not applied");
    }
    Ok(yes)
}

async fn show(config: &Config, tenant: &str, version: Option<i32>, json: bool) -> anyhow::Result<ExitCode> {
    let postgres = super::database(config).await?;
    let Some(stored) = books::read(&postgres.pool, tenant, version).await? else {
        anyhow::bail!("tenant `{tenant}` has no such books");
    };
    let books::StoredBooks { version, applied_at: at, applied_by: by, source } = stored;
    if json {
        super::print_json(
            &json!({ "tenantId": tenant, "version": version, "appliedAt": at, "appliedBy": by, "source": source }),
        )?;
    } else {
        print!("# version {version}, applied {} by {by}\n{source}", at.format("%Y-%m-%d %H:%M:%S UTC"));
    }
    Ok(ExitCode::SUCCESS)
}

async fn versions(config: &Config, tenant: &str, json: bool) -> anyhow::Result<ExitCode> {
    let postgres = super::database(config).await?;
    let versions = books::versions(&postgres.pool, tenant).await?;
    if versions.is_empty() {
        anyhow::bail!("tenant `{tenant}` has no books");
    }
    if json {
        let one = |line: &books::VersionLine| json!({ "version": line.version, "appliedAt": line.applied_at, "appliedBy": line.applied_by, "inForce": line.in_force });
        super::print_json(&json!({ "tenantId": tenant, "versions": versions.iter().map(one).collect::<Vec<_>>() }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = super::table(&["version", "applied", "by", ""]);
    for line in versions {
        let at = line.applied_at.format("%Y-%m-%d %H:%M:%S UTC").to_string();
        let mark = if line.in_force { "in force" } else { "" };
        table.add_row([line.version.to_string(), at, line.applied_by, mark.to_owned()]);
    }
    println!("{table}");
    Ok(ExitCode::SUCCESS)
}
