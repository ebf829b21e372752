//! What is the value of an expression, given a client's variables?

use crate::error::EvalError;
use crate::expr::{Expr, Function};
use crate::hash::{fnv1a, murmur2, permute};
use crate::random::{Generator, Range, exponential, gaussian, uniform, zipfian};
use crate::value::Value;
use crate::variables::{Slot, Variables};

/// pgbench's limit for all functions but CASE.
const MOST_ARGUMENTS: usize = 16;

// In a box, because values are handed on often, and errors are rare.
type Evaluated = Result<Value, Box<EvalError>>;

/// What an expression can reach while it is evaluated.
pub struct Session<'a> {
    /// The client's variables.
    pub variables: &'a mut Variables,
    /// Where random numbers come from.
    pub random: &'a mut Generator,
    /// Takes what `debug()` writes: a value with its type, such as `int 5`.
    pub debug: &'a mut dyn FnMut(&str),
}

impl Session<'_> {
    /// Evaluates an expression.
    #[inline]
    pub fn evaluate(&mut self, expr: &Expr<Slot>) -> Evaluated {
        // Half of all nodes are leaves: they cost no call.
        match expr {
            Expr::Constant(value) => Ok(*value),
            Expr::Variable(slot) => self.variables.value(*slot),
            Expr::Call(function, arguments) => self.call(*function, arguments),
        }
    }

    /// Evaluates AND and OR: the left operand may decide, and NULL on the left always does.
    fn logical(&mut self, operands: &[Expr<Slot>], deciding: bool) -> Evaluated {
        for (position, operand) in operands.iter().enumerate() {
            let value = self.evaluate(operand)?;
            if value == Value::Null {
                return Ok(Value::Null);
            }
            let is_last = position + 1 == operands.len();
            let truth = value.to_bool()?;
            if is_last || truth == deciding {
                return Ok(Value::Boolean(truth));
            }
        }
        Ok(Value::Null)
    }

    fn case(&mut self, branches: &[Expr<Slot>]) -> Evaluated {
        for branch in branches.chunks(2) {
            match branch {
                [condition, result] if self.evaluate(condition)?.is_true() => {
                    return self.evaluate(result);
                }
                [otherwise] => return self.evaluate(otherwise),
                _ => {}
            }
        }
        Ok(Value::Null)
    }

    #[inline]
    fn call(&mut self, function: Function, arguments: &[Expr<Slot>]) -> Evaluated {
        // Most functions have one or two arguments: these cost no room for more.
        match arguments {
            operands if function == Function::And => self.logical(operands, false),
            operands if function == Function::Or => self.logical(operands, true),
            branches if function == Function::Case => self.case(branches),
            [only] => {
                let only = self.evaluate(only)?;
                self.apply(function, &[only])
            }
            [left, right] => {
                let values = [self.evaluate(left)?, self.evaluate(right)?];
                self.apply(function, &values)
            }
            _ => {
                let mut values = [Value::Null; MOST_ARGUMENTS];
                if arguments.len() > MOST_ARGUMENTS {
                    return Err(EvalError::TooManyArguments.into());
                }
                for (value, argument) in values.iter_mut().zip(arguments) {
                    *value = self.evaluate(argument)?;
                }
                self.apply(function, &values[..arguments.len()])
            }
        }
    }

    #[inline]
    fn apply(&mut self, function: Function, values: &[Value]) -> Evaluated {
        match (function, values) {
            (Function::Debug, [value]) => {
                (self.debug)(&value.described());
                Ok(*value)
            }
            (Function::Is, [left, right]) => Ok(Value::Boolean(left == right)),
            _ if values.iter().any(|value| matches!(value, Value::Null)) => Ok(Value::Null),
            (Function::Random, [low, high]) => {
                Ok(Value::Int(uniform(self.random, range(*low, *high)?)))
            }
            (
                Function::RandomExponential | Function::RandomGaussian | Function::RandomZipfian,
                [low, high, parameter],
            ) => self.draw(function, range(*low, *high)?, parameter.to_double()?),
            _ => pure(function, values),
        }
    }

    fn draw(&mut self, function: Function, range: Range, parameter: f64) -> Evaluated {
        let drawn = match function {
            Function::RandomGaussian if parameter < 2.0 => {
                return Err(EvalError::Gaussian(parameter).into());
            }
            Function::RandomGaussian => gaussian(self.random, range, parameter),
            Function::RandomExponential if parameter <= 0.0 => {
                return Err(EvalError::Exponential(parameter).into());
            }
            Function::RandomExponential => exponential(self.random, range, parameter),
            Function::RandomZipfian if !(1.001..=1000.0).contains(&parameter) => {
                return Err(EvalError::Zipfian(parameter).into());
            }
            Function::RandomZipfian => zipfian(self.random, range, parameter),
            other => unreachable!("{other:?} draws nothing"),
        };
        Ok(Value::Int(drawn))
    }
}

#[inline]
fn range(low: Value, high: Value) -> Result<Range, EvalError> {
    let range = Range { low: low.to_int()?, high: high.to_int()? };
    if range.low > range.high {
        return Err(EvalError::EmptyRange);
    }
    let count = range.high.checked_sub(range.low).and_then(|distance| distance.checked_add(1));
    count.map(|_| range).ok_or(EvalError::RangeTooLarge)
}

