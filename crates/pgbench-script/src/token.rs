//! Which tokens does an expression consist of?

use crate::error::{ScriptError, error_at};
use crate::value::parse_double;

/// A token of an expression.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Token {
    Int(i64),
    /// 9223372036854775808, which is a number only behind a minus.
    IntLimit,
    Double(f64),
    Variable(String),
    /// A function's name or a keyword, as written.
    Word(String),
    Symbol(&'static str),
    /// The end of the line.
    End,
}

/// A token and the byte offset in the script at which it starts.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Placed {
    pub token: Token,
    pub offset: usize,
}

/// The longer ones come first, so that `<=` is not `<` and `=`.
const SYMBOLS: [&str; 20] = [
    "<>", "!=", "<=", ">=", "<<", ">>", "<", ">", "=", "+", "-", "*", "/", "%", "|", "&", "#", "~",
    "(", ")",
];

/// Splits the expression that starts at `start` into tokens, up to the end of its line.
///
/// Returns the tokens, the last of which is [`Token::End`], and the offset behind the line.
/// `command` is named in errors.
pub(crate) fn tokens(
    source: &str,
    start: usize,
    command: &str,
) -> Result<(Vec<Placed>, usize), ScriptError> {
    let mut found = Vec::new();
    let mut offset = start;
    loop {
        let rest = &source[offset..];
        if let Some(length) = continuation(rest) {
            offset += length;
            continue;
        }
        match rest.chars().next() {
            None => {
                found.push(Placed { token: Token::End, offset });
                return Ok((found, offset));
            }
            Some('\n') => {
                found.push(Placed { token: Token::End, offset });
                return Ok((found, offset + 1));
            }
            Some(character) if is_space(character) => offset += 1,
            Some(character) => {
                let (token, length) = token(rest).map_err(|(message, more)| {
                    let text = format!("{message} ({more}) in command \"{command}\"");
                    error_at(source, offset, text)
                })?;
                found.push(Placed { token, offset });
                offset += length.max(character.len_utf8().min(1));
            }
        }
    }
}

/// The length of a backslash and the end of line behind it, which join two lines.
pub(crate) fn continuation(rest: &str) -> Option<usize> {
    ["\\\n", "\\\r\n"].into_iter().find(|mark| rest.starts_with(mark)).map(str::len)
}

/// A blank within a line.
pub(crate) fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\r' | '\x0b' | '\x0c')
}

/// A character that a name may have in its middle; every non-ASCII one is among them.
pub(crate) fn is_name_character(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_' || !character.is_ascii()
}

/// The length of the name at the start of a text.
pub(crate) fn name_length(text: &str) -> usize {
    text.find(|character| !is_name_character(character)).unwrap_or(text.len())
}

/// Says whether a text starts with what can be a variable's name.
pub(crate) fn starts_variable_name(text: &str) -> bool {
    text.starts_with(|first: char| is_name_character(first) && !first.is_ascii_digit())
}

/// Says whether pgbench lets a variable have this name.
#[must_use]
pub fn is_variable_name(name: &str) -> bool {
    starts_variable_name(name) && name_length(name) == name.len()
}

type LexError = (&'static str, String);

fn token(rest: &str) -> Result<(Token, usize), LexError> {
    if let Some(length) = number_length(rest) {
        return Ok((number(&rest[..length])?, length));
    }
    if let Some(name) = rest.strip_prefix(':') {
        let length = name_length(name);
        if length > 0 {
            return Ok((Token::Variable(name[..length].to_owned()), length + 1));
        }
    }
    if rest.starts_with(',') {
        return Ok((Token::Symbol(","), 1));
    }
    if let Some(symbol) = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol)) {
        return Ok((Token::Symbol(symbol), symbol.len()));
    }
    match name_length(rest) {
        0 => Err(("unexpected character", rest.chars().take(1).collect())),
        length => Ok((Token::Word(rest[..length].to_owned()), length)),
    }
}

/// The length of the number at the start of a text: digits, a fraction, an exponent.
fn number_length(rest: &str) -> Option<usize> {
    let digits = |from: usize| rest[from..].bytes().take_while(u8::is_ascii_digit).count();
    let whole = digits(0);
    let mut length = whole;
    if rest[length..].starts_with('.') {
        let fraction = digits(length + 1);
        if whole + fraction == 0 {
            return None;
        }
        length += 1 + fraction;
    }
    if length == 0 {
        return None;
    }
    if rest[length..].starts_with(['e', 'E']) {
        let sign = usize::from(rest[length + 1..].starts_with(['+', '-']));
        let exponent = digits(length + 1 + sign);
        if exponent > 0 {
            length += 1 + sign + exponent;
        }
    }
    Some(length)
}

fn number(text: &str) -> Result<Token, LexError> {
    const INT_LIMIT: &str = "9223372036854775808";
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        let value = parse_double(text);
        return value.map(Token::Double).ok_or(("double constant overflow", text.to_owned()));
    }
    if text == INT_LIMIT {
        return Ok(Token::IntLimit);
    }
    text.parse().map(Token::Int).map_err(|_| ("bigint constant overflow", text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(source: &str) -> Vec<Token> {
        let (found, _) = tokens(source, 0, "set").expect(source);
        found.into_iter().map(|placed| placed.token).collect()
    }

    #[test]
    fn numbers_take_as_much_as_they_can() {
        assert_eq!(kinds("5."), [Token::Double(5.0), Token::End]);
        assert_eq!(kinds(".5e-1"), [Token::Double(0.05), Token::End]);
        assert_eq!(kinds("2e"), [Token::Int(2), Token::Word("e".to_owned()), Token::End]);
        assert_eq!(kinds("9223372036854775808"), [Token::IntLimit, Token::End]);
    }

    #[test]
    fn an_expression_ends_with_its_line_unless_a_backslash_goes_on() {
        let (found, end) = tokens("1 \\\n + 2\n3", 0, "set").expect("tokens");
        assert_eq!((found.len(), end), (4, 9));
    }

    #[test]
    fn an_error_names_the_character_and_its_place() {
        let error = tokens("1 +\\\n  $", 0, "set").expect_err("a dollar");
        assert_eq!((error.line, error.column), (2, 3));
        assert_eq!(error.message, "unexpected character ($) in command \"set\"");
    }
}
