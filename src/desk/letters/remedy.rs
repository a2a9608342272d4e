//! The cause of a letter in a sentence, and the commands that would mend it. A letter enters; both leave, made from the one table
//! over the reasons (`domain::disposition`) and the letter's state.

use crate::domain::disposition::{NextStep, Reason};
use crate::domain::event::DAMAGED;
use crate::domain::names::UNREADABLE_HEADER;
use crate::platform::amqp::Properties;
use crate::store::dead_letters::{Letter, Whole};

/// The mark of a message that is not stored as it came, and so can never be booked from here.
pub(super) fn mark(properties: &str) -> Option<String> {
    match Properties::from_text(properties) {
        Some(properties) => properties.header(UNREADABLE_HEADER).map(ToOwned::to_owned),
        None => Some(DAMAGED.to_owned()),
    }
}

/// The nearest cause in a sentence, and the commands that would mend it.
pub(super) fn remedy(whole: &Whole) -> (String, Vec<String>) {
    let letter = &whole.letter;
    match letter.status.as_str() {
        "resolved" => return ("It is settled; nothing is to be done.".to_owned(), Vec::new()),
        "discarded" => {
            let cause = "It was given up; if it comes again it is parked again.";
            return (cause.to_owned(), vec![format!("fis dlq restore {} --why WHY", letter.id)]);
        }
        "replaying" => {
            let cause = "Its turn in a running replay comes, or its event is held and comes back by itself.";
            return (cause.to_owned(), vec!["fis dlq replays".to_owned(), "fis held list".to_owned()]);
        }
        _ => {}
    }
    match Reason::from_code(&letter.reason) {
        Some(reason) if mark(&whole.properties).is_some() => {
            let cause = "What is left of the message cannot be booked: its publisher has to send the event anew.";
            let discard = format!("fis dlq discard {} --why WHY", letter.id);
            (format!("{}: {}. {cause}", reason.code(), reason.advice()), vec![discard])
        }
        Some(reason) => (format!("{}: {}.", reason.code(), reason.advice()), commands(reason.next_step(), letter)),
        None => (format!("This program does not know the reason `{}`.", letter.reason), Vec::new()),
    }
}

fn commands(step: NextStep, letter: &Letter) -> Vec<String> {
    let (id, group) = (&letter.id, &letter.group_id);
    let tenant = letter.tenant_id.as_deref().unwrap_or("TENANT");
    let replay = || format!("fis dlq replay --group {group} --dry-run");
    let books = || vec![format!("fis books show --tenant {tenant}"), "fis books apply FILE".to_owned(), replay()];
    let edit = |set: &str| vec![format!("fis dlq edit {id} --why WHY{set}")];
    match step {
        NextStep::ApplyBooks => books(),
        NextStep::ApplyBooksOrMendEvent => [books(), edit("")].concat(),
        NextStep::MendBody => edit(" --body FILE"),
        NextStep::MendField => edit(" --set /FIELD=VALUE"),
        NextStep::AskPublisher | NextStep::Discard => vec![format!("fis dlq discard {id} --why WHY")],
        NextStep::Wait | NextStep::TryAgain => vec![replay()],
        NextStep::InspectAlone => vec![format!("fis dlq replay {id} --dry-run")],
    }
}
