//! Letters that are mended: one event, one entry, and the original is kept.

use super::{ENTRIES, RESOLVED, mended, park, text};
use crate::support::events::{Message, order, payment};
use crate::support::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_never_books_both_copies() {
    let world = World::new("edit").await;
    let mut run = world.run().await;
    let original = payment("e", "9999", "1.50").rejected("unknown_account");
    park(&world, std::slice::from_ref(&original)).await;
    world.published.lock().unwrap().clear();
    let id = text(&world, "select id from fis_dead_letter").await;
    let edit = |set: &'static str| {
        ["dlq", "edit", &id, "--set", set, "--why", "typo in the account", "--by", "anna", "--yes"].map(str::to_owned)
    };
    let run_edit = async |set| {
        let args = edit(set);
        world.fis(&args.each_ref().map(String::as_str)).await
    };
    // It fails again: the same letter, with one more attempt, and no other.
    run_edit("/payload/account=8888").await.expect(1, &["\"8888\"", "would fail again", "1  parked again"]);
    assert_eq!(world.count("select count(*) from fis_dead_letter where attempts = 2 and status = 'parked'").await, 1);
    run_edit("/eventId=other").await.expect(1, &["keeps the event's id"]);
    run_edit("/payload/account=1100")
        .await
        .expect(0, &["+     \"account\": \"1100\"", "would post", "1 of 1 dead letter resolved"]);
    assert_eq!(world.count("select count(*) from fis_dead_letter").await, 1);
    assert_eq!(world.count(ENTRIES).await, 1);
    let body: Vec<u8> = sqlx::query_scalar("select body from fis_dead_letter").fetch_one(&world.pool).await.unwrap();
    assert_eq!(body, original.body, "the original is untouched");
    let record = "select concat_ws(' ', x.entry_id, x.edited_by, x.why, e.event_id) from fis_entry_edit x
                    join fis_journal_entry e using (entry_id)";
    assert_eq!(text(&world, record).await, "acme/1 anna typo in the account e");

    // The publisher sends the original once more: it conflicts with what was booked instead of it, and stays settled.
    world.apply_books(&mended()).await;
    world.publish(&[original]).await;
    world.published.lock().unwrap().clear();
    world.quiet().await;
    assert_eq!(world.count(RESOLVED).await, 1);
    assert_eq!(world.count(ENTRIES).await, 1);
    world.rest(&mut run).await;
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_nobody_can_read_is_mended_with_a_new_body() {
    let world = World::new("edit_unreadable").await;
    let mut run = world.run().await;
    park(&world, &[Message::new("ecommerce.order.completed", "{\"eventId\": \"broken\", ")]).await;
    world.published.lock().unwrap().clear();
    let id = text(&world, "select id from fis_dead_letter where event_id is null").await;
    let file = world.file("body.json", order("broken").body);
    world.fis(&["dlq", "edit", &id, "--body", &file, "--why", "cut off", "--yes"]).await.expect(0, &["1 of 1"]);
    assert_eq!(world.count(RESOLVED).await, 1);
    assert_eq!(world.count("select count(*) from fis_entry_edit").await, 1);
    world.rest(&mut run).await;
    world.invariants().await;
}
