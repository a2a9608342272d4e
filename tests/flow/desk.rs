//! The desk, asked by another hand than the command line: limits and confirmations hold whoever asks, and answers are those of `--json`.

use fis::desk::books::ApplyBooks;
use fis::desk::feed::{ReaderQueue, Resend};
use fis::desk::held::{HeldFilter, ReleaseMatching};
use fis::desk::{Desk, DeskError};
use fis::domain::ids::TenantId;
use fis::domain::operator::{Operator, Through};
use fis::platform::config::Config;

use crate::support::events::{books, cancellation, order};
use crate::support::world::World;

async fn desk(world: &World) -> Desk {
    let config = Config::load(None, world.environment().into_iter()).unwrap();
    Desk::open(&config).await.unwrap()
}

fn anna() -> Operator {
    Operator::new("anna", "a test", Through::Service).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_desk_does_nothing_that_nobody_confirmed() {
    let world = World::new("desk_confirmed").await;
    world.publish(&[cancellation("refund", "never")]).await;
    world.fis(&["run", "--once"]).await.expect(0, &[]);
    let desk = desk(&world).await;
    let release = |confirmed| ReleaseMatching { operator: anna(), filter: HeldFilter::default(), confirmed };
    assert_eq!(desk.count_held(&HeldFilter::default()).await.unwrap(), 1);
    let refused = desk.release_matching(&release(false)).await;
    assert!(matches!(refused, Err(DeskError::NotConfirmed { .. })), "{refused:?}");
    assert_eq!(world.count("select count(*) from fis_held where due_at > now()").await, 1);
    assert_eq!(desk.release_matching(&release(true)).await.unwrap().released, 1);

    let source = books("acme") + "\n[[accounts]]\ncode = \"new\"\ntype = \"asset\"\n";
    let plan = desk.plan_books(&source).await.unwrap();
    assert_eq!((plan.version, plan.applied, plan.changes.is_empty()), (Some(1), false, false));
    let apply = |against, confirmed| ApplyBooks { operator: anna(), source: &source, against, confirmed };
    let refused = desk.apply_books(&apply(Some(1), false)).await;
    assert!(matches!(refused, Err(DeskError::NotConfirmed { .. })), "{refused:?}");
    let refused = desk.apply_books(&apply(None, true)).await;
    assert!(matches!(refused, Err(DeskError::Overtaken { version: 1, .. })), "{refused:?}");
    assert_eq!(world.count("select count(*) from fis_books").await, 1);
    let done = desk.apply_books(&apply(Some(1), true)).await.unwrap();
    assert_eq!((done.version, done.applied), (Some(2), true));
    assert_eq!(desk.books(&TenantId::parse("acme").unwrap(), None).await.unwrap().applied_by, "anna");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_entry_is_told_as_in_the_list() {
    let world = World::new("desk_entry").await;
    world.publish(&[order("one"), order("two")]).await;
    world.fis(&["run", "--once"]).await.expect(0, &[]);
    world.fis(&["revert", "--tenant", "acme", "1", "--why", "a test", "--yes"]).await.expect(0, &[]);
    let listed = world.fis(&["journal", "--tenant", "acme", "--json"]).await.expect(0, &[]).json();
    let (desk, acme) = (desk(&world).await, TenantId::parse("acme").unwrap());
    for (place, sequence) in (1..=3).enumerate() {
        let entry = desk.entry(&acme, sequence).await.unwrap();
        assert_eq!(serde_json::to_value(&entry).unwrap(), listed["entries"][place]);
    }
    assert!(matches!(desk.entry(&acme, 4).await, Err(DeskError::NotFound { what: "entry", .. })));
    let nobody = TenantId::parse("nobody").unwrap();
    assert!(matches!(desk.entry(&nobody, 1).await, Err(DeskError::NoTenant { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resend_stays_within_the_ledger_and_out_of_the_lanes() {
    let world = World::new("desk_resend").await;
    world.publish(&[order("one")]).await;
    world.fis(&["run", "--once"]).await.expect(0, &[]);
    let desk = desk(&world).await;
    for (from, to) in [(0, 1), (2, 1), (1, 2)] {
        let tenant = TenantId::parse("acme").unwrap();
        let request = Resend { operator: anna(), tenant, from, to, queue: None };
        assert!(desk.resend(&request, &mut |_| {}).await.is_err(), "{from} {to}");
    }
    for queue in ["", "fis.ingestion.queue", "fis.ingestion.dlq.queue"] {
        assert!(ReaderQueue::parse(queue).is_err(), "{queue}");
    }
}
