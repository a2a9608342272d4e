//! After `fis books apply`: dead letters whose cause has disappeared are offered, with the command that replays them. They are
//! run through the new books for it, and rolled back; they are replayed only where the books say `auto_replay`.

use std::collections::BTreeMap;

use super::rehearse::Rehearsed;
use super::replay::automatically;
use crate::domain::books::Books;
use crate::domain::disposition::Reason;
use crate::domain::ids::TenantId;
use crate::domain::operator::{Operator, Through};
use crate::domain::period::Period;
use crate::parking::imagined;
use crate::platform::config::Config;
use crate::platform::postgres::{Postgres, others_connected};
use crate::store::dead_letters::{Filter, Scope, Sums, dated_between, whole_page};

/// Letters that are tried: enough to tell, and a second's work.
const TRIED_MAX: i64 = 1_000;
/// Groups that are named.
const GROUPS_MAX: usize = 5;

/// New books may mend it.
fn books_mend(reason: Reason) -> bool {
    match reason {
        Reason::UnknownTenant
        | Reason::RuleNotFound
        | Reason::RuleFailed
        | Reason::Unbalanced
        | Reason::BadAmount
        | Reason::UnknownAccount
        | Reason::AccountClosed
        | Reason::BadCurrency
        | Reason::PeriodClosed
        | Reason::AttemptsExhausted
        | Reason::FxRateMissing
        | Reason::OriginalNotPosted
        | Reason::PeriodNotOpen => true,
        Reason::MalformedJson
        | Reason::NotUtf8
        | Reason::TooLarge
        | Reason::MissingField
        | Reason::BadField
        | Reason::IdempotencyConflict
        | Reason::AlreadyReversed
        | Reason::DeliveryLimit
        | Reason::DatabaseRefused => false,
    }
}

/// Offers what would now post; or, where the books say so, replays it.
pub async fn after_books(config: &Config, postgres: &Postgres, books: &Books, by: &str) -> anyhow::Result<()> {
    let (groups, all_tried) = mended(config, postgres, &books.tenant_id).await?;
    let at_least = if all_tried { "" } else { "at least " };
    // The canary waits for its outcome: without a service there is nobody to wait for.
    let replays = books.auto_replay && !groups.is_empty() && others_connected(&postgres.pool).await?;
    for (group, letters) in groups.iter().take(GROUPS_MAX) {
        let (tenant, letters) = (&books.tenant_id, super::plural(*letters, "dead letter"));
        println!("{at_least}{letters} would now post: fis dlq replay --tenant {tenant} --group {group} --canary");
        if replays {
            let why = format!("auto_replay after the books of {tenant} changed");
            let operator = Operator::new(by, &why, Through::CommandLine)?;
            let filter = Filter { group: Some(group.clone()), ..of_tenant(tenant) };
            automatically(&postgres.pool, &filter, &operator).await?;
        }
    }
    Ok(())
}

/// A warning where a period is about to be closed while money that is dated in it is not in the books.
pub async fn before_closing(postgres: &Postgres, tenant: &TenantId, period: &Period) -> anyhow::Result<Option<String>> {
    let mut db = postgres.pool.acquire().await?;
    let open = dated_between(&mut db, tenant.as_str(), (period.starts, period.ends)).await?;
    let [letters, held] = open.each_ref().map(|sums| sums.iter().map(|(_, count, _)| *count).sum::<i64>());
    let told =
        |count: i64, noun: &str, sums: &Sums| format!("{} ({})", super::plural(count, noun), super::money_text(sums));
    let [letter_sums, held_sums] = &open;
    let mut parts = Vec::new();
    if letters > 0 {
        parts.push(told(letters, "dead letter", letter_sums));
    }
    if held > 0 {
        parts.push(told(held, "held event", held_sums));
    }
    let look = if letters > 0 { "dlq groups" } else { "held list" };
    Ok((!parts.is_empty()).then(|| {
        let (parts, name) = (parts.join(" and "), &period.name);
        format!("period `{name}` is closed while {parts} dated in it are not in the books; `fis {look} --tenant {tenant}` shows them")
    }))
}

fn of_tenant(tenant: &TenantId) -> Filter {
    Filter { scope: Scope::Parked, tenant: Some(tenant.to_string()), ..Filter::default() }
}

/// The groups of the tenant's letters that would now be resolved, largest first, and whether all letters were tried.
async fn mended(config: &Config, postgres: &Postgres, tenant: &TenantId) -> anyhow::Result<(Vec<(String, i64)>, bool)> {
    let mut letters = whole_page(&mut *postgres.pool.acquire().await?, &of_tenant(tenant), None, TRIED_MAX).await?;
    let all_tried = i64::try_from(letters.len()).is_ok_and(|tried| tried < TRIED_MAX);
    letters.retain(|whole| Reason::from_code(&whole.letter.reason).is_some_and(books_mend));
    if letters.is_empty() {
        return Ok((Vec::new(), all_tried));
    }
    let messages: Vec<_> = letters
        .iter()
        .map(|whole| imagined(&whole.letter.routing_key, &whole.properties, whole.body.clone()))
        .collect();
    let rehearsed = Rehearsed::of_messages(config, postgres, &messages).await?;
    let mut groups: BTreeMap<String, i64> = BTreeMap::new();
    for (whole, _) in letters.iter().zip(rehearsed.would()).filter(|(_, would)| **would) {
        *groups.entry(whole.letter.group_id.clone()).or_default() += 1;
    }
    let mut groups: Vec<(String, i64)> = groups.into_iter().collect();
    groups.sort_by_key(|(group, letters)| (-letters, group.clone()));
    Ok((groups, all_tried))
}
