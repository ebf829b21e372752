//! What does a pgbench script do, command by command?
//!
//! A script's text is parsed ([`parse`]), compiled together with the other scripts of a run
//! ([`Programs`]), and stepped through by each client ([`Client::step`]).  The caller sends the
//! statements, waits, and runs the shell's commands: this crate has no sockets, clocks or files.
//!
//! ```
//! use std::sync::Arc;
//! use pgbench_script::{Client, Generator, Programs, Protocol, Step};
//!
//! let mut programs = Programs::new(Protocol::Simple);
//! programs.add("twice", "\\set x 21\nSELECT :x * 2;")?;
//! let programs = Arc::new(programs);
//! let mut client = Client::new(Arc::clone(&programs), Generator::new(1), false);
//! client.begin(0);
//! let Ok(Step::Sql(number)) = client.step(&mut |_| {}) else { panic!("a statement") };
//! let mut text = String::new();
//! programs.statements()[number].write_text(&client.variables, &mut text);
//! assert_eq!(text, "SELECT 21 * 2;");
//! # Ok::<(), pgbench_script::ScriptError>(())
//! ```

mod builtin;
mod client;
mod command;
mod error;
mod eval;
mod expr;
mod hash;
mod meta;
mod parser;
mod program;
mod random;
mod script;
mod shell;
mod sql;
mod statement;
mod token;
mod value;
mod variables;
mod weights;

pub use builtin::{BUILTINS, Builtin, builtin};
pub use client::{Client, OnDebug, Step};
pub use command::{Action, Command, ResultKind, Results, Script, Sleep, SleepAmount};
pub use error::{RunError, ScriptError};
pub use expr::{Expr, Function};
pub use parser::parse_expression;
pub use program::Programs;
pub use random::Generator;
pub use script::parse;
pub use shell::Shell;
pub use statement::{Protocol, Statement};
pub use token::is_variable_name;
pub use value::Value;
pub use variables::{Slot, Variables};
pub use weights::{Choice, Deck, split_weight};
