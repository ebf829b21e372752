//! What does one client do next?

use std::sync::Arc;
use std::time::Duration;

use crate::command::ResultKind;
use crate::error::RunError;
use crate::eval::Session;
use crate::expr::Expr;
use crate::program::{Amount, Kind, Operation, Programs};
use crate::random::Generator;
use crate::statement::Protocol;
use crate::value::Value;
use crate::variables::{Slot, Variables};

/// What the caller has to do before it asks for the next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Send the statement of this number, and in a pipeline do not wait for its answer.
    Sql(usize),
    /// Wait.
    Sleep(Duration),
    /// Run the shell's command of this number.
    Shell(usize),
    /// Collect statements from here on.
    StartPipeline,
    /// Put a Sync between the statements.
    SyncPipeline,
    /// Send what was collected, and read all answers.
    EndPipeline,
    /// The script is over.
    Done,
}

/// Where `debug()` writes its lines.
pub type OnDebug<'a> = &'a mut dyn FnMut(&str);

/// One client: its variables, its random numbers, and its place in a script.
#[derive(Debug, Clone)]
pub struct Client {
    programs: Arc<Programs>,
    /// The client's variables; the caller assigns what queries and shells return.
    pub variables: Variables,
    random: Generator,
    place: Place,
    saved: Option<Box<Saved>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Place {
    script: usize,
    /// The operation that comes next.
    next: usize,
    is_in_pipeline: bool,
}

/// What a retry begins with again.
#[derive(Debug, Clone)]
struct Saved {
    variables: Variables,
    random: Generator,
}

impl Client {
    /// Makes a client whose variables have no values.
    ///
    /// Only a client that `can_retry` keeps what [`Client::again`] needs.
    #[must_use]
    pub fn new(programs: Arc<Programs>, random: Generator, can_retry: bool) -> Self {
        let variables = Variables::new(Arc::clone(&programs.names));
        let saved = || Box::new(Saved { variables: variables.clone(), random: random.clone() });
        let saved = can_retry.then(saved);
        Self { programs, variables, random, place: Place::default(), saved }
    }

    /// Starts a script.
    pub fn begin(&mut self, script: usize) {
        self.place = Place { script, ..Place::default() };
        if let Some(saved) = &mut self.saved {
            saved.variables.copy_from(&self.variables);
            saved.random.clone_from(&self.random);
        }
    }

    /// Starts the script again, with the variables and the random numbers that it began with.
    pub fn again(&mut self) {
        self.place = Place { script: self.place.script, ..Place::default() };
        if let Some(saved) = &self.saved {
            self.variables.copy_from(&saved.variables);
            self.random.clone_from(&saved.random);
        }
    }

    /// Whether statements are collected at this place of the script.
    #[must_use]
    pub fn is_in_pipeline(&self) -> bool {
        self.place.is_in_pipeline
    }

    /// The statements from this place to the next `\endpipeline`, which have to be prepared before
    /// the pipeline begins.
    pub fn pipeline_statements(&self) -> impl Iterator<Item = usize> {
        let operations = &self.programs.program(self.place.script).operations;
        let rest = operations[self.place.next..].iter().map(|operation| &operation.kind);
        let inside = rest.take_while(|kind| !matches!(kind, Kind::EndPipeline));
        inside.filter_map(|kind| if let Kind::Sql(number) = kind { Some(*number) } else { None })
    }

    /// Goes on to what the caller has to do next.
    pub fn step(&mut self, debug: OnDebug<'_>) -> Result<Step, RunError> {
        let Self { programs, variables, random, place, .. } = self;
        let program = programs.program(place.script);
        let mut run = Run { programs, variables, random, place, debug };
        while let Some(operation) = program.operations.get(run.place.next) {
            run.place.next += 1;
            match run.operation(operation) {
                Ok(None) => {}
                Ok(Some(step)) => return Ok(step),
                Err(message) => return Err(self.failed(&message)),
            }
        }
        if place.is_in_pipeline {
            return Err(self.failed("end of script reached with pipeline open"));
        }
        Ok(Step::Done)
    }

