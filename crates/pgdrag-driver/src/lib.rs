//! How many transactions does a PostgreSQL server manage under a given load, and how did each end?
//!
//! The driver takes one JSON job and answers in JSON lines (`docs/reference/driver-contract.md`).
//! In the order in which a job goes through it:
//!
//! - [`job`], [`app`]: what is asked for, and who does it
//! - [`run`](mod@run), [`window`], [`pacing`], [`samples`], [`output`]: the coordinator, when to begin and end,
//!   when transactions arrive, what is counted, and what is told
//! - `worker`, `clients`: the threads, and what each client does
//! - [`workload`], [`tpcc`]: what the transactions are
//! - [`connection`], [`statement`], [`flight`], [`answers`], [`values`], [`target`], [`error`]: one
//!   session with the server

#![allow(async_fn_in_trait)]

pub mod answers;
pub mod app;
mod clients;
pub mod connection;
mod copy_in;
pub mod error;
mod exchange;
pub mod flight;
pub mod job;
pub mod output;
pub mod pacing;
pub mod process;
pub mod run;
pub mod samples;
mod session;
pub mod statement;
mod stream;
pub mod target;
pub mod tpcc;
pub mod values;
pub mod window;
mod worker;
pub mod workload;
