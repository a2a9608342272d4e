//! Reversals, conversions, and what may succeed later: held with a due time, brought back, posted or given up.

use serde_json::{Value, json};

use crate::support::events::{Expect, Message, books, cancellation, envelope, order, order_of, refund_of};
use crate::support::load::QUICK_RETRIES;
use crate::support::wait::{same, wait_until};
use crate::support::world::World;

async fn held(world: &World) -> i64 {
    world.count("select count(*) from fis_held").await
}

async fn wait_held(world: &World, count: i64) {
    wait_until("held events", async || same(held(world).await, count)).await;
}

async fn texts(world: &World, sql: &'static str) -> Vec<String> {
    sqlx::query_scalar(sql).fetch_all(&world.pool).await.unwrap()
}

const LINES: &str =
    "select concat_ws(' ', seq, account_code, side, trim_scale(amount), currency, trim_scale(base_amount))
                       from fis_journal_line order by seq, line_no";

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_order_is_mirrored_once() {
    let world = World::new("cancelled").await;
    let mut run = world.run().await;
    world.publish(&[order("sale"), cancellation("cancel", "sale")]).await;
    world.quiet().await;
    world.publish(&[cancellation("again", "sale").rejected("already_reversed")]).await;
    world.rest(&mut run).await;
    let feed = world.invariants().await;
    let reverted = feed.of("fis.journal.reverted");
    let [event] = reverted[..] else { panic!("one reversal: {reverted:?}") };
    let data = event.data();
    assert_eq!((&data["sequence"], &data["reverses"]), (&json!(2), &json!("acme/1")));
    assert_eq!((&data["rule"], &data["accountingDate"]), (&json!("order-cancelled"), &json!("2026-02-25")));
    assert_eq!(
        texts(&world, LINES).await[3..],
        ["2 1100 credit 119 EUR 119", "2 4000 debit 100 EUR 100", "2 2200 debit 19 EUR 19"]
    );
    let balances = "select concat_ws(' ', account_code, debit - credit = 0) from fis_account_balance order by 1";
    assert_eq!(texts(&world, balances).await, ["1100 t", "2200 t", "4000 t"]);
}

/// Order, cancellation and a second cancellation wait in the queue, so that one batch takes them.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_ends_as_its_events_would_one_by_one() {
    let world = World::new("in_one_batch").await;
    world
        .publish(&[
            order("sale"),
            cancellation("cancel", "sale"),
            cancellation("again", "sale").rejected("already_reversed"),
            cancellation("undo", "cancel"),
            cancellation("cancel", "sale"),
        ])
        .await;
    let mut run = world.run().await;
    world.rest(&mut run).await;
    assert_eq!(
        texts(&world, "select event_id || ' ' || coalesce(reverses_entry_id, '-') from fis_journal_entry order by seq")
            .await,
        ["sale -", "cancel acme/1", "undo acme/2"]
    );
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancellation_before_its_order_is_held_where_everybody_can_see_it() {
    let world = World::new("held").await;
    let mut run = world.run().await;
    world.publish(&[cancellation("cancel", "sale").expect(Expect::Held)]).await;
    wait_held(&world, 1).await;
    let row = "select concat_ws(' ', tenant_id, event_id, event_type, routing_key, reason, attempts, lane,
                                due_at - last_held_at between interval '60 seconds' and interval '70 seconds')
                 from fis_held";
    assert_eq!(
        texts(&world, row).await,
        ["acme cancel ecommerce.order.cancelled ecommerce.order.cancelled original_not_posted 1 live t"]
    );
    assert_eq!(world.count("select count(*) from fis_outbox").await, 0, "what waits is no message that leaves");
    let log = "select concat_ws(' ', queue, correlation_id, idempotency_key, action, status, attempts,
                                split_part(last_error, ':', 1), next_retry_at > now())
                 from fis_job_log";
    assert_eq!(
        texts(&world, log).await,
        ["fis.ingestion.queue corr-cancel cancel ecommerce.order.cancelled held 1 original_not_posted t"]
    );
    let status = world.fis(&["status", "--json"]).await.expect(0, &[]).json();
    assert_eq!((&status["held"], &status["outbox"]["pending"]), (&json!(1), &json!(0)), "{status}");
    world.rest(&mut run).await;
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_event_comes_back_and_is_posted_once_its_cause_is_gone() {
    let world = World::new("comes_back").await;
    let mut run = world.run_with(&QUICK_RETRIES).await;
    let mut message = cancellation("cancel", "sale").header("traceparent", "00-11-22-01").header("x-custom", "kept");
    message.properties = message.properties.with_message_id("m-1".into()).with_correlation_id("ignored".into());
    world.publish(&[message]).await;
    wait_held(&world, 1).await;
    world.publish(&[order("sale")]).await;
    world.rest(&mut run).await;
    assert_eq!(held(&world).await, 0);
    let row = "select concat_ws(' ', event_id, reverses_entry_id, lane, message_id, correlation_id, traceparent)
                 from fis_journal_entry where seq = 2";
    assert_eq!(texts(&world, row).await, ["cancel acme/1 live m-1 corr-cancel 00-11-22-01"]);
    world.invariants().await;
}

