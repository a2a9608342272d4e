//! The terminal of somebody who watches a replay: a bar, Ctrl-C, and the report at the end. The service does the work, so leaving changes
//! nothing: a signal alone never pauses or stops a replay.

use std::io::{IsTerminal, Write};
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{as_in, plural};
use crate::cli::{print_json, printable_within};
use crate::desk::letters::{End, PauseReplay, Progress, ReplayReport, StopReplay, Watch};
use crate::desk::{Desk, DeskError};
use crate::domain::operator::Operator;

/// The manner in which an outcome is waited for and told.
#[derive(clap::Args)]
pub struct Following {
    /// Do not wait for the outcome
    #[arg(long)]
    no_wait: bool,
    /// Stop waiting when no letter was decided for so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = PATIENCE, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    patience: u64,
    #[arg(long)]
    pub json: bool,
}

/// Seconds without a move after which waiting ends.
const PATIENCE: u64 = 60;
/// Characters of a note; an operator's name and reason fit.
const NOTE_MAX: usize = 800;

impl Default for Following {
    fn default() -> Self {
        Self { no_wait: false, patience: PATIENCE, json: false }
    }
}

type Reported = Result<ReplayReport, DeskError>;

impl Following {
    /// Does an act that ends in watching a replay, with a bar at the terminal. SIGTERM leaves the replay running; Ctrl-C asks first where
    /// somebody can answer.
    pub async fn watched(
        &self,
        desk: &Desk,
        operator: &Operator,
        act: impl AsyncFnOnce(&Watch<'_>) -> Reported,
    ) -> anyhow::Result<Reported> {
        let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        let (leave, bar) = (CancellationToken::new(), bar());
        let progress = |now: &Progress| show(&bar, now);
        let patience = Duration::from_secs(self.patience);
        let watch = Watch { wait: !self.no_wait, patience, leave: leave.clone(), progress: &progress };
        let mut interrupted = false;
        let reported = {
            // The act is polled to its end, whatever comes: it may be in the middle of a transaction.
            let mut act = pin!(act(&watch));
            loop {
                tokio::select! {
                    reported = &mut act => break reported,
                    _ = interrupt.recv() => interrupted = true,
                    _ = terminate.recv() => {}
                }
                leave.cancel();
            }
        };
        bar.finish_and_clear();
        let report = match reported {
            Ok(report) if interrupted && report.end == End::LeftRunning => report,
            reported => return Ok(reported),
        };
        let replay_id = report.replay_id;
        let operator = Operator::new(operator.by(), "interrupted at the terminal", operator.through())?;
        let acted = match choose(&mut interrupt).await? {
            Choice::Leave => return Ok(Ok(report)),
            Choice::Pause => desk.pause_replay(&PauseReplay { replay_id, operator }).await,
            Choice::Stop => desk.stop_replay(&StopReplay { replay_id, confirmed: true, operator }).await,
        };
        Ok(match acted {
            // It ended while the question stood there.
            Err(DeskError::Refused { .. }) => desk.watch_replay(replay_id, &watch).await,
            acted => acted,
        })
    }
}

/// The wish of somebody who has pressed Ctrl-C.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    Leave,
    Pause,
    Stop,
}

impl Choice {
    /// Only a clear word changes anything.
    fn read(answer: &str) -> Self {
        match answer.trim().to_lowercase().as_str() {
            "p" | "pause" => Self::Pause,
            "s" | "stop" => Self::Stop,
            _ => Self::Leave,
        }
    }
}

/// Asks what is to become of the replay. A second Ctrl-C, the end of the input, or nobody at a terminal: it is left running.
async fn choose(interrupt: &mut Signal) -> anyhow::Result<Choice> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Ok(Choice::Leave);
    }
    eprint!("\n[l]eave it running, [p]ause or [s]top it? ");
    std::io::stderr().flush()?;
    let (told, answer) = oneshot::channel();
    // A thread of its own, which the process does not wait for: nobody can take a read of the terminal back.
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = std::io::stdin().read_line(&mut line);
        let _ = told.send(read.map_or(String::new(), |_| line));
    });
    let answer = tokio::select! {
        line = answer => line.unwrap_or_default(),
        _ = interrupt.recv() => String::new(),
    };
    if answer.is_empty() {
        eprintln!();
    }
    Ok(Choice::read(&answer))
}

