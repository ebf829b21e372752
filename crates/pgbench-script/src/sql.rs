//! Where does a statement end, and where does a meta command begin?
//!
//! The rules are those of psql's scanner: quotes, dollar quotes, comments, parentheses and the
//! bodies of SQL functions keep their semicolons; `\;` is a semicolon that does not end.

use crate::token::{is_name_character, name_length};

/// Why the scanner stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    Semicolon,
    /// A meta command's backslash, which has been read.
    Backslash,
    EndOfText,
}

/// Reads statements from a script, one after the other.
pub(crate) struct Scanner<'a> {
    source: &'a str,
    /// The byte at which the scanner stands; the caller moves it behind a meta command.
    pub offset: usize,
    open_parentheses: usize,
    /// How many BEGIN and CASE wait for their END in a function's body.
    open_blocks: usize,
    /// The statement's first words as far as they matter: c, o, r, f or p, else a blank.
    first_words: Vec<u8>,
}

impl<'a> Scanner<'a> {
    pub fn new(source: &'a str) -> Self {
        Self { source, offset: 0, open_parentheses: 0, open_blocks: 0, first_words: Vec::new() }
    }

    fn rest(&self) -> &'a str {
        &self.source[self.offset..]
    }

    /// Reads up to the next end; returns the text as it is to be sent, and why it ends.
    pub fn statement(&mut self) -> (String, Stop) {
        let mut text = String::new();
        while let Some(character) = self.rest().chars().next() {
            let rest = self.rest();
            if let Some(escaped) = ["\\;", "\\:"].into_iter().find(|mark| rest.starts_with(mark)) {
                self.offset += escaped.len();
                text.push_str(&escaped[1..]);
                if escaped == "\\;" {
                    self.first_words.clear();
                }
                continue;
            }
            if character == '\\' {
                self.offset += 1;
                return (text, Stop::Backslash);
            }
            let length = self.element(rest).max(character.len_utf8());
            text.push_str(&rest[..length]);
            self.offset += length;
            if character == ';' && self.open_parentheses == 0 && self.open_blocks == 0 {
                self.first_words.clear();
                return (text, Stop::Semicolon);
            }
        }
        (text, Stop::EndOfText)
    }

    /// The length of the element at the start of `rest`: a comment, a quotation, a name, or one
    /// character.
    fn element(&mut self, rest: &str) -> usize {
        let character = rest.chars().next().unwrap_or(' ');
        match character {
            '-' if rest.starts_with("--") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => block_comment_length(rest),
            '\'' | '"' => quotation_length(rest, character, false),
            'e' | 'E' if rest[1..].starts_with('\'') => 1 + escape_string_length(&rest[1..]),
            '$' => dollar_length(rest),
            '(' => {
                self.open_parentheses += 1;
                1
            }
            ')' => {
                self.open_parentheses = self.open_parentheses.saturating_sub(1);
                1
            }
            _ if character.is_ascii_digit() => 1,
            _ if is_name_character(character) => {
                let end = rest.find(|next| !is_name_character(next) && next != '$');
                let length = end.unwrap_or(rest.len());
                self.word(&rest[..length]);
                length
            }
            _ => character.len_utf8(),
        }
    }

    /// Follows the words that open and close the body of an SQL function.
    fn word(&mut self, word: &str) {
        const INTERESTING: [&str; 5] = ["create", "or", "replace", "function", "procedure"];
        let is = |other: &str| word.eq_ignore_ascii_case(other);
        if self.first_words.len() < 4 {
            let known = INTERESTING.into_iter().find(|other| is(other));
            self.first_words.push(known.map_or(b' ', |found| found.as_bytes()[0]));
        }
        let makes_function = matches!(
            self.first_words.as_slice(),
            [b'c', b'f' | b'p', ..] | [b'c', b'o', b'r', b'f' | b'p']
        );
        if !makes_function || self.open_parentheses > 0 {
            return;
        }
        if is("begin") || (is("case") && self.open_blocks > 0) {
            self.open_blocks += 1;
        } else if is("end") {
            self.open_blocks = self.open_blocks.saturating_sub(1);
        }
    }
}

