//! Which tree does an expression's text stand for?
//!
//! Precedence, from loose to tight: OR · AND · NOT · IS, ISNULL, NOTNULL · comparisons ·
//! `| # & << >> ~` · `+ -` · `* / %` · signs.  Comparisons do not chain.

use crate::error::{ScriptError, error_at};
use crate::expr::{Arity, Expr, Function};
use crate::token::{Placed, Token, tokens};
use crate::value::Value;

/// Trees are walked by recursion; this bounds the stack whatever the text.
const DEEPEST: usize = 250;

const OR: u8 = 1;
const AND: u8 = 2;
const NOT: u8 = 3;
const IS: u8 = 4;
const COMPARISON: u8 = 5;
const BITWISE: u8 = 6;
const SUM: u8 = 7;
const PRODUCT: u8 = 8;
const SIGN: u8 = 9;

/// Words with a meaning of their own; no function can have such a name.
const KEYWORDS: [&str; 14] = [
    "and", "or", "not", "is", "isnull", "notnull", "case", "when", "then", "else", "end", "null",
    "true", "false",
];

/// Reads an expression that fills a text.
pub fn parse_expression(text: &str) -> Result<Expr, ScriptError> {
    let (expression, end) = expression_at(text, 0, "set")?;
    if text[end..].trim().is_empty() {
        Ok(expression)
    } else {
        Err(error_at(text, end, "syntax error in command \"set\"".to_owned()))
    }
}

/// Reads the expression from `start` to the end of its line, and the offset behind that line.
pub(crate) fn expression_at(
    source: &str,
    start: usize,
    command: &str,
) -> Result<(Expr, usize), ScriptError> {
    let (tokens, end) = tokens(source, start, command)?;
    let mut parser = Parser { source, command, tokens, position: 0, nesting: 0 };
    let tree = parser.expression(0)?;
    match parser.peek() {
        Token::End => Ok((tree.expr, end)),
        _ => Err(parser.syntax_error()),
    }
}

/// A tree and its height, and whether it is a comparison outside of parentheses.
struct Tree {
    expr: Expr,
    height: usize,
    is_comparison: bool,
}

impl Tree {
    fn leaf(value: Value) -> Self {
        Self { expr: Expr::Constant(value), height: 1, is_comparison: false }
    }
}

struct Parser<'a> {
    source: &'a str,
    command: &'a str,
    tokens: Vec<Placed>,
    position: usize,
    nesting: usize,
}

type Parsed = Result<Tree, ScriptError>;

