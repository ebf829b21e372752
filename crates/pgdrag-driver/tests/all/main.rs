//! All tests that ask for no process of their own: one program is linked in the time of each of many.

mod allocations;
mod command;
mod connection;
mod engine;
mod flight;
mod lying_server;
mod pgbench_conformance;
mod pgbench_tables;
mod scripts;
mod sums;
mod support;
mod tls;
mod tpcc;
mod watch;
