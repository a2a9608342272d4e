//! The lay-by: dead letters leave the broker's queue and rest in `fis_dead_letter`, where an admin can look at them without
//! spending delivery counts, and from where they are replayed, mended or given up. Insert, commit, acknowledge: a crash in between delivers
//! again what is there already.

pub mod audit;
mod letter;
pub mod mend;
mod park;
pub mod replay;
pub mod seal;
pub mod selection;

pub use letter::{EventFacts, correlation_id, dead_letter, imagined, letter_id, own_message_id, storable, traceparent};
pub use park::{Parking, TenantDay};
