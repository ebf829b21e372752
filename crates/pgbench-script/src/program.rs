//! What are a run's scripts, ready to be stepped through?
//!
//! Variables have become slots and conditions jumps, so that nothing is looked up by name and no
//! branch is searched for while a client runs.

use std::sync::Arc;

use crate::command::{Action, Command, Results, Sleep, SleepAmount};
use crate::error::{RunError, ScriptError};
use crate::expr::Expr;
use crate::script::parse;
use crate::shell::Shell;
use crate::statement::{Protocol, Statement};
use crate::token::is_variable_name;
use crate::variables::{Names, Slot};

/// All scripts of a run, which share their variables.
#[derive(Debug, Clone)]
pub struct Programs {
    pub(crate) names: Arc<Names>,
    pub(crate) protocol: Protocol,
    scripts: Vec<Program>,
    statements: Vec<Statement>,
    shells: Vec<Shell>,
}

/// One script.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    pub name: String,
    pub operations: Vec<Operation>,
}

impl Program {
    /// Makes the error of an operation.
    pub fn error(&self, operation: &Operation, message: &str) -> RunError {
        RunError {
            script: self.name.clone(),
            line: operation.line,
            command: operation.command,
            name: operation.kind.name(),
            message: message.to_owned(),
        }
    }
}

/// What one command does, and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Operation {
    pub kind: Kind,
    pub line: usize,
    /// The command's number in its script, from 0.
    pub command: usize,
}

#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Sql(usize),
    Set(Slot, Expr<Slot>),
    Sleep {
        amount: Amount,
        unit_us: u64,
    },
    Shell(usize),
    StartPipeline,
    SyncPipeline,
    EndPipeline,
    /// Goes on at the operation of this number, unless the condition holds.
    Unless(&'static str, Expr<Slot>, usize),
    /// Goes on at the operation of this number.
    Jump(usize),
}

#[derive(Debug, Clone)]
pub(crate) enum Amount {
    Fixed(i64),
    Variable(Slot),
}

impl Kind {
    /// The command's name, as pgbench writes it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Sql(_) => "SQL",
            Self::Set(..) => "set",
            Self::Sleep { .. } => "sleep",
            Self::Shell(_) => "shell",
            Self::StartPipeline => "startpipeline",
            Self::SyncPipeline => "syncpipeline",
            Self::EndPipeline => "endpipeline",
            Self::Unless(name, ..) => name,
            Self::Jump(_) => "else",
        }
    }
}

impl Programs {
    /// Makes an empty set of scripts whose statements will travel by `protocol`.
    #[must_use]
    pub fn new(protocol: Protocol) -> Self {
        Self {
            names: Arc::new(Names::new()),
            protocol,
            scripts: Vec::new(),
            statements: Vec::new(),
            shells: Vec::new(),
        }
    }

    /// Reads and adds a script; `name` is for errors.
    pub fn add(&mut self, name: &str, text: &str) -> Result<(), ScriptError> {
        let script = parse(text)?;
        let mut compiler = Compiler { programs: self, operations: Vec::new(), open: Vec::new() };
        for (number, command) in script.commands.iter().enumerate() {
            compiler.command(number, command)?;
        }
        let operations = compiler.operations;
        self.scripts.push(Program { name: name.to_owned(), operations });
        Ok(())
    }

    /// The number of scripts.
    #[must_use]
    pub fn len(&self) -> usize {
        self.scripts.len()
    }

    /// Whether there is no script.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.scripts.is_empty()
    }

    /// Whether a script runs programs of the machine: it has a `\shell` or a `\setshell`.
    #[must_use]
    pub fn uses_shell(&self) -> bool {
        !self.shells.is_empty()
    }

    /// Whether a script collects statements and sends them together.
    #[must_use]
    pub fn uses_pipelines(&self) -> bool {
        let mut operations = self.scripts.iter().flat_map(|script| &script.operations);
        operations.any(|operation| matches!(operation.kind, Kind::StartPipeline))
    }

    /// The slot of a variable; none if no script has it.
    #[must_use]
    pub fn slot(&self, name: &str) -> Option<Slot> {
        self.names.find(name)
    }

    /// The statements of all scripts; [`Step::Sql`](crate::Step::Sql) names one by its number.
    #[must_use]
    pub fn statements(&self) -> &[Statement] {
        &self.statements
    }

    /// The commands that go to a shell; [`Step::Shell`](crate::Step::Shell) names one.
    #[must_use]
    pub fn shells(&self) -> &[Shell] {
        &self.shells
    }

    /// Finds the variable that a column of a statement's rows is assigned to.
    ///
    /// None if no script reads it. The error is the name that no variable can have.
    pub fn result_slot(&self, results: &Results, column: &str) -> Result<Option<Slot>, String> {
        let name = format!("{}{column}", results.prefix);
        if is_variable_name(&name) { Ok(self.names.find(&name)) } else { Err(name) }
    }

    pub(crate) fn program(&self, script: usize) -> &Program {
        &self.scripts[script]
    }

    fn names(&mut self) -> &mut Names {
        Arc::make_mut(&mut self.names)
    }
}

