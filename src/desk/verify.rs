//! The audit of the ledger: every hash and every balance computed anew, in constant memory. A scope enters; a verdict for each tenant, one about letters
//! and the operators' log, and whatever a checkpoint says that is no longer so, leave. Nothing that the ledger says of itself is believed.

use super::checkpoint::{BrokenPromise, NamedCheckpoint};
use super::tenants::no_tenant;
use super::{Desk, DeskError};
use crate::domain::ids::TenantId;
use crate::journal::audit::{self, Scope, TenantAudit};
use crate::parking::audit as letters;
pub use crate::parking::audit::LogAudit;
use crate::store::{self, guards};

/// The part of the ledger to audit.
#[derive(Debug, Clone, Default)]
pub struct LedgerAudit {
    /// Only this tenant.
    pub tenant: Option<TenantId>,
    /// The first sequence to check: the ones before it are believed, balances are not compared.
    pub from: Option<i64>,
    /// A checkpoint that the ledger is held to as well.
    pub checkpoint: Option<NamedCheckpoint>,
}

/// A verdict for each tenant.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct LedgerAudited {
    pub tenants: Vec<TenantAudit>,
    /// Tenants with a fault.
    pub broken: usize,
    /// Guards of the tables that are missing, switched off or altered.
    pub guards: Vec<String>,
    /// What waits and nothing will call back.
    pub stranded: Vec<String>,
    /// The letters and the operators' log; `None`: only a part of the ledger was asked for, and they are of no tenant alone.
    pub log: Option<LogAudit>,
    pub checkpoint: Vec<BrokenPromise>,
}

impl LedgerAudited {
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let log_is_whole = self.log.as_ref().is_none_or(|log| log.faults.is_empty());
        self.broken == 0
            && self.guards.is_empty()
            && self.stranded.is_empty()
            && log_is_whole
            && self.checkpoint.is_empty()
    }
}

impl Desk {
    /// Audits the ledger. `progress` hears the number of entries checked so far.
    ///
    /// # Errors
    /// There is no such tenant, the checkpoint is not one of the configured key, or the database is away.
    pub async fn verify(&self, request: &LedgerAudit, progress: impl FnMut(u64)) -> Result<LedgerAudited, DeskError> {
        let scope = Scope { tenant: request.tenant.clone(), from: request.from };
        let tenants = audit::verify(&self.postgres.pool, &scope, progress).await?;
        if let Some(tenant) = &scope.tenant
            && tenants.is_empty()
        {
            return Err(no_tenant(&mut *self.postgres.pool.acquire().await?, tenant.as_str()).await?);
        }
        let checkpoint = match &request.checkpoint {
            Some(checkpoint) => self.hold_to(checkpoint).await?,
            None => Vec::new(),
        };
        let log = match scope {
            Scope { tenant: None, from: None } => Some(letters::verify(&self.postgres.pool).await?),
            Scope { .. } => None,
        };
        let guards = guards::faults(&self.postgres.pool).await?;
        let stranded = store::audit::stranded(&self.postgres.pool).await?;
        let broken = tenants.iter().filter(|audit| audit.fault.is_some()).count();
        Ok(LedgerAudited { tenants, broken, guards, stranded, log, checkpoint })
    }
}
