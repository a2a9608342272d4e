//! The lay-by: dead letters leave the broker's queue and rest in `fis_dead_letter`, where an admin can look at them without
//! spending delivery counts. Insert, commit, acknowledge: a crash in between delivers again what is there already.

mod park;
pub mod read;
mod statements;
mod tell;

pub use park::{DEAD_LETTER_QUEUE, Parking, letter_id};
pub use tell::PropertiesText;
