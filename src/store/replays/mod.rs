//! `fis_replay` and `fis_replay_letter`: frozen selections, and how far the service is with each. A filter becomes numbered places; the
//! selection itself never changes. Whoever acts on a replay moves its state here, under the lock of its row.

mod read;
pub mod step;
mod write;

pub use read::{Progress, Replay, ReplayLine, Watched, find, money, newest, progress};
pub use write::{
    Border, ReplayPace, StepVerdicts, advance, analyze, begin_selection, count_death, count_failed, forget_places,
    forget_selections, freeze_edited, freeze_part, insert, pause, resume, set_letters, start, stop,
};