/// Evaluates what depends on nothing but its arguments, none of which is NULL.
#[inline]
fn pure(function: Function, values: &[Value]) -> Evaluated {
    match (function, values) {
        (Function::Least | Function::Greatest, _) => variadic(function, values),
        (Function::Pi, []) => Ok(Value::Double(std::f64::consts::PI)),
        (_, [value]) => unary(function, *value),
        (_, [left, right]) => binary(function, *left, *right),
        (Function::Permute, [value, size, seed]) => {
            let (value, size, seed) = (value.to_int()?, size.to_int()?, seed.to_int()?);
            if size <= 0 {
                return Err(EvalError::PermuteSize.into());
            }
            Ok(Value::Int(permute(value, size, seed)))
        }
        _ => unreachable!("the parser checked the number of arguments of {function:?}"),
    }
}

fn unary(function: Function, value: Value) -> Evaluated {
    Ok(match function {
        Function::Not => Value::Boolean(!value.to_bool()?),
        Function::Int => Value::Int(value.to_int()?),
        Function::Double => Value::Double(value.to_double()?),
        Function::Sqrt => Value::Double(value.to_double()?.sqrt()),
        Function::Ln => Value::Double(value.to_double()?.ln()),
        Function::Exp => Value::Double(value.to_double()?.exp()),
        Function::Abs => match value {
            // The smallest integer has no positive counterpart and stays, as in pgbench.
            Value::Int(value) => Value::Int(value.wrapping_abs()),
            other => Value::Double(other.to_double()?.abs()),
        },
        other => unreachable!("{other:?} does not take one argument"),
    })
}

#[inline]
fn binary(function: Function, left: Value, right: Value) -> Evaluated {
    match function {
        Function::HashFnv1a => Ok(Value::Int(fnv1a(left.to_int()?, right.to_int()?))),
        Function::HashMurmur2 => Ok(Value::Int(murmur2(left.to_int()?, right.to_int()?))),
        Function::Power => Ok(Value::Double(left.to_double()?.powf(right.to_double()?))),
        Function::Mod
        | Function::BitAnd
        | Function::BitOr
        | Function::BitXor
        | Function::ShiftLeft
        | Function::ShiftRight => of_ints(function, left.to_int()?, right.to_int()?),
        _ if has_double(&[left, right]) => {
            Ok(of_doubles(function, left.to_double()?, right.to_double()?))
        }
        _ => of_ints(function, left.to_int()?, right.to_int()?),
    }
}

#[inline]
fn has_double(values: &[Value]) -> bool {
    values.iter().any(|value| matches!(value, Value::Double(_)))
}

#[allow(clippy::float_cmp)] // the script asks whether they are equal
fn of_doubles(function: Function, left: f64, right: f64) -> Value {
    match function {
        Function::Add => Value::Double(left + right),
        Function::Subtract => Value::Double(left - right),
        Function::Multiply => Value::Double(left * right),
        Function::Divide => Value::Double(left / right),
        Function::Less => Value::Boolean(left < right),
        Function::LessOrEqual => Value::Boolean(left <= right),
        Function::Equal => Value::Boolean(left == right),
        Function::NotEqual => Value::Boolean(left != right),
        other => unreachable!("{other:?} does not take doubles"),
    }
}

#[inline]
fn of_ints(function: Function, left: i64, right: i64) -> Evaluated {
    let within = |result: Option<i64>, operation| {
        result.map(Value::Int).ok_or_else(|| EvalError::OutOfRange(operation).into())
    };
    // A shift counts modulo 64, which is what pgbench's machine code does on common processors.
    let bits = (right & 63).unsigned_abs();
    match function {
        Function::Add => within(left.checked_add(right), "add"),
        Function::Subtract => within(left.checked_sub(right), "sub"),
        Function::Multiply => within(left.checked_mul(right), "mul"),
        Function::Divide | Function::Mod if right == 0 => Err(EvalError::DivisionByZero.into()),
        Function::Divide => within(left.checked_div(right), "div"),
        Function::Mod => Ok(Value::Int(left.wrapping_rem(right))),
        Function::Less => Ok(Value::Boolean(left < right)),
        Function::LessOrEqual => Ok(Value::Boolean(left <= right)),
        Function::Equal => Ok(Value::Boolean(left == right)),
        Function::NotEqual => Ok(Value::Boolean(left != right)),
        Function::BitAnd => Ok(Value::Int(left & right)),
        Function::BitOr => Ok(Value::Int(left | right)),
        Function::BitXor => Ok(Value::Int(left ^ right)),
        Function::ShiftLeft => Ok(Value::Int(left << bits)),
        Function::ShiftRight => Ok(Value::Int(left >> bits)),
        other => unreachable!("{other:?} does not take integers"),
    }
}

/// Finds the least or the greatest value; one double makes all of them doubles.
fn variadic(function: Function, values: &[Value]) -> Evaluated {
    let is_least = function == Function::Least;
    if has_double(values) {
        let mut best = values[0].to_double()?;
        for value in &values[1..] {
            let value = value.to_double()?;
            // As C compares: whatever is not less or greater, such as NaN, is replaced.
            let keeps = if is_least { best < value } else { best > value };
            best = if keeps { best } else { value };
        }
        return Ok(Value::Double(best));
    }
    let mut best = values[0].to_int()?;
    for value in &values[1..] {
        let value = value.to_int()?;
        best = if is_least { best.min(value) } else { best.max(value) };
    }
    Ok(Value::Int(best))
}
