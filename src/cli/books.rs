//! `fis books init|check|apply|show|versions`. Files enter; plans, mistakes and versions leave. Nothing is put in force that
//! nobody confirmed, at the terminal or with `--yes`.

mod plan;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use chrono::Datelike;

use super::{TenantArg, Who, plural, text};
use crate::desk::books::{ApplyBooks, BooksChange, check, excerpt, new_books};
use crate::desk::{Desk, DeskError};
use crate::domain::books::{Books, Mistake, Position};
use crate::domain::operator::Operator;
use crate::platform::config::Config;
use crate::platform::time::now;

#[derive(clap::Subcommand)]
pub enum BooksCommand {
    /// Print a small commented file of books to begin with
    Init,
    /// Look for mistakes in a file; needs no server
    Check {
        file: PathBuf,
        #[arg(long)]
        json: bool,
    },
    /// Show what a file would change, and put it in force
    Apply(Apply),
    /// Print books as they were applied
    Show {
        #[command(flatten)]
        tenant: TenantArg,
        /// The version [default: the one in force]
        #[arg(long)]
        version: Option<i32>,
        #[arg(long)]
        json: bool,
    },
    /// List the versions, with when and by whom each was applied
    Versions {
        #[command(flatten)]
        tenant: TenantArg,
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
    #[command(flatten)]
    who: Who,
    #[arg(long)]
    json: bool,
}

impl BooksCommand {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        match self {
            Self::Init => {
                text::print_text(&new_books(now().year()))?;
                Ok(ExitCode::SUCCESS)
            }
            Self::Check { file, json } => look(&file, json),
            Self::Apply(apply) => apply.run(config).await,
            Self::Show { tenant, version, json } => show(config, &tenant, version, json).await,
            Self::Versions { tenant, json } => versions(config, &tenant, json).await,
        }
    }
}

fn read(file: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

/// An answer about a file, with the file's name.
#[derive(serde::Serialize)]
struct OfFile<'a, T: serde::Serialize> {
    file: &'a Path,
    #[serde(flatten)]
    told: T,
}

#[derive(serde::Serialize)]
struct Mistakes<'a> {
    mistakes: &'a [Mistake],
}

fn look(file: &Path, json: bool) -> anyhow::Result<ExitCode> {
    let source = read(file)?;
    let told = match check(&source) {
        Ok(told) => told,
        Err(error) => return complain(file, &source, error, json),
    };
    if json {
        super::print_json(&OfFile { file, told })?;
    } else {
        let count = |count: usize, noun: &str| plural(i64::try_from(count).unwrap_or(i64::MAX), noun);
        let (accounts, rules) = (count(told.accounts, "account"), count(told.rules, "rule"));
        println!("{}: books of {}, {accounts}, {rules}, no mistakes", file.display(), told.tenant_id);
    }
    Ok(ExitCode::SUCCESS)
}

/// Each mistake on a line of the form that editors jump to, and below it the place in the file.
fn complain(file: &Path, source: &str, error: DeskError, json: bool) -> anyhow::Result<ExitCode> {
    let DeskError::Mistakes { mistakes } = error else { return Err(error.into()) };
    if json {
        super::print_json(&OfFile { file, told: Mistakes { mistakes: &mistakes } })?;
        return Ok(ExitCode::FAILURE);
    }
    for mistake in &mistakes {
        match mistake.position {
            Some(Position { line, column }) => eprintln!("{}:{line}:{column}: {mistake}", file.display()),
            None => eprintln!("{}: {mistake}", file.display()),
        }
        if let Some(excerpt) = mistake.position.and_then(|position| excerpt(source, position)) {
            eprintln!("{excerpt}");
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
        if let Err(error) = check(&source) {
            return complain(&self.file, &source, error, self.json);
        }
        let desk = Desk::open(config).await?;
        let plan = match desk.plan_books(&source).await {
            Ok(plan) => plan,
            Err(error) => return complain(&self.file, &source, error, self.json),
        };
        if !self.json {
            plan::print(&plan);
        }
        warn_of_closing(&desk, &plan).await?;
        if plan.changes.is_empty() {
            return self.done(&plan);
        }
        let operator = self.who.acting("")?;
        if !self.yes && !confirmed(&plan)? {
            if self.json {
                super::print_json(&plan)?;
            }
            return Ok(ExitCode::from(super::NOT_CONFIRMED));
        }
        let request = ApplyBooks { operator, source: &source, against: plan.version, confirmed: true };
        match desk.apply_books(&request).await {
            Ok(change) => {
                let code = self.done(&change)?;
                if change.applied && !self.json {
                    offer(&desk, &source, &request.operator).await;
                }
                Ok(code)
            }
            Err(error) => complain(&self.file, &source, error, self.json),
        }
    }

    fn done(&self, change: &BooksChange) -> anyhow::Result<ExitCode> {
        let (tenant, version) = (&change.tenant_id, change.version.unwrap_or_default());
        if self.json {
            super::print_json(change)?;
        } else if change.applied {
            println!("applied version {version} of the books of {tenant}");
            if change.released > 0 {
                let released = i64::try_from(change.released).unwrap_or(i64::MAX);
                println!("released {}, whose cause is gone", plural(released, "held event"));
            }
        } else {
            println!("the books of {tenant} are these already (version {version}); nothing was changed");
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Money that is dated in a period to be closed, and not in the books.
async fn warn_of_closing(desk: &Desk, plan: &BooksChange) -> anyhow::Result<()> {
    for period in &plan.closes {
        if let Some(warning) = super::dlq::offer::before_closing(desk, &plan.tenant_id, period).await? {
            eprintln!("fis: warning: {warning}");
        }
    }
    Ok(())
}

/// Dead letters that would now post. The books are in force whatever comes of this.
async fn offer(desk: &Desk, source: &str, operator: &Operator) {
    let Ok(books) = Books::parse(source, 0) else { return };
    if let Err(error) = super::dlq::offer::after_books(desk, &books, operator.by()).await {
        eprintln!("fis: the books are in force, but not all dead letters could be tried: {error:#}");
    }
}

fn confirmed(plan: &BooksChange) -> anyhow::Result<bool> {
    text::confirmed(
        &format!("Apply this to the books of {}?", plan.tenant_id),
        "not applied: nobody sits at a terminal to confirm this plan; --yes applies it",
        "not applied",
    )
}

async fn show(config: &Config, tenant: &TenantArg, version: Option<i32>, json: bool) -> anyhow::Result<ExitCode> {
    let desk = Desk::open(config).await?;
    let books = desk.books(&tenant.one(&desk).await?, version).await?;
    if json {
        super::print_json(&books)?;
    } else {
        let at = books.applied_at.format("%Y-%m-%d %H:%M:%S UTC");
        print!("# version {}, applied {at} by {}\n{}", books.version, books.applied_by, books.source);
    }
    Ok(ExitCode::SUCCESS)
}

async fn versions(config: &Config, tenant: &TenantArg, json: bool) -> anyhow::Result<ExitCode> {
    let desk = Desk::open(config).await?;
    let history = desk.books_versions(&tenant.one(&desk).await?).await?;
    if json {
        super::print_json(&history)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = super::table(&["version", "applied", "by", ""]);
    for line in history.versions {
        let at = line.applied_at.format("%Y-%m-%d %H:%M:%S UTC").to_string();
        let mark = if line.in_force { "in force" } else { "" };
        table.add_row([line.version.to_string(), at, line.applied_by, mark.to_owned()]);
    }
    println!("{table}");
    Ok(ExitCode::SUCCESS)
}