struct Compiler<'a> {
    programs: &'a mut Programs,
    operations: Vec<Operation>,
    /// For each \if that is open, the jumps whose targets are not known yet.
    open: Vec<Branches>,
}

#[derive(Default)]
struct Branches {
    /// Where the last condition is, which goes on behind its branch when it does not hold.
    condition: Option<usize>,
    /// The ends of the branches before, which go on behind \endif.
    ends: Vec<usize>,
}

impl Compiler<'_> {
    fn command(&mut self, number: usize, command: &Command) -> Result<(), ScriptError> {
        let kind = match &command.action {
            Action::Sql { text, results } => {
                let place = (self.programs.scripts.len(), command.line);
                let names = self.programs.names();
                let statement = Statement::new(text, results.clone(), place, names);
                statement.check((command.line, command.column), self.programs.protocol)?;
                self.programs.statements.push(statement);
                Kind::Sql(self.programs.statements.len() - 1)
            }
            Action::Set { name, value } => {
                Kind::Set(self.target(name, "set", command)?, self.expression(value))
            }
            Action::Sleep(sleep) => self.sleep(sleep),
            Action::Shell(words) => self.shell(words, None),
            Action::SetShell { name, words } => {
                let target = self.target(name, "setshell", command)?;
                self.shell(words, Some(target))
            }
            Action::StartPipeline => Kind::StartPipeline,
            Action::SyncPipeline => Kind::SyncPipeline,
            Action::EndPipeline => Kind::EndPipeline,
            Action::If(condition) => {
                self.open.push(Branches::default());
                self.condition("if", condition)
            }
            Action::Elif(condition) => {
                self.end_branch(number, command.line);
                self.condition("elif", condition)
            }
            Action::Else => {
                self.end_branch(number, command.line);
                return Ok(());
            }
            Action::EndIf => {
                self.end_if();
                return Ok(());
            }
        };
        self.push(kind, number, command.line);
        Ok(())
    }

    fn push(&mut self, kind: Kind, command: usize, line: usize) {
        self.operations.push(Operation { kind, line, command });
    }

    /// The slot that a command assigns to.
    fn target(&mut self, name: &str, verb: &str, command: &Command) -> Result<Slot, ScriptError> {
        if is_variable_name(name) {
            return Ok(self.programs.names().slot(name));
        }
        let message = format!("invalid variable name: \"{name}\" in command \"{verb}\"");
        Err(ScriptError { line: command.line, column: command.column, message })
    }

    fn expression(&mut self, expression: &Expr) -> Expr<Slot> {
        let names = self.programs.names();
        expression.map(&mut |name| names.slot(name))
    }

    fn sleep(&mut self, sleep: &Sleep) -> Kind {
        let amount = match &sleep.amount {
            SleepAmount::Fixed(number) => Amount::Fixed(*number),
            SleepAmount::Variable(name) => Amount::Variable(self.programs.names().slot(name)),
        };
        Kind::Sleep { amount, unit_us: sleep.unit_us }
    }

    fn shell(&mut self, words: &[String], target: Option<Slot>) -> Kind {
        let shell = Shell::new(words, target, self.programs.names());
        self.programs.shells.push(shell);
        Kind::Shell(self.programs.shells.len() - 1)
    }

    fn condition(&mut self, name: &'static str, condition: &Expr) -> Kind {
        let here = self.operations.len();
        self.innermost().condition = Some(here);
        Kind::Unless(name, self.expression(condition), 0)
    }

    fn innermost(&mut self) -> &mut Branches {
        self.open.last_mut().expect("the parser has balanced the conditions")
    }

    /// Ends a branch with a jump, and lets the condition before it go on behind the jump.
    fn end_branch(&mut self, number: usize, line: usize) {
        let here = self.operations.len();
        self.innermost().ends.push(here);
        self.push(Kind::Jump(0), number, line);
        self.resolve_condition();
    }

    fn resolve_condition(&mut self) {
        let here = self.operations.len();
        if let Some(condition) = self.innermost().condition.take() {
            self.resolve(condition, here);
        }
    }

    fn end_if(&mut self) {
        self.resolve_condition();
        let here = self.operations.len();
        let branches = self.open.pop().expect("the parser has balanced the conditions");
        for end in branches.ends {
            self.resolve(end, here);
        }
    }

    fn resolve(&mut self, operation: usize, target: usize) {
        match &mut self.operations[operation].kind {
            Kind::Jump(to) | Kind::Unless(_, _, to) => *to = target,
            other => unreachable!("{} does not jump", other.name()),
        }
    }
}
