//! How does one speak PostgreSQL's wire protocol, version 3.0, without a socket or a clock?
//!
//! - [`frontend`]: messages from the client, appended to a buffer that the caller sends
//! - [`backend`]: messages from the server, found in a buffer that the caller has filled
//! - [`value`]: binary forms of parameters, results and COPY fields
//! - [`text`]: their text forms
//! - [`numeric`]: NUMERIC as a scaled integer
//! - [`copy`]: rows of a binary COPY
//! - [`auth`]: the answers to the server's requests for a password
//!
//! Nothing here allocates per value: what is read stays in the caller's buffer.

pub mod auth;
pub mod backend;
pub mod copy;
pub mod frontend;
pub mod numeric;
pub mod text;
pub mod value;
