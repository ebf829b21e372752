//! A run: its coordinator and threads, when transactions are due, and what is counted.

pub mod caller;
pub(crate) mod canceller;
pub(crate) mod clients;
pub(crate) mod connecting;
pub(crate) mod crew;
pub(crate) mod crowd;
pub(crate) mod intervals;
pub mod pacing;
pub mod run;
pub mod samples;
pub mod schedule;
pub mod shares;
pub mod steps;
pub(crate) mod tally;
pub mod window;
pub(crate) mod worker;
