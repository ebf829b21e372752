//! What is sent for a statement, and which variables are in it?
//!
//! pgbench looks for `:name` in the whole text, in quotations and comments as well. In the simple
//! protocol the name is replaced by the variable's text; in the others each one is a parameter.

use crate::command::Results;
use crate::error::ScriptError;
use crate::token::{name_length, starts_variable_name};
use crate::variables::{Names, Slot, Variables};

/// pgbench's limit for the parameters of one statement.
const MOST_PARAMETERS: usize = 255;

/// How statements travel to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// As one text, with the values in it.
    Simple,
    /// As a text with `$1`, `$2` …, and the values apart from it.
    Parameters,
}

/// A statement of a script.
#[derive(Debug, Clone)]
pub struct Statement {
    /// What becomes of its rows.
    pub results: Option<Results>,
    /// Where it begins: the script's number, and the line.
    pub place: (usize, usize),
    /// The text that stands before each variable, and behind the last one.
    literals: Vec<String>,
    variables: Vec<Slot>,
    /// `:name` in turn, which stays where a variable has no value in the simple protocol.
    mentions: Vec<String>,
}

impl Statement {
    /// Finds the variables in a text, and gives each its slot.
    pub(crate) fn new(
        text: &str,
        results: Option<Results>,
        place: (usize, usize),
        names: &mut Names,
    ) -> Self {
        let (mut literals, mut variables) = (vec![String::new()], Vec::new());
        let mut mentions = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let length = mention_length(rest);
            if length > 0 {
                variables.push(names.slot(&rest[1..length]));
                mentions.push(rest[..length].to_owned());
                literals.push(String::new());
                rest = &rest[length..];
                continue;
            }
            // A row of colons, such as that of a cast, begins no variable.
            let colons = rest.bytes().take_while(|byte| *byte == b':').count();
            let plain = rest[colons..].find(':').unwrap_or(rest.len() - colons);
            let (literal, behind) = rest.split_at(colons + plain);
            literals.last_mut().expect("there is always one").push_str(literal);
            rest = behind;
        }
        Self { results, place, literals, variables, mentions }
    }

    /// The variables whose texts are the parameters, in the order of their numbers.
    ///
    /// A variable that has no value is a NULL.
    #[must_use]
    pub fn parameters(&self) -> &[Slot] {
        &self.variables
    }

    /// The text as it stands in the script.
    #[must_use]
    pub fn source(&self) -> String {
        let mut text = String::new();
        self.weave(&mut text, |number, text| text.push_str(&self.mentions[number]));
        text
    }

    /// The text with `$1`, `$2` … in the places of the variables.
    #[must_use]
    pub fn parameterised(&self) -> String {
        let mut text = String::new();
        self.weave(&mut text, |number, text| {
            text.push('$');
            text.push_str(&(number + 1).to_string());
        });
        text
    }

    /// Appends the text with the values of the variables in their places.
    pub fn write_text(&self, variables: &Variables, to: &mut String) {
        self.weave(to, |number, to| {
            if !variables.write_text(self.variables[number], to) {
                to.push_str(&self.mentions[number]);
            }
        });
    }

    /// Appends the literals with what `put` appends for each variable, by its number from 0.
    #[inline]
    fn weave(&self, to: &mut String, put: impl Fn(usize, &mut String)) {
        to.push_str(&self.literals[0]);
        for (number, literal) in self.literals[1..].iter().enumerate() {
            put(number, to);
            to.push_str(literal);
        }
    }

    /// Refuses what the protocol cannot carry.
    pub(crate) fn check(
        &self,
        place: (usize, usize),
        protocol: Protocol,
    ) -> Result<(), ScriptError> {
        if protocol == Protocol::Simple || self.variables.len() <= MOST_PARAMETERS {
            return Ok(());
        }
        let message = format!("statement has too many arguments (maximum is {MOST_PARAMETERS})");
        Err(ScriptError { line: place.0, column: place.1, message })
    }
}

/// The length of `:name` at the start of a text, or 0.
fn mention_length(text: &str) -> usize {
    match text.strip_prefix(':') {
        Some(name) if starts_variable_name(name) => 1 + name_length(name),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Value;
    use std::sync::Arc;

    /// Writes a text with x = 1, and y unset.
    fn both(text: &str) -> (String, String) {
        let mut names = Names::new();
        let statement = Statement::new(text, None, (0, 1), &mut names);
        assert_eq!(statement.source(), text);
        let mut variables = Variables::new(Arc::new(names));
        variables.set_named("x", Value::Int(1));
        let mut simple = String::new();
        statement.write_text(&variables, &mut simple);
        (simple, statement.parameterised())
    }

    #[test]
    fn a_colon_and_a_name_are_a_variable_wherever_they_stand() {
        let cases = [
            ("select :x", "select 1", "select $1"),
            (":x:x", "11", "$1$2"),
            ("':x' -- :y", "'1' -- :y", "'$1' -- $2"),
            ("a::x, :::x", "a::x, :::x", "a::x, :::x"),
            (":x::int", "1::int", "$1::int"),
            ("'12:30'", "'12:30'", "'12:30'"),
            (":", ":", ":"),
            (": x :xé", ": x :xé", ": x $1"),
        ];
        for (text, simple, parameterised) in cases {
            assert_eq!(both(text), (simple.to_owned(), parameterised.to_owned()), "{text}");
        }
    }
}
