//! What an admin can do about dead letters, and what becomes of them. Each request that the tools of the field leave open has a
//! test that says it.

mod damaged;
mod discard;
mod edit;
mod identity;
mod interrupted;
mod looking;
mod races;
mod replay;
mod resolved;

use serde_json::Value;

use crate::support::events::{Message, books, payment};
use crate::support::wait::{same, wait_until};
use crate::support::world::World;

const OPEN: &str = "select count(*) from fis_dead_letter where status in ('parked', 'replaying')";
const PARKED: &str = "select count(*) from fis_dead_letter where status = 'parked'";
const RESOLVED: &str = "select count(*) from fis_dead_letter where status = 'resolved' and entry_id is not null";
const ENTRIES: &str = "select count(*) from fis_journal_entry";

/// The books with the account that the bad payments name.
fn mended() -> String {
    books("acme") + "\n[[accounts]]\ncode = \"9999\"\nname = \"New\"\ntype = \"income\"\n"
}

/// Payments to an account that the books do not have yet; in the end they are posted.
fn bad(name: &str, count: usize) -> Vec<Message> {
    (0..count).map(|n| payment(&format!("{name}-{n}"), "9999", "1.50")).collect()
}

async fn park(world: &World, messages: &[Message]) {
    let before = world.count(OPEN).await;
    world.publish(messages).await;
    let expected = before + i64::try_from(messages.len()).unwrap();
    wait_until("they are parked", async || same(world.count(OPEN).await, expected)).await;
}

async fn text(world: &World, sql: &'static str) -> String {
    sqlx::query_scalar(sql).fetch_one(&world.pool).await.unwrap()
}

fn progress(said: &Value) -> [i64; 4] {
    ["selected", "resolved", "failed", "left"].map(|name| said["progress"][name].as_i64().unwrap())
}
