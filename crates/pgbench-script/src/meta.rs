//! What does a backslash command say?

use crate::command::{Action, Meta, ResultKind, Results, Sleep, SleepAmount};
use crate::error::{ScriptError, error_at};
use crate::parser::expression_at;
use crate::token::{continuation, is_space};

/// As many words as pgbench takes, the command's name among them.
const MOST_WORDS: usize = 256;

/// Reads the words of one line, which a backslash at its end lengthens.
pub(crate) struct Words<'a> {
    source: &'a str,
    /// Where the next word is looked for; behind the line once it is used up.
    pub offset: usize,
    is_finished: bool,
}

/// A word and the byte at which it starts.
#[derive(Clone, Copy)]
struct Word<'a> {
    text: &'a str,
    offset: usize,
}

impl<'a> Words<'a> {
    pub fn new(source: &'a str, offset: usize) -> Self {
        Self { source, offset, is_finished: false }
    }

    fn next(&mut self) -> Option<Word<'a>> {
        while !self.is_finished {
            let rest = &self.source[self.offset..];
            if let Some(length) = continuation(rest) {
                self.offset += length;
            } else if rest.starts_with(is_space) {
                self.offset += 1;
            } else if rest.is_empty() || rest.starts_with('\n') {
                self.offset += usize::from(!rest.is_empty());
                self.is_finished = true;
            } else {
                return Some(self.take(rest));
            }
        }
        None
    }

    fn take(&mut self, rest: &'a str) -> Word<'a> {
        let end = rest.find(|character| is_space(character) || character == '\n');
        let mut text = &rest[..end.unwrap_or(rest.len())];
        // A continuation may follow a word at once.
        if text.len() > 1 && text.ends_with('\\') && continuation(&rest[text.len() - 1..]).is_some()
        {
            text = &text[..text.len() - 1];
        }
        let word = Word { text, offset: self.offset };
        self.offset += text.len();
        word
    }

    fn error(&self, offset: usize, command: &str, message: &str) -> ScriptError {
        error_at(self.source, offset, format!("{message} in command \"{command}\""))
    }
}

/// Reads one meta command, behind its backslash; none if the line is empty.
pub(crate) fn meta_command(words: &mut Words<'_>) -> Result<Option<Meta>, ScriptError> {
    let Some(name) = words.next() else { return Ok(None) };
    let command = name.text.to_ascii_lowercase();
    match command.as_str() {
        "set" | "if" | "elif" => expression_command(words, name, &command).map(Some),
        _ => {
            let mut arguments = Vec::new();
            while let Some(word) = words.next() {
                arguments.push(word);
            }
            if arguments.len() >= MOST_WORDS {
                return Err(words.error(name.offset, name.text, "too many arguments"));
            }
            word_command(words, name, &command, &arguments).map(Some)
        }
    }
}

fn expression_command(
    words: &mut Words<'_>,
    name: Word<'_>,
    command: &str,
) -> Result<Meta, ScriptError> {
    let variable = if command == "set" {
        let missing = || words.error(name.offset, name.text, "missing argument");
        let mut ahead = Words::new(words.source, words.offset);
        let variable = ahead.next().ok_or_else(missing)?;
        words.offset = ahead.offset;
        variable.text
    } else {
        ""
    };
    let (value, end) = expression_at(words.source, words.offset, name.text)?;
    words.offset = end;
    words.is_finished = true;
    Ok(Meta::Action(match command {
        "set" => Action::Set { name: variable.to_owned(), value },
        "if" => Action::If(value),
        _ => Action::Elif(value),
    }))
}

fn word_command(
    words: &Words<'_>,
    name: Word<'_>,
    command: &str,
    arguments: &[Word<'_>],
) -> Result<Meta, ScriptError> {
    let error = |message: &str| Err(words.error(name.offset, name.text, message));
    let texts = |from: &[Word<'_>]| from.iter().map(|word| word.text.to_owned()).collect();
    let action = match (command, arguments) {
        ("sleep", _) => Action::Sleep(sleep(words, name, arguments)?),
        ("setshell", [variable, rest @ ..]) if !rest.is_empty() => {
            Action::SetShell { name: variable.text.to_owned(), words: texts(rest) }
        }
        ("setshell", _) => return error("missing argument"),
        ("shell", []) => return error("missing command"),
        ("shell", _) => Action::Shell(texts(arguments)),
        ("gset" | "aset", [] | [_]) => {
            let kind = if command == "gset" { ResultKind::Last } else { ResultKind::Each };
            let prefix = arguments.first().map_or("", |word| word.text).to_owned();
            return Ok(Meta::Results(Results { kind, prefix }));
        }
        ("gset" | "aset", _) => return error("too many arguments"),
        ("else", []) => Action::Else,
        ("endif", []) => Action::EndIf,
        ("startpipeline", []) => Action::StartPipeline,
        ("syncpipeline", []) => Action::SyncPipeline,
        ("endpipeline", []) => Action::EndPipeline,
        ("else" | "endif" | "startpipeline" | "syncpipeline" | "endpipeline", _) => {
            return error("unexpected argument");
        }
        _ => return error("invalid command"),
    };
    Ok(Meta::Action(action))
}

fn sleep(words: &Words<'_>, name: Word<'_>, arguments: &[Word<'_>]) -> Result<Sleep, ScriptError> {
    let error = |word: Word<'_>, message: &str| words.error(word.offset, name.text, message);
    let (amount, unit) = match arguments {
        [] => return Err(error(name, "missing argument")),
        [_, _, extra, ..] => return Err(error(*extra, "too many arguments")),
        [amount, unit] => (*amount, Some(*unit)),
        [amount] => split_unit(*amount),
    };
    let unit_us = match unit.map(|unit| (unit, unit.text.to_ascii_lowercase())) {
        None => 1_000_000,
        Some((unit, text)) => match text.as_str() {
            "us" => 1,
            "ms" => 1_000,
            "s" => 1_000_000,
            _ => {
                let problem = "unrecognized time unit, must be us, ms or s";
                return Err(error(unit, &format!("{problem} ({})", unit.text)));
            }
        },
    };
    if let Some(variable) = amount.text.strip_prefix(':') {
        let amount = SleepAmount::Variable(variable.to_owned());
        return Ok(Sleep { amount, unit_us });
    }
    let problem = "invalid sleep time, must be an integer";
    let number = amount.text.parse();
    let number =
        number.map_err(|_| error(arguments[0], &format!("{problem} ({})", arguments[0].text)))?;
    Ok(Sleep { amount: SleepAmount::Fixed(number), unit_us })
}

/// Splits `10ms` into its number and its unit; anything else stays whole.
fn split_unit(word: Word<'_>) -> (Word<'_>, Option<Word<'_>>) {
    let sign = usize::from(word.text.starts_with(['+', '-']));
    let digits = word.text[sign..].bytes().take_while(u8::is_ascii_digit).count();
    let end = sign + digits;
    if word.text.starts_with(':') || digits == 0 || end == word.text.len() {
        return (word, None);
    }
    let unit = Word { text: &word.text[end..], offset: word.offset + end };
    (Word { text: &word.text[..end], offset: word.offset }, Some(unit))
}
