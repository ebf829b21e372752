//! Which commands does a script consist of?

use crate::expr::Expr;

/// A script's commands, in their order, with conditions that are balanced.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    /// The commands; there is at least one.
    pub commands: Vec<Command>,
}

/// One command and its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Command {
    /// The line on which it starts, from 1.
    pub line: usize,
    /// The column at which it starts, from 1.
    pub column: usize,
    /// What it does.
    pub action: Action,
}

/// What a command does.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Sends SQL.
    Sql {
        /// The text with its variables.
        text: String,
        /// What becomes of the rows.
        results: Option<Results>,
    },
    /// `\set`
    Set {
        /// The variable.
        name: String,
        /// Its new value.
        value: Expr,
    },
    /// `\sleep`
    Sleep(Sleep),
    /// `\shell`, with the words of its command.
    Shell(Vec<String>),
    /// `\setshell`
    SetShell {
        /// The variable.
        name: String,
        /// The words of the command that prints its value.
        words: Vec<String>,
    },
    /// `\if`
    If(Expr),
    /// `\elif`
    Elif(Expr),
    /// `\else`
    Else,
    /// `\endif`
    EndIf,
    /// `\startpipeline`
    StartPipeline,
    /// `\syncpipeline`
    SyncPipeline,
    /// `\endpipeline`
    EndPipeline,
}

/// Which rows become variables, and with what in front of the columns' names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Results {
    /// Which of several combined queries count.
    pub kind: ResultKind,
    /// What is put before each column's name.
    pub prefix: String,
}

/// Which of the queries that were combined with `\;` assign their columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultKind {
    /// `\gset`: the last one, which has exactly one row.
    Last,
    /// `\aset`: each one that has rows, with its last row.
    Each,
}

/// How long `\sleep` waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sleep {
    /// A number as text, or a variable.
    pub amount: SleepAmount,
    /// How many microseconds one of it is.
    pub unit_us: u64,
}

/// The number of a `\sleep`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SleepAmount {
    /// A number.
    Fixed(i64),
    /// The value of the named variable.
    Variable(String),
}

/// What a meta command is: a command of its own, or a part of the SQL before it.
pub(crate) enum Meta {
    Action(Action),
    Results(Results),
}
