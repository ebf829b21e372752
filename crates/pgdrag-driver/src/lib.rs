//! How many transactions does a PostgreSQL server manage under a given load, and how did each end?
//!
//! The driver takes one JSON job and answers in JSON lines (`docs/reference/driver-contract.md`).
//!
//! - [`app`], [`job`], [`output`], [`watch`](mod@watch): what is asked for, who does it, and the lines that answer
//! - [`load`]: a run's coordinator and threads, when transactions are due, and what is counted
//! - [`workload`], [`tpcc`], [`script`]: what the transactions are, and the tables that they need
//! - [`session`], [`error`]: one session with the server
//! - [`tls`]: sessions that are encrypted
//! - [`io`]: time, sockets, and what the driver itself uses

#![allow(async_fn_in_trait)]

pub mod app;
pub mod error;
pub mod io;
pub mod job;
pub mod load;
pub mod output;
pub mod script;
pub mod session;
pub mod tls;
pub mod tpcc;
pub mod watch;
pub mod workload;
