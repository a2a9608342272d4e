//! `fis tenants`, and the tenant that a command is about: `--tenant`, else `FIS_TENANT`, else the only one there is. A name enters, a tenant that the
//! ledger knows leaves; a name that it does not know is refused in one wording.

use std::process::ExitCode;

use super::exit::WrongUsage;
use super::text::{grouped, numbers};
use super::{plural, printable};
use crate::desk::Desk;
use crate::domain::ids::TenantId;
use crate::platform::config::Config;

/// The variable that names the tenant where the command does not.
const VARIABLE: &str = "FIS_TENANT";
/// Tenants that are named where one has to be chosen; `fis tenants` lists all.
const NAMED_MAX: usize = 10;

/// The tenant that a command needs, or that it is narrowed to.
#[derive(clap::Args, Clone, Default)]
pub struct TenantArg {
    /// The tenant [default: $FIS_TENANT]
    #[arg(short = 't', long, value_parser = super::tenant)]
    tenant: Option<TenantId>,
}

impl TenantArg {
    /// The tenant of a command that needs one.
    pub async fn one(&self, desk: &Desk) -> anyhow::Result<TenantId> {
        if let Some(tenant) = self.named()? {
            desk.known_tenant(&tenant).await?;
            return Ok(tenant);
        }
        let mut tenants = desk.tenant_names().await?;
        match tenants.len() {
            0 => Err(WrongUsage("there is no tenant yet; `fis books apply FILE` makes one".to_owned()).into()),
            1 => {
                let tenant = tenants.remove(0);
                eprintln!("fis: tenant {tenant}, the only one");
                Ok(tenant)
            }
            all => {
                let named: Vec<&str> = tenants.iter().take(NAMED_MAX).map(TenantId::as_str).collect();
                let more = if all > NAMED_MAX { ", … (`fis tenants` lists all)" } else { "" };
                let named = named.join(", ");
                Err(WrongUsage(format!("which tenant? Give --tenant, or set {VARIABLE}: {named}{more}")).into())
            }
        }
    }

    /// The tenant that a command over all tenants is narrowed to. Where the environment does that, it is said: less is shown than the command asks for.
    pub async fn only(&self, desk: &Desk) -> anyhow::Result<Option<TenantId>> {
        let tenant = self.only_named()?;
        if let Some(tenant) = &tenant {
            desk.known_tenant(tenant).await?;
        }
        Ok(tenant)
    }

    /// [`only`](Self::only) for a command that needs no database: nobody is asked whether there is such a tenant.
    pub fn only_named(&self) -> anyhow::Result<Option<TenantId>> {
        let tenant = self.named()?;
        if let (None, Some(tenant)) = (&self.tenant, &tenant) {
            eprintln!("fis: only tenant {tenant}, as {VARIABLE} says");
        }
        Ok(tenant)
    }

    /// The tenant that the command itself names.
    pub fn said(&self) -> Option<&TenantId> {
        self.tenant.as_ref()
    }

    fn named(&self) -> Result<Option<TenantId>, WrongUsage> {
        if self.tenant.is_some() {
            return Ok(self.tenant.clone());
        }
        let set = std::env::var(VARIABLE).ok().filter(|name| !name.is_empty());
        let parsed = |name: String| TenantId::parse(&name).map_err(|error| WrongUsage(format!("{VARIABLE}: {error}")));
        set.map(parsed).transpose()
    }
}

#[derive(clap::Args)]
pub struct Tenants {
    #[arg(long)]
    json: bool,
}

impl Tenants {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        let answer = Desk::open(config).await?.tenants().await?;
        if self.json {
            super::print_json(&answer)?;
            return Ok(ExitCode::SUCCESS);
        }
        if answer.tenants.is_empty() {
            println!("There is no tenant yet; `fis books apply FILE` makes one.");
            return Ok(ExitCode::SUCCESS);
        }
        let mut table = super::table(&["tenant", "currency", "books", "entries", "last posting", "open letters"]);
        for tenant in &answer.tenants {
            let last = tenant.last_posted_at.map(|at| at.format("%Y-%m-%d %H:%M:%S UTC").to_string());
            table.add_row([
                tenant.tenant_id.clone(),
                tenant.base_currency.clone().unwrap_or_else(|| "unreadable".to_owned()),
                tenant.books_version.to_string(),
                grouped(&tenant.entries.to_string()),
                last.unwrap_or_else(|| "never".to_owned()),
                grouped(&tenant.open_letters.to_string()),
            ]);
        }
        numbers(&mut table, 2..4);
        numbers(&mut table, 5..6);
        println!("{table}");
        println!("{}", plural(i64::try_from(answer.tenants.len()).unwrap_or(i64::MAX), "tenant"));
        for stranger in &answer.strangers {
            let letters = plural(stranger.open_letters, "open dead letter");
            println!("not a tenant: {} ({letters} of it)", printable(&stranger.name));
        }
        Ok(ExitCode::SUCCESS)
    }
}