impl Parser<'_> {
    fn peek(&self) -> &Token {
        &self.tokens[self.position].token
    }

    fn advance(&mut self) -> Token {
        let token = self.peek().clone();
        // The last token, End, stays.
        self.position = (self.position + 1).min(self.tokens.len() - 1);
        token
    }

    fn error(&self, position: usize, message: &str) -> ScriptError {
        let text = format!("{message} in command \"{}\"", self.command);
        error_at(self.source, self.tokens[position].offset, text)
    }

    fn syntax_error(&self) -> ScriptError {
        self.error(self.position, "syntax error")
    }

    fn is_symbol(&self, symbol: &str) -> bool {
        matches!(self.peek(), Token::Symbol(found) if *found == symbol)
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Token::Word(found) if found.eq_ignore_ascii_case(word))
    }

    fn take_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        if found {
            self.advance();
        }
        found
    }

    fn expect_word(&mut self, word: &str) -> Result<(), ScriptError> {
        if self.take_word(word) { Ok(()) } else { Err(self.syntax_error()) }
    }

    fn expect_symbol(&mut self, symbol: &str) -> Result<(), ScriptError> {
        if !self.is_symbol(symbol) {
            return Err(self.syntax_error());
        }
        self.advance();
        Ok(())
    }

    /// Applies a function to trees, within the bound on height.
    fn call(&self, function: Function, trees: Vec<Tree>) -> Parsed {
        let height = trees.iter().map(|tree| tree.height).max().unwrap_or(0) + 1;
        if height > DEEPEST {
            return Err(self.error(self.position, "expression is nested too deeply"));
        }
        let arguments = trees.into_iter().map(|tree| tree.expr).collect();
        Ok(Tree { expr: Expr::Call(function, arguments), height, is_comparison: false })
    }

    /// Reads operators that bind at least as tightly as `loosest`.
    fn expression(&mut self, loosest: u8) -> Parsed {
        self.nesting += 1;
        if self.nesting > DEEPEST {
            return Err(self.error(self.position, "expression is nested too deeply"));
        }
        let mut left = self.operand()?;
        while let Some(level) = self.level().filter(|level| *level >= loosest) {
            left = match level {
                IS => self.truth_test(left)?,
                COMPARISON if left.is_comparison => return Err(self.syntax_error()),
                _ => self.binary(left, level)?,
            };
        }
        self.nesting -= 1;
        Ok(left)
    }

    /// The level of the operator that comes next.
    fn level(&self) -> Option<u8> {
        match self.peek() {
            Token::Symbol(symbol) => match *symbol {
                "<" | "<=" | ">" | ">=" | "=" | "<>" | "!=" => Some(COMPARISON),
                "|" | "#" | "&" | "<<" | ">>" => Some(BITWISE),
                "+" | "-" => Some(SUM),
                "*" | "/" | "%" => Some(PRODUCT),
                _ => None,
            },
            Token::Word(word) => match word.to_ascii_lowercase().as_str() {
                "or" => Some(OR),
                "and" => Some(AND),
                "is" | "isnull" | "notnull" => Some(IS),
                _ => None,
            },
            _ => None,
        }
    }

    fn binary(&mut self, left: Tree, level: u8) -> Parsed {
        let operator = self.advance();
        let right = self.expression(level + 1)?;
        let symbol = match operator {
            Token::Symbol(symbol) => symbol,
            _ if level == AND => "and",
            _ => "or",
        };
        // pgbench has no "greater": it exchanges the operands, and so the order of evaluation.
        let (left, right) =
            if symbol.starts_with('>') && symbol != ">>" { (right, left) } else { (left, right) };
        let mut tree = self.call(operator_function(symbol), vec![left, right])?;
        tree.is_comparison = level == COMPARISON;
        Ok(tree)
    }

    /// Reads ISNULL, NOTNULL and IS [NOT] NULL, TRUE or FALSE behind an operand.
    fn truth_test(&mut self, operand: Tree) -> Parsed {
        let (is_negated, expected) = if self.take_word("isnull") {
            (false, Value::Null)
        } else if self.take_word("notnull") {
            (true, Value::Null)
        } else {
            self.advance();
            let is_negated = self.take_word("not");
            (is_negated, self.word_constant().ok_or_else(|| self.syntax_error())?)
        };
        let test = self.call(Function::Is, vec![operand, Tree::leaf(expected)])?;
        if is_negated { self.call(Function::Not, vec![test]) } else { Ok(test) }
    }

    fn word_constant(&mut self) -> Option<Value> {
        if self.take_word("null") {
            Some(Value::Null)
        } else if self.take_word("true") {
            Some(Value::Boolean(true))
        } else if self.take_word("false") {
            Some(Value::Boolean(false))
        } else {
            None
        }
    }

    /// Reads one operand with the operators in front of it.
    fn operand(&mut self) -> Parsed {
        if let Some(value) = self.word_constant() {
            return Ok(Tree::leaf(value));
        }
        match self.peek() {
            Token::Word(_) => self.word(),
            Token::Symbol(_) => self.prefix(),
            Token::End | Token::IntLimit => Err(self.syntax_error()),
            Token::Int(_) | Token::Double(_) | Token::Variable(_) => Ok(match self.advance() {
                Token::Int(value) => Tree::leaf(Value::Int(value)),
                Token::Double(value) => Tree::leaf(Value::Double(value)),
                Token::Variable(name) => {
                    Tree { expr: Expr::Variable(name), height: 1, is_comparison: false }
                }
                _ => unreachable!("the token was seen before"),
            }),
        }
    }

    fn prefix(&mut self) -> Parsed {
        if self.is_symbol("(") {
            self.advance();
            let mut inner = self.expression(0)?;
            self.expect_symbol(")")?;
            inner.is_comparison = false;
            return Ok(inner);
        }
        if self.is_symbol("+") {
            self.advance();
            return self.expression(SIGN);
        }
        if self.is_symbol("-") {
            self.advance();
            if *self.peek() == Token::IntLimit {
                self.advance();
                return Ok(Tree::leaf(Value::Int(i64::MIN)));
            }
            let operand = self.expression(SIGN)?;
            return self.call(Function::Subtract, vec![Tree::leaf(Value::Int(0)), operand]);
        }
        if self.is_symbol("~") {
            self.advance();
            // It binds no tighter than the other operators on bits: ~1+2 is ~(1+2).
            let operand = self.expression(BITWISE + 1)?;
            return self.call(Function::BitXor, vec![Tree::leaf(Value::Int(-1)), operand]);
        }
        Err(self.syntax_error())
    }

    fn word(&mut self) -> Parsed {
        if self.take_word("not") {
            let operand = self.expression(NOT)?;
            return self.call(Function::Not, vec![operand]);
        }
        if self.take_word("case") {
            return self.case();
        }
        let position = self.position;
        let Token::Word(name) = self.advance() else { return Err(self.syntax_error()) };
        if KEYWORDS.iter().any(|keyword| keyword.eq_ignore_ascii_case(&name)) {
            return Err(self.error(position, "syntax error"));
        }
        let Some((function, arity)) = Function::named(&name) else {
            return Err(self.error(position, &format!("unexpected function name ({name})")));
        };
        let arguments = self.arguments()?;
        self.apply(position, (function, arity), arguments)
    }

    fn arguments(&mut self) -> Result<Vec<Tree>, ScriptError> {
        self.expect_symbol("(")?;
        let mut arguments = Vec::new();
        if !self.is_symbol(")") {
            arguments.push(self.expression(0)?);
            while self.is_symbol(",") {
                self.advance();
                arguments.push(self.expression(0)?);
            }
        }
        self.expect_symbol(")")?;
        Ok(arguments)
    }

    /// Checks the number of arguments, and adds the seed that a hash was not given.
    fn apply(
        &self,
        position: usize,
        (function, arity): (Function, Arity),
        mut arguments: Vec<Tree>,
    ) -> Parsed {
        let given = arguments.len();
        let problem = match arity {
            Arity::Exactly(count) if given != count => "unexpected number of arguments",
            Arity::AtLeastOne if given == 0 => "at least one argument expected",
            Arity::Seeded(count) if given != count && given != count + 1 => {
                "unexpected number of arguments"
            }
            _ => "",
        };
        if !problem.is_empty() {
            let Token::Word(name) = &self.tokens[position].token else { unreachable!("a name") };
            let message = format!("{problem} ({})", name.to_ascii_lowercase());
            return Err(self.error(position, &message));
        }
        if arity == Arity::Seeded(given) {
            let seed = Expr::Variable("default_seed".to_owned());
            arguments.push(Tree { expr: seed, height: 1, is_comparison: false });
        }
        self.call(function, arguments)
    }

    fn case(&mut self) -> Parsed {
        let mut arguments = Vec::new();
        while arguments.is_empty() || self.is_word("when") {
            self.expect_word("when")?;
            arguments.push(self.expression(0)?);
            self.expect_word("then")?;
            arguments.push(self.expression(0)?);
        }
        let has_else = self.take_word("else");
        arguments.push(if has_else { self.expression(0)? } else { Tree::leaf(Value::Null) });
        self.expect_word("end")?;
        self.call(Function::Case, arguments)
    }
}

fn operator_function(symbol: &str) -> Function {
    match symbol {
        "+" => Function::Add,
        "-" => Function::Subtract,
        "*" => Function::Multiply,
        "/" => Function::Divide,
        "%" => Function::Mod,
        "<" | ">" => Function::Less,
        "<=" | ">=" => Function::LessOrEqual,
        "=" => Function::Equal,
        "<>" | "!=" => Function::NotEqual,
        "&" => Function::BitAnd,
        "|" => Function::BitOr,
        "#" => Function::BitXor,
        "<<" => Function::ShiftLeft,
        ">>" => Function::ShiftRight,
        "and" => Function::And,
        "or" => Function::Or,
        other => unreachable!("{other} has no level"),
    }
}
