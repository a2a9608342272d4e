//! Reading: the ledger is proven, by hashes and sums (`audit`) and by what was received (`tie_out`). Nothing is written here.

pub mod audit;
pub mod tie_out;
