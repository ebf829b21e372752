//! How is the text of a script read?

use crate::command::{Action, Command, Meta, Script};
use crate::error::{ScriptError, error_at};
use crate::meta::{Words, meta_command};
use crate::sql::{Scanner, Stop, without_margins};

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
