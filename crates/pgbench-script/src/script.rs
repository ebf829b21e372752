//! Which commands does a script consist of?

use crate::error::{ScriptError, error_at};
use crate::expr::Expr;
use crate::meta::{Words, meta_command};
use crate::sql::{Scanner, Stop, without_margins};

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

/// Reads a script's text.
pub fn parse(source: &str) -> Result<Script, ScriptError> {
    if let Some(zero) = source.find('\0') {
        // The protocol ends a text with it.
        return Err(error_at(source, zero, "script contains a zero byte".to_owned()));
    }
    let mut scanner = Scanner::new(source);
    let mut commands: Vec<Command> = Vec::new();
    loop {
        let start = scanner.offset;
        let (text, stop) = scanner.statement();
        push_sql(source, start, &text, &mut commands);
        match stop {
            Stop::Semicolon => {}
            Stop::Backslash => {
                let mut words = Words::new(source, scanner.offset);
                push_meta(source, &mut words, &mut commands)?;
                scanner.offset = words.offset;
            }
            Stop::EndOfText => break,
        }
    }
    if commands.is_empty() {
        return Err(error_at(source, 0, "empty command list".to_owned()));
    }
    check_conditions(source, &commands)?;
    Ok(Script { commands })
}

fn push_sql(source: &str, start: usize, text: &str, commands: &mut Vec<Command>) {
    let text = without_margins(text);
    if text.is_empty() {
        return;
    }
    let rest = &source[start..];
    let margin = rest.len() - without_margins(rest).len();
    let (line, column) = crate::error::place(source, start + margin);
    let action = Action::Sql { text: text.to_owned(), results: None };
    commands.push(Command { line, column, action });
}

fn push_meta(
    source: &str,
    words: &mut Words<'_>,
    commands: &mut Vec<Command>,
) -> Result<(), ScriptError> {
    let backslash = words.offset - 1;
    let (line, column) = crate::error::place(source, backslash);
    match meta_command(words)? {
        None => {}
        Some(Meta::Action(action)) => commands.push(Command { line, column, action }),
        Some(Meta::Results(found)) => {
            let last = commands.last_mut().map(|command| &mut command.action);
            let Some(Action::Sql { results: results @ None, .. }) = last else {
                let message = "\\gset must follow an SQL command".to_owned();
                return Err(ScriptError { line, column, message });
            };
            *results = Some(found);
        }
    }
    Ok(())
}

/// What a meta command is: a command of its own, or a part of the SQL before it.
pub(crate) enum Meta {
    Action(Action),
    Results(Results),
}

fn check_conditions(source: &str, commands: &[Command]) -> Result<(), ScriptError> {
    // For each \if that is open: has it come to its \else?
    let mut open: Vec<bool> = Vec::new();
    for command in commands {
        let problem = match (&command.action, open.last().copied()) {
            (Action::If(_), _) => {
                open.push(false);
                continue;
            }
            (Action::Elif(_), None) => "\\elif without matching \\if",
            (Action::Elif(_), Some(true)) => "\\elif after \\else",
            (Action::Else, None) => "\\else without matching \\if",
            (Action::Else, Some(true)) => "\\else after \\else",
            (Action::Else, Some(false)) => {
                open.pop();
                open.push(true);
                continue;
            }
            (Action::EndIf, None) => "\\endif without matching \\if",
            (Action::EndIf, Some(_)) => {
                open.pop();
                continue;
            }
            _ => continue,
        };
        let (line, column) = (command.line, command.column);
        return Err(ScriptError { line, column, message: problem.to_owned() });
    }
    if open.is_empty() {
        return Ok(());
    }
    Err(error_at(source, source.len(), "\\if without matching \\endif".to_owned()))
}
