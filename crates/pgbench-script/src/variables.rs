//! Where does a client keep its variables?
//!
//! Names are turned into slots once, for all scripts of a run together: a client keeps its
//! variables from one script to the next.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

use crate::error::EvalError;
use crate::value::Value;

/// The place of a variable in [`Variables`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot(pub(crate) usize);

/// The names that the scripts of a run use, each with its slot.
#[derive(Debug, Clone, Default)]
pub struct Names {
    slots: HashMap<String, Slot>,
    names: Vec<String>,
}

impl Names {
    /// Makes an empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives a name its slot; the same name always has the same one.
    pub fn slot(&mut self, name: &str) -> Slot {
        if let Some(slot) = self.slots.get(name) {
            return *slot;
        }
        let slot = Slot(self.names.len());
        self.names.push(name.to_owned());
        self.slots.insert(name.to_owned(), slot);
        slot
    }

    /// Finds the slot of a name that some script uses.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<Slot> {
        self.slots.get(name).copied()
    }

    /// The name of a slot.
    #[must_use]
    pub fn name(&self, slot: Slot) -> &str {
        &self.names[slot.0]
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Content {
    Unset,
    /// A text from outside: it is read as a value where an expression asks for one.
    Text(String),
    Value(Value),
}

/// One client's variables.
#[derive(Debug, Clone)]
pub struct Variables {
    names: Arc<Names>,
    contents: Vec<Content>,
}

impl Variables {
    /// Makes a client's variables, all unset; the scripts have been compiled before.
    #[must_use]
    pub fn new(names: Arc<Names>) -> Self {
        Self { contents: vec![Content::Unset; names.names.len()], names }
    }

    /// Assigns a value, as `:client_id`, `:scale`, `:default_seed` and `:random_seed` get theirs.
    ///
    /// A name that no script uses has no slot, and is ignored.
    pub fn set_named(&mut self, name: &str, value: Value) {
        if let Some(slot) = self.names.find(name) {
            self.set(slot, value);
        }
    }

    /// Assigns a text from outside; a name that no script uses is ignored.
    pub fn set_text_named(&mut self, name: &str, text: &str) {
        if let Some(slot) = self.names.find(name) {
            self.set_text(slot, text);
        }
    }

    /// Assigns a value.
    pub fn set(&mut self, slot: Slot, value: Value) {
        self.contents[slot.0] = Content::Value(value);
    }

    /// Takes a variable's value away.
    pub fn unset(&mut self, slot: Slot) {
        self.contents[slot.0] = Content::Unset;
    }

    /// Assigns a text from outside: an option's, a query's or a shell's.
    pub fn set_text(&mut self, slot: Slot, text: &str) {
        match &mut self.contents[slot.0] {
            // The room of the last text is used again.
            Content::Text(kept) => {
                kept.clear();
                kept.push_str(text);
            }
            other => *other = Content::Text(text.to_owned()),
        }
    }

    /// Takes over what other variables of the same scripts hold.
    pub fn copy_from(&mut self, other: &Self) {
        self.contents.clone_from(&other.contents);
    }

    /// The value of a variable.
    #[inline]
    pub fn value(&self, slot: Slot) -> Result<Value, Box<EvalError>> {
        match &self.contents[slot.0] {
            Content::Unset => Err(EvalError::Undefined(self.names.name(slot).to_owned()).into()),
            Content::Text(text) => Ok(Value::from_text(self.names.name(slot), text)?),
            Content::Value(value) => Ok(*value),
        }
    }

    /// Appends the text of a variable, and says whether it has one.
    pub fn write_text(&self, slot: Slot, to: &mut String) -> bool {
        match &self.contents[slot.0] {
            Content::Unset => return false,
            Content::Text(text) => to.push_str(text),
            // Most are integers, and the formatting machinery is slow.
            Content::Value(Value::Int(value)) => to.push_str(itoa::Buffer::new().format(*value)),
            // Writing to a String cannot fail.
            Content::Value(value) => drop(write!(to, "{value}")),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_without_a_value_says_its_name() {
        let mut names = Names::new();
        let slot = names.slot("left");
        let variables = Variables::new(Arc::new(names));
        assert_eq!(variables.value(slot), Err(EvalError::Undefined("left".to_owned()).into()));
        assert!(!variables.write_text(slot, &mut String::new()));
    }
}
