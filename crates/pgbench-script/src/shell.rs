//! What does a script ask a shell, and what may the answer be?

use crate::variables::{Names, Slot, Variables};

/// A command of `\shell` or `\setshell`.
#[derive(Debug, Clone)]
pub struct Shell {
    words: Vec<Word>,
    target: Option<Slot>,
}

#[derive(Debug, Clone)]
enum Word {
    Literal(String),
    /// A whole word that is `:name`.
    Variable(String, Slot),
}

impl Shell {
    pub(crate) fn new(words: &[String], target: Option<Slot>, names: &mut Names) -> Self {
        let word = |word: &String| match word.strip_prefix(':') {
            // Two colons stand for one, and what follows is no variable.
            Some(rest) if rest.starts_with(':') => Word::Literal(rest.to_owned()),
            Some(name) => Word::Variable(word.clone(), names.slot(name)),
            None => Word::Literal(word.clone()),
        };
        Self { words: words.iter().map(word).collect(), target }
    }

    /// Whether its output is the value of a variable.
    #[must_use]
    pub fn sets_variable(&self) -> bool {
        self.target.is_some()
    }

    /// The variable that gets the output's value.
    #[must_use]
    pub fn target(&self) -> Option<Slot> {
        self.target
    }

    /// The program that it names, for errors.
    #[must_use]
    pub fn program(&self) -> &str {
        match self.words.first() {
            Some(Word::Literal(word) | Word::Variable(word, _)) => word,
            None => "",
        }
    }

    /// The text for the shell; the error is one line.
    pub fn text(&self, variables: &Variables) -> Result<String, String> {
        let mut text = String::new();
        for (position, word) in self.words.iter().enumerate() {
            if position > 0 {
                text.push(' ');
            }
            match word {
                Word::Literal(word) => text.push_str(word),
                Word::Variable(word, slot) => {
                    if !variables.write_text(*slot, &mut text) {
                        return Err(format!("{}: undefined variable \"{word}\"", self.program()));
                    }
                }
            }
        }
        Ok(text)
    }

    /// Reads the number that the command printed; the error is one line.
    pub fn number(&self, output: &str) -> Result<i64, String> {
        let first_line = output.split_inclusive('\n').next().unwrap_or_default();
        first_line.trim().parse().map_err(|_| {
            let shown = first_line.trim_end();
            format!("{}: shell command must return an integer (not \"{shown}\")", self.program())
        })
    }
}
