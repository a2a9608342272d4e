//! `fis_replay` and `fis_replay_letter`: frozen selections and how far each is sent. A filter becomes numbered places, a place is sent or
//! skipped once; the selection itself never changes. `write` is the one file that writes them.

mod read;
mod write;

pub use read::{
    Places, Replay, ReplayLine, Turn, TurnLetter, Unresolved, find, lock_turns, money, newest, places, unresolved,
};
pub use write::{
    Border, ReplayPace, Sending, analyze, begin_selection, forget_selections, forget_waiting, freeze_edited,
    freeze_part, insert, send, set_letters, set_state, skip_waiting, withdraw,
};
