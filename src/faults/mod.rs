//! Faults made on purpose, for tests alone: places where the process may be killed, and bugs that the storm must catch. A release holds
//! nothing of them.

pub mod crash_points;
pub mod mutants;