    /// Makes the error of the command that the last step was for.
    #[must_use]
    pub fn failed(&self, message: &str) -> RunError {
        let program = self.programs.program(self.place.script);
        let last = self.place.next.saturating_sub(1).min(program.operations.len() - 1);
        program.error(&program.operations[last], message)
    }
}

/// What the operations of one step work on.
struct Run<'a> {
    programs: &'a Programs,
    variables: &'a mut Variables,
    random: &'a mut Generator,
    place: &'a mut Place,
    debug: OnDebug<'a>,
}

/// A failure is one line; its place is added above.
type Done<T> = Result<T, String>;

impl Run<'_> {
    /// Does what needs no caller, and moves on; or returns what the caller has to do.
    fn operation(&mut self, operation: &Operation) -> Done<Option<Step>> {
        Ok(Some(match &operation.kind {
            Kind::Sql(statement) => self.sql(*statement)?,
            Kind::Set(slot, value) => {
                let value = self.evaluate(value, operation.command)?;
                self.variables.set(*slot, value);
                return Ok(None);
            }
            Kind::Unless(_, condition, target) => {
                if !self.evaluate(condition, operation.command)?.is_true() {
                    self.place.next = *target;
                }
                return Ok(None);
            }
            Kind::Jump(target) => {
                self.place.next = *target;
                return Ok(None);
            }
            Kind::Sleep { amount, unit_us } => Step::Sleep(self.pause(amount, *unit_us)?),
            Kind::Shell(shell) => Step::Shell(*shell),
            Kind::StartPipeline => self.start_pipeline()?,
            Kind::SyncPipeline => {
                self.expect_pipeline()?;
                Step::SyncPipeline
            }
            Kind::EndPipeline => {
                self.expect_pipeline()?;
                self.place.is_in_pipeline = false;
                Step::EndPipeline
            }
        }))
    }

    fn evaluate(&mut self, expression: &Expr<Slot>, command: usize) -> Done<Value> {
        let script = self.place.script;
        let mut with_place = |value: &str| {
            (self.debug)(&format!("debug(script={script},command={}): {value}", command + 1));
        };
        let mut session =
            Session { variables: self.variables, random: self.random, debug: &mut with_place };
        session.evaluate(expression).map_err(|error| error.to_string())
    }

    fn sql(&self, statement: usize) -> Done<Step> {
        let results = self.programs.statements()[statement].results.as_ref();
        match results.filter(|_| self.place.is_in_pipeline) {
            None => Ok(Step::Sql(statement)),
            Some(results) => {
                let name = if results.kind == ResultKind::Last { "gset" } else { "aset" };
                Err(format!("\\{name} is not allowed in pipeline mode"))
            }
        }
    }

    fn pause(&self, amount: &Amount, unit_us: u64) -> Done<Duration> {
        let number = match amount {
            Amount::Fixed(number) => *number,
            Amount::Variable(slot) => self.variable_pause(*slot)?,
        };
        // A negative time is over at once, as in pgbench.
        let us = u64::try_from(number).unwrap_or(0).saturating_mul(unit_us);
        Ok(Duration::from_micros(us))
    }

    /// Reads a variable's text as C does: as many digits as there are at its start.
    fn variable_pause(&self, slot: Slot) -> Done<i64> {
        let name = self.programs.names.name(slot);
        let mut text = String::new();
        if !self.variables.write_text(slot, &mut text) {
            return Err(format!("undefined variable \"{name}\""));
        }
        let trimmed = text.trim_start();
        let sign = usize::from(trimmed.starts_with(['+', '-']));
        let digits = trimmed[sign..].bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return Err(format!("invalid sleep time \"{text}\" for variable \"{name}\""));
        }
        // What is too long for a number is longer than any run, too.
        Ok(trimmed[..sign + digits].parse().unwrap_or(i64::MAX))
    }

    fn start_pipeline(&mut self) -> Done<Step> {
        if self.programs.protocol == Protocol::Simple {
            return Err("cannot use pipeline mode with the simple query protocol".to_owned());
        }
        if self.place.is_in_pipeline {
            return Err("already in pipeline mode".to_owned());
        }
        self.place.is_in_pipeline = true;
        Ok(Step::StartPipeline)
    }

    fn expect_pipeline(&self) -> Done<()> {
        if self.place.is_in_pipeline { Ok(()) } else { Err("not in pipeline mode".to_owned()) }
    }
}
