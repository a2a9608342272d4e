//! The desk's own promises about dead letters: a hand that does not ask, or asks for what was not seen, is refused, and nothing is
//! done. The command line is no part of these tests.

use fis::desk::letters::{
    ChooseLetters, DiscardLetters, EditLetters, Filter, PruneLetters, ReleaseReplay, ReplayPace, StartReplay, Watch,
};
use fis::desk::{Desk, DeskError};
use fis::domain::operator::{Operator, Through};
use fis::platform::config::Config;

use crate::support::events::{Message, payment};
use crate::support::wait::{same, wait_until};
use crate::support::world::World;

const PARKED: &str = "select count(*) from fis_dead_letter where status = 'parked'";
const MANNER: ReplayPace = ReplayPace { canary: false, rate: None, max_failures: None };

/// Payments to an account that no books have.
async fn park(world: &World, amounts: &[&str]) -> Desk {
    let number = |(n, amount): (usize, &&str)| payment(&format!("d-{n}"), "9999", amount).rejected("unknown_account");
    let messages: Vec<Message> = amounts.iter().enumerate().map(number).collect();
    world.publish(&messages).await;
    let expected = i64::try_from(amounts.len()).unwrap();
    wait_until("they are parked", async || same(world.count(PARKED).await, expected)).await;
    Desk::open(&Config::load(None, world.environment().into_iter()).unwrap()).await.unwrap()
}

fn anna(why: &str) -> Operator {
    Operator::new("anna", why, Through::Service).unwrap()
}

fn of_currency(currency: &str) -> Filter {
    Filter { currency: Some(currency.to_owned()), ..Filter::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_or_too_dear_letters_are_not_discarded_without_a_confirmation() {
    let world = World::new("desk_discard").await;
    let mut run = world.run().await;
    let desk = park(&world, &[&["1.00"; 100][..], &["10000.01"]].concat()).await;
    let discard = async |filter: Filter, all: bool, expected: i64, confirmed: bool, why: &str| {
        desk.discard_letters(&DiscardLetters { filter, all, expected, confirmed, operator: anna(why) }).await
    };
    let dear = Filter { amount_min: Some("10000".parse().unwrap()), ..Filter::default() };
    let seen = desk.letters_to_discard(&dear, false).await.unwrap();
    assert_eq!((seen.letters, seen.needs_confirmation), (1, true), "too dear");
    let seen = desk.letters_to_discard(&Filter::default(), true).await.unwrap();
    assert_eq!((seen.letters, seen.needs_confirmation), (101, true), "too many");
    assert!(matches!(discard(dear, false, 1, false, "x").await, Err(DeskError::NotConfirmed { .. })));
    assert!(matches!(discard(Filter::default(), true, 101, false, "x").await, Err(DeskError::NotConfirmed { .. })));
    assert!(
        matches!(discard(Filter::default(), false, 101, true, "x").await, Err(DeskError::Invalid { .. })),
        "which?"
    );
    assert!(matches!(discard(Filter::default(), true, 101, true, " ").await, Err(DeskError::Invalid { .. })), "why?");
    assert!(
        matches!(discard(Filter::default(), true, 100, true, "x").await, Err(DeskError::Changed { .. })),
        "not seen"
    );
    assert!(
        matches!(discard(of_currency("EUR"), false, 7, false, "x").await, Err(DeskError::Changed { .. })),
        "not seen"
    );
    assert_eq!(world.count(PARKED).await, 101, "nothing of this did anything");

    let cheap = Filter { amount_max: Some("1".parse().unwrap()), ..Filter::default() };
    assert_eq!(discard(cheap, false, 100, false, "x").await.unwrap().discarded, 100, "few and cheap enough");
    let before = fis::platform::time::now() + chrono::TimeDelta::days(1);
    let prune = |confirmed| PruneLetters { before, confirmed, operator: anna("x") };
    assert!(matches!(desk.prune_letters(&prune(false)).await, Err(DeskError::NotConfirmed { .. })));
    assert_eq!(desk.prune_letters(&prune(true)).await.unwrap().pruned, 100);
    assert_eq!(world.count(PARKED).await, 1);
    run.terminate().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_confirmed_is_not_sent() {
    let world = World::new("desk_replay").await;
    let mut run = world.run().await;
    let desk = park(&world, &["1.00", "2.00"]).await;
    run.terminate().await;
    let watch = Watch {
        wait: false,
        patience: std::time::Duration::from_secs(1),
        stop: tokio_util::sync::CancellationToken::new(),
        progress: &|_| {},
    };
    let choose = |all, rate| {
        let manner = ReplayPace { rate, ..MANNER };
        ChooseLetters { filter: Filter::default(), all, manner, operator: anna("x") }
    };
    assert!(matches!(desk.choose_letters(&choose(false, None)).await, Err(DeskError::Invalid { .. })), "which?");
    assert!(matches!(desk.choose_letters(&choose(true, Some(0))).await, Err(DeskError::Invalid { .. })), "never");
    let replay_id = desk.choose_letters(&choose(true, None)).await.unwrap().replay_id;
    let start = |replay_id, confirmed| StartReplay { replay_id, confirmed, operator: anna("x") };
    let refused = desk.start_replay(&start(replay_id, false), &watch).await;
    assert!(matches!(refused, Err(DeskError::NotConfirmed { .. })));
    let again = desk.start_replay(&start(replay_id, true), &watch).await;
    assert!(matches!(again, Err(DeskError::Refused { .. })), "it is cancelled");
    let missing = desk.start_replay(&start(replay_id + 7, true), &watch).await;
    assert!(matches!(missing, Err(DeskError::NotFound { .. })));

    let letters = desk.letters_to_edit(&of_currency("EUR")).await.unwrap();
    let edited = |whole: &fis::desk::letters::WholeLetter, from: &str, to: &str| {
        desk.draft_edit(whole, whole.body.text().unwrap().replace(from, to).into_bytes())
    };
    assert!(matches!(edited(&letters[0], "x", "x"), Err(DeskError::Invalid { .. })), "nothing was edited");
    assert!(matches!(edited(&letters[0], "\"d-", "\"e-"), Err(DeskError::Invalid { .. })), "another event");
    for (confirmed, why) in [(false, "x"), (true, "")] {
        let drafts = vec![edited(&letters[0], "9999", "4000").unwrap()];
        let refused = desk.edit_letters(EditLetters { drafts, confirmed, operator: anna(why) }).await;
        assert!(matches!(refused, Err(DeskError::NotConfirmed { .. } | DeskError::Invalid { .. })));
    }
    assert_eq!(world.count(PARKED).await, 2, "nothing of this did anything");

    let replay_id = desk.choose_letters(&choose(true, None)).await.unwrap().replay_id;
    let report = desk.start_replay(&start(replay_id, true), &watch).await.unwrap();
    assert_eq!((report.progress.sent, report.under_way), (2, 2));
    let release = |confirmed| ReleaseReplay { replay_id, confirmed, operator: anna("x") };
    assert!(matches!(desk.release_replay(&release(false)).await, Err(DeskError::NotConfirmed { .. })));
    assert_eq!(world.count(PARKED).await, 0);
    assert_eq!(desk.release_replay(&release(true)).await.unwrap().released, 2);
    assert_eq!(world.count(PARKED).await, 2);
}
