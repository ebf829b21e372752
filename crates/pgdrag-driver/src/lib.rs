//! How many transactions does a PostgreSQL server manage under a given load, and how did each end?
//!
//! The driver takes one JSON job and answers in JSON lines (`docs/reference/driver-contract.md`).

#![allow(async_fn_in_trait)]

pub mod connection;
pub mod error;
mod exchange;
pub mod job;
mod session;
mod stream;
pub mod target;
pub mod values;
pub mod workload;