/// The publisher does not wait for the retry and sends it again.
#[tokio::test(flavor = "multi_thread")]
async fn a_held_event_that_is_sent_again_and_posted_is_held_no_more() {
    let world = World::new("sent_again").await;
    let mut run = world.run_with(&[("FIS__RETRY__BASE_DELAY_SECONDS", "3"), ("FIS__RETRY__JITTER_SECONDS", "0")]).await;
    world.publish(&[cancellation("cancel", "sale")]).await;
    wait_held(&world, 1).await;
    world.publish(&[order("sale"), cancellation("cancel", "sale")]).await;
    wait_until("the second one is posted", async || {
        same(world.count("select count(*) from fis_journal_entry").await, 2)
    })
    .await;
    assert_eq!(held(&world).await, 0, "posted and held at the same time");
    world.rest(&mut run).await;
    world.invariants().await;
}

/// Both wait in the queue, so that one batch takes them: the first is held, and the second posted under the same id.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_held_when_other_content_is_posted_under_its_id_is_a_conflict_also_within_a_batch() {
    let world = World::new("overtaken").await;
    let held = order_of("acme", "sale", "GBP", "119.00", "19.00").rejected("idempotency_conflict");
    world.publish(&[held.clone(), held, order_of("acme", "sale", "EUR", "119.00", "19.00")]).await;
    let mut run = world.run_with(&QUICK_RETRIES).await;
    world.rest(&mut run).await;
    assert_eq!(texts(&world, "select event_id from fis_journal_entry").await, ["sale"]);
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_can_never_succeed_is_given_up_after_its_attempts() {
    let world = World::new("given_up").await;
    let environment = [
        ("FIS__RETRY__BASE_DELAY_SECONDS", "0"),
        ("FIS__RETRY__JITTER_SECONDS", "0"),
        ("FIS__RETRY__MAX_RETRIES", "2"),
    ];
    let mut run = world.run_with(&environment).await;
    let capped = json!({
        "id": "capped", "action": "ecommerce.order.cancelled", "tenant_id": "acme", "attempts": 0, "max_attempts": 0,
        "payload": {"orderId": "1", "orderEventId": "never"},
    });
    world
        .publish(&[
            cancellation("cancel", "never").rejected("attempts_exhausted"),
            Message::json("jobs", &capped).rejected("attempts_exhausted"),
            // This one's rule waits for an hour.
            refund_of("acme", "refund", "never"),
        ])
        .await;
    world.rest(&mut run).await;
    let detail = "select event_id || ' ' || detail from fis_dead_letter order by event_id";
    let details = texts(&world, detail).await;
    assert!(details[0].contains("original_not_posted") && details[0].contains("2 retries"), "{details:?}");
    assert!(details[1].contains("original_not_posted") && details[1].contains("0 retries"), "{details:?}");
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pay_run_books_lines_per_payslip() {
    let world = World::new("salaries").await;
    let mut run = world.run().await;
    let slip = |department: &str, gross: &str, withheld: &str| json!({"department": department, "gross": gross, "withheld": withheld});
    let payload = json!({"runId": "2026-02", "currency": "EUR", "payslips": [slip("10", "5000.00", "1200.50"), slip("20", "4000.00", "900.00")]});
    let key = "payroll.salary.disbursed";
    let nobody = json!({"runId": "2026-03", "currency": "EUR", "payslips": []});
    world
        .publish(&[
            Message::json(key, &envelope("acme", "pay", key, payload)).expect(Expect::Posted),
            Message::json(key, &envelope("acme", "empty", key, nobody)).rejected("unbalanced"),
        ])
        .await;
    world.rest(&mut run).await;
    assert_eq!(
        texts(&world, LINES).await,
        [
            "1 6010 debit 5000 EUR 5000",
            "1 1000 credit 3799.5 EUR 3799.5",
            "1 2300 credit 1200.5 EUR 1200.5",
            "1 6020 debit 4000 EUR 4000",
            "1 1000 credit 3100 EUR 3100",
            "1 2300 credit 900 EUR 900",
        ]
    );
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_currency_is_converted_and_the_residue_goes_to_rounding() {
    let world = World::new("usd").await;
    let mut run = world.run().await;
    world
        .publish(&[order_of("acme", "even", "USD", "119.00", "19.00"), order_of("acme", "odd", "USD", "0.10", "0.05")])
        .await;
    world.rest(&mut run).await;
    assert_eq!(
        texts(&world, LINES).await,
        [
            "1 1100 debit 119 USD 109.48",
            "1 4000 credit 100 USD 92",
            "1 2200 credit 19 USD 17.48",
            // 0.092 and twice 0.046, each to the nearest cent: one cent is missing on the left.
            "2 1100 debit 0.1 USD 0.09",
            "2 4000 credit 0.05 USD 0.05",
            "2 2200 credit 0.05 USD 0.05",
            "2 6999 debit 0.01 EUR 0.01",
        ]
    );
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_rate_holds_the_event_until_the_books_have_it() {
    let world = World::new("missing_rate").await;
    let mut run = world.run_with(&QUICK_RETRIES).await;
    world.publish(&[order_of("acme", "gbp", "GBP", "10.00", "0")]).await;
    wait_until("it is held for its rate", async || {
        let reasons = texts(&world, "select reason from fis_held").await;
        same(reasons, vec!["fx_rate_missing".to_owned()])
    })
    .await;
    let rate = "\n[[rates]]\nfrom = \"GBP\"\nto = \"EUR\"\ndate = 2026-01-01\nrate = \"1.15\"\n";
    let file = world.file("acme.toml", books("acme") + rate);
    world.fis(&["books", "apply", &file, "--yes"]).await.expect(0, &["version 2"]);
    world.rest(&mut run).await;
    assert_eq!(texts(&world, LINES).await, ["1 1100 debit 10 GBP 11.5", "1 4000 credit 10 GBP 11.5"]);
    assert_eq!(world.count("select rule_version::bigint from fis_journal_entry").await, 2);
    world.invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_of_a_closed_period_is_moved_rejected_or_held_as_the_books_say() {
    let world = World::new("late").await;
    for (tenant, policy) in [("globex", "reject"), ("initech", "hold")] {
        world.apply_books(&books(tenant).replace("\"next_open\"", &format!("{policy:?}"))).await;
    }
    let late = |tenant: &str| {
        let mut body: Value = order_of(tenant, "late", "EUR", "119.00", "19.00").value();
        body["occurredAt"] = json!("2025-12-31T10:00:00Z");
        Message::json("ecommerce.order.completed", &body)
    };
    let mut run = world.run().await;
    world
        .publish(&[
            late("acme").expect(Expect::Posted),
            late("globex").rejected("period_closed"),
            late("initech").expect(Expect::Held),
        ])
        .await;
    wait_held(&world, 1).await;
    world.rest(&mut run).await;
    assert_eq!(texts(&world, "select accounting_date::text from fis_journal_entry").await, ["2026-01-01"]);
    assert_eq!(texts(&world, "select reason from fis_held").await, ["period_not_open"]);
    world.invariants().await;
}

/// What can never succeed is rejected before what may succeed later is held.
#[tokio::test(flavor = "multi_thread")]
async fn a_hopeless_event_does_not_wait_for_a_rate() {
    let world = World::new("hopeless").await;
    let mut run = world.run().await;
    let mut body = order_of("acme", "hopeless", "GBP", "10.00", "0").value();
    body["payload"]["total"] = json!("10.001");
    world.publish(&[Message::json("ecommerce.order.completed", &body).rejected("bad_amount")]).await;
    world.rest(&mut run).await;
    world.invariants().await;
}
