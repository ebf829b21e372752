//! Time, sockets and what the driver itself uses.

pub(crate) mod calls;
pub mod clock;
pub mod process;
pub(crate) mod reactor;
pub(crate) mod stream;
pub mod timer;
pub(crate) mod waiting;
