//! One session with the server: statements are prepared once and then run, one round trip each.
//!
//! BEGIN costs no round trip of its own: it travels with the first statement of its transaction. A
//! future that is dropped leaves its connection in the middle of an answer; the connection then
//! refuses further work and must be dropped, too.

pub mod answers;
pub mod connection;
pub(crate) mod copy_in;
pub(crate) mod copy_rows;
pub(crate) mod exchange;
pub mod flight;
pub(crate) mod gathering;
pub(crate) mod link;
pub(crate) mod login;
pub(crate) mod looking;
pub(crate) mod room;
pub(crate) mod startup;
pub mod statement;
pub mod target;
pub mod trust;
pub mod values;

pub use self::answers::{Answer, Answers};
pub use self::connection::{Connection, connect_within};
pub use self::copy_in::CopyIn;
pub use self::flight::{Flight, TextRow};
pub(crate) use self::gathering::round_trips;
pub use self::statement::{Protocol, Statement};
pub use self::target::{CancelToken, Target};
pub use self::trust::{AuthMethod, ChannelBinding, Trust};
pub use self::values::{Params, Row, Rows};
