//! The lay-by: dead letters leave the broker's queue and rest in `fis_dead_letter`, where an admin can look at them without
//! spending delivery counts. Insert, commit, acknowledge: a crash in between delivers again what is there already.

pub mod filter;
pub mod follow;
pub mod mend;
pub mod overview;
mod park;
pub mod read;
pub mod replay;
pub mod selection;
mod statements;
mod tell;

pub use park::{DEAD_LETTER_QUEUE, Parking, TenantDay, letter_id};
pub use tell::PropertiesText;
