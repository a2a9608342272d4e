//! After `fis books apply`: dead letters whose cause has disappeared are offered, with the command that replays them; and before a
//! period is closed, a warning about the money that is dated in it.

use super::watch::{Following, tell};
use super::{money_text, plural};
use crate::desk::Desk;
use crate::desk::letters::{LetterMoney, Watch};
use crate::domain::books::Books;
use crate::domain::ids::TenantId;
use crate::domain::operator::{Operator, Through};
use crate::domain::period::Period;

/// Offers what would now post; or, where the books say so, replays it.
pub async fn after_books(desk: &Desk, books: &Books, by: &str) -> anyhow::Result<()> {
    let offer = desk.offer_after_books(books).await?;
    let at_least = if offer.all_tried { "" } else { "at least " };
    let tenant = &books.tenant_id;
    for mended in &offer.groups {
        let (group, letters) = (&mended.group, plural(mended.letters, "dead letter"));
        println!("{at_least}{letters} would now post: fis dlq replay --tenant {tenant} --group {group} --canary");
        if offer.replays {
            let why = format!("auto_replay after the books of {tenant} changed");
            let operator = Operator::new(by, &why, Through::CommandLine)?;
            let following = Following::default();
            let act = async |watch: &Watch<'_>| desk.replay_mended(books, group, &operator, watch).await;
            tell(&following.watched(desk, &operator, act).await??, following.json)?;
        }
    }
    Ok(())
}

/// A warning where a period is about to be closed while money that is dated in it is not in the books.
pub async fn before_closing(desk: &Desk, tenant: &TenantId, period: &Period) -> anyhow::Result<Option<String>> {
    let open = desk.open_in_period(tenant, period).await?;
    let (letters, held) = (open.letters.letters(), open.held.letters());
    let told = |count: i64, noun: &str, money: &LetterMoney| format!("{} ({})", plural(count, noun), money_text(money));
    let mut parts = Vec::new();
    if letters > 0 {
        parts.push(told(letters, "dead letter", &open.letters));
    }
    if held > 0 {
        parts.push(told(held, "held event", &open.held));
    }
    let look = if letters > 0 { "dlq groups" } else { "held list" };
    Ok((!parts.is_empty()).then(|| {
        let (parts, name) = (parts.join(" and "), &period.name);
        let are = if letters + held == 1 { "is" } else { "are" };
        format!("period `{name}` is closed while {parts} dated in it {are} not in the books; `fis {look} --tenant {tenant}` shows them")
    }))
}
