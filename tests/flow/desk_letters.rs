//! The desk's own promises about dead letters: a hand that does not ask, or asks for what was not seen, is refused, and nothing is
//! done. The command line is no part of these tests.

use fis::desk::letters::{
    ChooseLetters, DiscardLetters, EditLetters, End, Filter, PauseReplay, PruneLetters, ReplayPace, ResumeReplay,
    StartReplay, StopReplay, Watch,
};
use fis::desk::{Desk, DeskError};
use fis::domain::operator::{Operator, Through};
use fis::platform::config::Config;

use crate::support::events::{Message, payment};
use crate::support::wait::{same, wait_until};
use crate::support::world::World;

const PARKED: &str = "select count(*) from fis_dead_letter where status = 'parked'";

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
async fn no_letter_is_discarded_without_a_confirmation() {
    let world = World::new("desk_discard").await;
    let mut run = world.run().await;
    let desk = park(&world, &[&["1.00"; 100][..], &["10000.01"]].concat()).await;
    let discard = async |filter: Filter, all: bool, expected: i64, confirmed: bool, why: &str| {
        desk.discard_letters(&DiscardLetters { filter, all, expected, confirmed, operator: anna(why) }).await
    };
    let dear = Filter { amount_min: Some("10000".parse().unwrap()), ..Filter::default() };
    assert_eq!(desk.letters_to_discard(&dear, false).await.unwrap().letters, 1);
    assert_eq!(desk.letters_to_discard(&Filter::default(), true).await.unwrap().letters, 101);
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
    assert_eq!(world.count(PARKED).await, 101, "nothing of this did anything");

    let cheap = Filter { amount_max: Some("1".parse().unwrap()), ..Filter::default() };
    assert_eq!(discard(cheap, false, 100, true, "x").await.unwrap().discarded, 100);
    let before = fis::platform::time::now() + chrono::TimeDelta::days(1);
    let prune = |confirmed| PruneLetters { before, confirmed, operator: anna("x") };
    assert!(matches!(desk.prune_letters(&prune(false)).await, Err(DeskError::NotConfirmed { .. })));
    assert_eq!(desk.prune_letters(&prune(true)).await.unwrap().pruned, 100);
    assert_eq!(world.count(PARKED).await, 1);
    run.terminate().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_confirmed_never_runs() {
    let world = World::new("desk_replay").await;
    let mut run = world.run().await;
    let desk = park(&world, &["1.00", "2.00"]).await;
    run.terminate().await;
    let watch = watch();
    assert!(matches!(desk.choose_letters(&choose(false, None)).await, Err(DeskError::Invalid { .. })), "which?");
    assert!(matches!(desk.choose_letters(&choose(true, Some(0))).await, Err(DeskError::Invalid { .. })), "never");
    let replay_id = desk.choose_letters(&choose(true, None)).await.unwrap().replay_id;
    let start = |replay_id, confirmed| StartReplay { replay_id, confirmed, operator: anna("x") };
    let refused = desk.start_replay(&start(replay_id, false), &watch).await;
    assert!(matches!(refused, Err(DeskError::NotConfirmed { .. })));
    let again = desk.start_replay(&start(replay_id, true), &watch).await;
    assert!(matches!(again, Err(DeskError::Refused { .. })), "it is stopped");
    let missing = desk.start_replay(&start(replay_id + 7, true), &watch).await;
    assert!(matches!(missing, Err(DeskError::NotFound { .. })));
    assert_eq!(
        world.count("select count(*) from fis_replay where state = 'stopped' and ended_at is not null").await,
        1
    );
    assert_eq!(world.count("select count(*) from fis_replay_letter").await, 0);

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
    assert_eq!(world.count("select count(*) from fis_replay").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_moves_only_from_the_state_that_it_is_in() {
    let world = World::new("desk_states").await;
    let mut run = world.run().await;
    let desk = park(&world, &["1.00", "2.00"]).await;
    run.terminate().await;
    let watch = watch();
    let replay_id = desk.choose_letters(&choose(true, None)).await.unwrap().replay_id;
    let pause = PauseReplay { replay_id, operator: anna("x") };
    let resume = |rate| {
        let manner = ReplayPace { rate, ..ReplayPace::default() };
        ResumeReplay { replay_id, manner, operator: anna("x") }
    };
    let stop = |confirmed| StopReplay { replay_id, confirmed, operator: anna("x") };
    assert!(matches!(desk.pause_replay(&pause).await, Err(DeskError::Refused { .. })), "it does not run yet");
    assert!(matches!(desk.resume_replay(&resume(None), &watch).await, Err(DeskError::Refused { .. })));

    let start = StartReplay { replay_id, confirmed: true, operator: anna("x") };
    let report = desk.start_replay(&start, &watch).await.unwrap();
    assert!(matches!(report.end, End::NoService | End::LeftRunning), "{report:?}");
    assert_eq!((report.progress.selected, report.progress.left, report.is_well()), (2, 2, true));
    assert!(matches!(desk.start_replay(&start, &watch).await, Err(DeskError::Refused { .. })), "once");
    assert!(desk.resume_replay(&resume(None), &watch).await.is_ok(), "it runs, and is only watched");
    assert!(matches!(desk.resume_replay(&resume(Some(7)), &watch).await, Err(DeskError::Refused { .. })));

    let paused = desk.pause_replay(&pause).await.unwrap();
    assert_eq!((paused.end, paused.note.as_deref()), (End::Paused, Some("by anna (x)")));
    assert!(matches!(desk.pause_replay(&pause).await, Err(DeskError::Refused { .. })));
    assert!(desk.resume_replay(&resume(Some(7)), &watch).await.is_ok());
    assert_eq!(world.count("select rate::bigint from fis_replay where state = 'running' and note is null").await, 7);
    assert!(matches!(desk.stop_replay(&stop(false)).await, Err(DeskError::NotConfirmed { .. })));
    assert_eq!(desk.stop_replay(&stop(true)).await.unwrap().end, End::Stopped);
    assert!(matches!(desk.stop_replay(&stop(true)).await, Err(DeskError::Refused { .. })));
    let acts =
        "select count(*) from fis_operator_log where by = 'anna' and letter_id is null and replay_id is not null";
    assert_eq!(world.count(acts).await, 4, "start, pause, resume, stop, and no act that was refused");
    assert_eq!(world.count(PARKED).await, 2);
}

/// A copy of a letter that is not parked any more is not stored: the record has no edit that was never replayed.
#[tokio::test(flavor = "multi_thread")]
async fn an_edit_replays_only_what_is_parked() {
    let world = World::new("desk_edit").await;
    let mut run = world.run().await;
    let desk = park(&world, &["1.00", "2.00"]).await;
    run.terminate().await;
    let letters = desk.letters_to_edit(&of_currency("EUR")).await.unwrap();
    let drafts = || {
        let draft = |whole: &fis::desk::letters::WholeLetter| {
            desk.draft_edit(whole, whole.body.text().unwrap().replace("9999", "4000").into_bytes()).unwrap()
        };
        letters.iter().map(draft).collect::<Vec<_>>()
    };
    let edit = async || desk.edit_letters(EditLetters { drafts: drafts(), confirmed: true, operator: anna("x") }).await;
    let discard = "update fis_dead_letter set status = 'discarded', settled_at = now() where event_id = ";
    sqlx::raw_sql(&format!("{discard} 'd-0'")).execute(&world.pool).await.unwrap();
    let edited = edit().await.unwrap();
    assert_eq!((edited.letters, edited.left_out), (1, 1));
    let running = "select count(*) from fis_replay r join fis_replay_letter l on l.replay_id = r.id
                    where r.state = 'running' and r.letters = 1 and l.n = 1 and l.edit_no = 1";
    assert_eq!(world.count(running).await, 1);
    sqlx::raw_sql(&format!("{discard} 'd-1'")).execute(&world.pool).await.unwrap();
    assert!(matches!(edit().await, Err(DeskError::Changed { .. })));
    assert_eq!(world.count("select count(*) from fis_dead_letter_edit").await, 1);
    assert_eq!(world.count("select count(*) from fis_replay").await, 1);
}

/// An eye that has seen enough at once.
fn watch() -> Watch<'static> {
    Watch {
        wait: false,
        patience: std::time::Duration::from_secs(1),
        leave: tokio_util::sync::CancellationToken::new(),
        progress: &|_| {},
    }
}

fn choose(all: bool, rate: Option<i32>) -> ChooseLetters {
    let manner = ReplayPace { rate, ..ReplayPace::default() };
    ChooseLetters { filter: Filter::default(), all, manner, operator: anna("x") }
}