/// Tells how a replay went. Exit 0: it is done and nothing failed again, or it goes on by itself. Exit 1: something failed again, it is
/// paused or stopped, or nothing moves.
pub fn tell(report: &ReplayReport, json: bool) -> anyhow::Result<ExitCode> {
    if json {
        print_json(report)?;
    } else {
        print!("{}", text(report));
    }
    Ok(if report.is_well() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The text of a report: what is where, and which commands go on.
fn text(report: &ReplayReport) -> String {
    let ReplayReport { replay_id: id, progress, failures, .. } = report;
    let Progress { selected, left, skipped, resolved, failed, held, .. } = *progress;
    let mut text = format!("replay {id}: {resolved} of {} resolved\n", plural(selected, "dead letter"));
    let rows = [
        (failed, "parked again"),
        (held, "held: tried again by themselves"),
        (skipped, "skipped: not parked any more when their turn came"),
        (left, "not decided yet: still parked"),
    ];
    for (count, what) in rows.into_iter().filter(|(count, _)| *count > 0) {
        text.push_str(&format!("{count:>10}  {what}\n"));
    }
    for failed in failures {
        text.push_str(&format!("{:>10}  {}\n", failed.letters, as_in(&failed.reason, &failed.detail)));
    }
    text.push_str(&ending(report));
    text
}

fn ending(report: &ReplayReport) -> String {
    let (id, left) = (report.replay_id, report.progress.left);
    let note = report.note.as_deref().map(|note| format!(": {}", printable_within(note, NOTE_MAX))).unwrap_or_default();
    let commands = format!(
        "`fis dlq replays` says how far it is; `fis dlq replay --pause {id}` pauses it,\n`fis dlq replay --stop {id}` stops it\n"
    );
    match report.end {
        End::Done => String::new(),
        End::Paused => {
            let limit = match report.is_at_its_limit() {
                true => format!(" --max-failures {}", report.progress.failed),
                false => String::new(),
            };
            format!(
                "paused{note}\ngo on with `fis dlq replay --resume {id}{limit}`,\nor give it up with `fis dlq replay --stop {id}`\n"
            )
        }
        End::Stopped => format!("stopped{note}\n"),
        End::NoService => {
            let letters = plural(left, "letter");
            let are = if left == 1 { "is" } else { "are" };
            format!(
                "No fis service is running. The {letters} {are} safe; the replay continues when `fis run` starts.\n{commands}"
            )
        }
        End::LeftRunning => format!("left running: the service goes on with it\n{commands}"),
        End::Silence => format!("stopped watching: nothing moves; is `fis run` well?\n{commands}"),
    }
}

fn bar() -> indicatif::ProgressBar {
    if !std::io::stderr().is_terminal() {
        return indicatif::ProgressBar::hidden();
    }
    let bar = indicatif::ProgressBar::new(0);
    let style = indicatif::ProgressStyle::with_template("{bar:24} {pos}/{len} {msg} {eta}");
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar
}

fn show(bar: &indicatif::ProgressBar, now: &Progress) {
    bar.set_length(u64::try_from(now.selected).unwrap_or(0));
    bar.set_position(u64::try_from(now.decided).unwrap_or(0));
    let held = if now.held > 0 { format!(", {} held", now.held) } else { String::new() };
    bar.set_message(format!("{} posted, {} failed{held}, {} left", now.resolved, now.failed, now.left));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::letter::ReplayState;

    fn report(end: End, note: Option<&str>, progress: Progress) -> ReplayReport {
        ReplayReport {
            replay_id: 7,
            end,
            state: ReplayState::Running,
            note: note.map(ToOwned::to_owned),
            max_failures: Some(0),
            progress,
            failures: Vec::new(),
        }
    }

    #[test]
    fn a_report_says_what_is_where_and_which_commands_go_on() {
        let done = Progress { selected: 12, decided: 12, resolved: 12, ..Progress::default() };
        assert_eq!(text(&report(End::Done, None, done)), "replay 7: 12 of 12 dead letters resolved\n");
        let half = Progress { selected: 12, decided: 4, left: 8, skipped: 1, resolved: 1, failed: 1, held: 1 };
        let paused = text(&report(End::Paused, Some("by anna (\u{1b}[2J)"), half));
        for line in [
            "replay 7: 1 of 12 dead letters resolved\n",
            "         1  parked again\n",
            "         1  held: tried again by themselves\n",
            "         1  skipped: not parked any more when their turn came\n",
            "         8  not decided yet: still parked\n",
            "paused: by anna (\\u{1b}[2J)\n",
            "`fis dlq replay --resume 7 --max-failures 1`",
            "`fis dlq replay --stop 7`",
        ] {
            assert!(paused.contains(line), "{line:?} is not in {paused:?}");
        }
        let waits = text(&report(End::NoService, None, half));
        let sentence =
            "No fis service is running. The 8 letters are safe; the replay continues when `fis run` starts.\n";
        assert!(waits.contains(sentence), "{waits}");
    }

    #[test]
    fn only_a_clear_word_pauses_or_stops() {
        for (answer, choice) in [
            ("p\n", Choice::Pause),
            ("Stop\n", Choice::Stop),
            ("l\n", Choice::Leave),
            ("", Choice::Leave),
            ("x", Choice::Leave),
        ] {
            assert_eq!(Choice::read(answer), choice, "{answer:?}");
        }
    }
}