/// The length of a comment, within which comments nest; one without an end takes all.
fn block_comment_length(rest: &str) -> usize {
    let mut depth = 0_usize;
    let mut offset = 0;
    while offset < rest.len() {
        let bytes = &rest.as_bytes()[offset..];
        if bytes.starts_with(b"/*") {
            depth += 1;
            offset += 2;
        } else if bytes.starts_with(b"*/") {
            depth -= 1;
            offset += 2;
            if depth == 0 {
                return offset;
            }
        } else {
            offset += 1;
        }
    }
    rest.len()
}

/// The length of a quotation; a doubled quote ends one and begins the next.
fn quotation_length(rest: &str, quote: char, has_escapes: bool) -> usize {
    let mut is_escaped = false;
    for (offset, character) in rest.char_indices().skip(1) {
        if is_escaped {
            is_escaped = false;
        } else if has_escapes && character == '\\' {
            is_escaped = true;
        } else if character == quote {
            return offset + 1;
        }
    }
    rest.len()
}

/// The length of an E'' string, which goes on in a quotation on a later line or right behind it.
fn escape_string_length(rest: &str) -> usize {
    let mut length = quotation_length(rest, '\'', true);
    loop {
        let behind = &rest[length..];
        let next = behind.trim_start();
        let gap = &behind[..behind.len() - next.len()];
        if !next.starts_with('\'') || !(gap.is_empty() || gap.contains('\n')) {
            return length;
        }
        length += gap.len() + quotation_length(next, '\'', true);
    }
}

/// The length of a dollar quotation, or of the dollar alone.
fn dollar_length(rest: &str) -> usize {
    let tag = &rest[1..][..name_length(&rest[1..])];
    let closes = rest[1 + tag.len()..].starts_with('$');
    if !closes || tag.starts_with(|first: char| first.is_ascii_digit()) {
        return 1;
    }
    let mark = &rest[..tag.len() + 2];
    rest[mark.len()..].find(mark).map_or(rest.len(), |end| end + 2 * mark.len())
}

/// Drops blanks and `--` comments in front of a statement, and blanks behind it.
pub(crate) fn without_margins(text: &str) -> &str {
    let mut text = text.trim_start();
    while text.starts_with("--") {
        text = text.find('\n').map_or("", |end| text[end..].trim_start());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statements(source: &str) -> Vec<String> {
        let mut scanner = Scanner::new(source);
        let mut found = Vec::new();
        loop {
            let (text, stop) = scanner.statement();
            let text = without_margins(&text);
            if !text.is_empty() {
                found.push(text.to_owned());
            }
            if stop == Stop::EndOfText {
                return found;
            }
        }
    }

    #[test]
    fn a_semicolon_ends_a_statement_only_outside_of_quotations() {
        let alone = [
            "select 'a;b', 'it''s;'",
            "select \"a;b\"",
            "select E'\\';', 2",
            "select E'a'\n '\\';'",
            "select $$;$$, $a$ ; $b$ ; $a$, $1",
            "select 1 /* ; /* ; */ ; */ -- ;\n",
            "select (1;2)",
            "select a$b$;",
            "select '\\'",
            "create function f() returns int begin atomic select case 1 when 1 then 2 end; end",
            "create or replace procedure p() begin atomic select 1; end",
        ];
        for source in alone {
            assert_eq!(statements(source).len(), 1, "{source}");
        }
    }

    #[test]
    fn statements_stand_in_one_line_or_in_many() {
        let cases: [(&str, &[&str]); 6] = [
            ("select 1; select 2", &["select 1;", "select 2"]),
            ("a \\; b ; c", &["a ; b ;", "c"]),
            ("-- nothing\n;;", &[";", ";"]),
            ("/* kept */ x;", &["/* kept */ x;"]),
            ("create table t(begin int); x", &["create table t(begin int);", "x"]),
            ("begin; x; end", &["begin;", "x;", "end"]),
        ];
        for (source, expected) in cases {
            assert_eq!(statements(source), expected, "{source}");
        }
    }
}
