//! What is an expression, and how is it written?

use std::fmt;

use crate::value::Value;

/// An expression; `V` is how it names variables: by name as parsed, by slot as compiled.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr<V = String> {
    /// A value.
    Constant(Value),
    /// The value of a variable.
    Variable(V),
    /// An operator or a function, and what it is applied to.
    Call(Function, Vec<Expr<V>>),
}

/// An operator or a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // each is the operator or function of its name
pub enum Function {
    Add,
    Subtract,
    Multiply,
    Divide,
    Mod,
    Less,
    LessOrEqual,
    Equal,
    NotEqual,
    BitAnd,
    BitOr,
    BitXor,
    ShiftLeft,
    ShiftRight,
    And,
    Or,
    Not,
    /// `IS` with NULL, TRUE or FALSE.
    Is,
    /// Conditions and results in turn, and the result when none holds.
    Case,
    Abs,
    Debug,
    Double,
    Exp,
    Greatest,
    HashFnv1a,
    HashMurmur2,
    Int,
    Least,
    Ln,
    Permute,
    Pi,
    Power,
    Random,
    RandomExponential,
    RandomGaussian,
    RandomZipfian,
    Sqrt,
}

/// How many arguments a function takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arity {
    Exactly(usize),
    AtLeastOne,
    /// So many, and then a seed that is `:default_seed` unless it is given.
    Seeded(usize),
}

/// Functions that are called by name, pgbench's synonyms among them.  A function's first name is
/// the one that it is written with.
const TABLE: [(&str, Function, Arity); 21] = [
    ("abs", Function::Abs, Arity::Exactly(1)),
    ("debug", Function::Debug, Arity::Exactly(1)),
    ("double", Function::Double, Arity::Exactly(1)),
    ("exp", Function::Exp, Arity::Exactly(1)),
    ("greatest", Function::Greatest, Arity::AtLeastOne),
    ("hash", Function::HashMurmur2, Arity::Seeded(1)),
    ("hash_fnv1a", Function::HashFnv1a, Arity::Seeded(1)),
    ("hash_murmur2", Function::HashMurmur2, Arity::Seeded(1)),
    ("int", Function::Int, Arity::Exactly(1)),
    ("least", Function::Least, Arity::AtLeastOne),
    ("ln", Function::Ln, Arity::Exactly(1)),
    ("mod", Function::Mod, Arity::Exactly(2)),
    ("permute", Function::Permute, Arity::Seeded(2)),
    ("pi", Function::Pi, Arity::Exactly(0)),
    ("pow", Function::Power, Arity::Exactly(2)),
    ("power", Function::Power, Arity::Exactly(2)),
    ("random", Function::Random, Arity::Exactly(2)),
    ("random_exponential", Function::RandomExponential, Arity::Exactly(3)),
    ("random_gaussian", Function::RandomGaussian, Arity::Exactly(3)),
    ("random_zipfian", Function::RandomZipfian, Arity::Exactly(3)),
    ("sqrt", Function::Sqrt, Arity::Exactly(1)),
];

impl Function {
    /// Finds a function by its name, in any case of letters.
    pub(crate) fn named(name: &str) -> Option<(Self, Arity)> {
        let found = TABLE.iter().find(|(known, _, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, function, arity)| (*function, *arity))
    }

    /// The symbol between the two operands of an operator.
    fn symbol(self) -> Option<&'static str> {
        Some(match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Mod => "%",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Equal => "=",
            Self::NotEqual => "<>",
            Self::BitAnd => "&",
            Self::BitOr => "|",
            Self::BitXor => "#",
            Self::ShiftLeft => "<<",
            Self::ShiftRight => ">>",
            Self::And => "AND",
            Self::Or => "OR",
            Self::Is => "IS",
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        let found = TABLE.iter().find(|(_, function, _)| *function == self);
        found.map_or("", |(name, _, _)| name)
    }
}

impl<V> Expr<V> {
    /// Replaces every variable's name by what `to` makes of it.
    pub(crate) fn map<W>(&self, to: &mut dyn FnMut(&V) -> W) -> Expr<W> {
        match self {
            Self::Constant(value) => Expr::Constant(*value),
            Self::Variable(name) => Expr::Variable(to(name)),
            Self::Call(function, arguments) => {
                Expr::Call(*function, arguments.iter().map(|argument| argument.map(to)).collect())
            }
        }
    }
}

impl fmt::Display for Expr<String> {
    /// Writes the expression with a parenthesis around each operator, so that it is read as the
    /// same tree.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // A double needs its point or exponent, or it is read as an integer.
            Self::Constant(Value::Double(value)) => write!(f, "{value:?}"),
            Self::Constant(value) => write!(f, "{value}"),
            Self::Variable(name) => write!(f, ":{name}"),
            Self::Call(function, arguments) => write_call(f, *function, arguments),
        }
    }
}

fn write_call(f: &mut fmt::Formatter<'_>, function: Function, arguments: &[Expr]) -> fmt::Result {
    match (function, arguments) {
        (Function::Not, [operand]) => write!(f, "(NOT {operand})"),
        // The only negative constant that can be parsed besides the smallest integer: from ~.
        (Function::BitXor, [Expr::Constant(Value::Int(-1)), operand]) => write!(f, "(~ {operand})"),
        (Function::Case, [branches @ .., otherwise]) => {
            f.write_str("CASE")?;
            for branch in branches.chunks_exact(2) {
                write!(f, " WHEN {} THEN {}", branch[0], branch[1])?;
            }
            write!(f, " ELSE {otherwise} END")
        }
        (_, [left, right]) if function.symbol().is_some() => {
            write!(f, "({left} {} {right})", function.symbol().unwrap_or_default())
        }
        _ => {
            write!(f, "{}(", function.name())?;
            for (position, argument) in arguments.iter().enumerate() {
                let comma = if position > 0 { ", " } else { "" };
                write!(f, "{comma}{argument}")?;
            }
            f.write_str(")")
        }
    }
}
