//! What does a job of `kind` `pgbench` ask for?

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::script::tables::Tables;

/// Scripts, and how they are run; see the driver's contract.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PgbenchJob {
    /// The scripts; each is a transaction type.
    pub scripts: Vec<ScriptJob>,
    /// Whether each client draws scripts as often as their weights say, also in a short run; else each draw is by lot.
    #[serde(default)]
    pub even_mix: bool,
    /// How statements are sent.
    pub statements: Statements,
    /// Variables that every client begins with.
    pub variables: BTreeMap<String, String>,
    /// The value of `:scale`, unless a variable of this name is given, and the tables' size.
    pub scale: u32,
    /// Attempts in all at a transaction that fails with 40001 or 40P01; 0: no limit.
    pub max_tries: u32,
    /// Whether scripts may run programs of this machine.
    pub allow_shell: bool,
    /// Whether the latency of each statement is told.
    pub time_statements: bool,
    /// By a client's number: the script that it runs throughout, as an index; empty: each client draws.
    #[serde(default)]
    pub clients: Vec<usize>,
    /// Variables whose values are summed over the server's transactions that commit.
    #[serde(default)]
    pub sums: Vec<String>,
    /// SQL that a session runs after each attempt that failed, once that is rolled back.
    #[serde(default)]
    pub after_failure: String,
    /// Rows of values that scripts draw from, by name.
    #[serde(default)]
    pub pools: BTreeMap<String, PoolJob>,
    /// How to make the tables; given exactly when the action is `load`.
    pub tables: Option<Tables>,
}

/// One script.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptJob {
    /// The name of its transaction type.
    pub name: String,
    /// Its text.
    pub text: String,
    /// How often it is drawn, in proportion.
    pub weight: u32,
    /// The pools from which each execution takes a row.
    #[serde(default)]
    pub draws: Vec<DrawJob>,
}

/// Rows of values, which the server is asked for once, before the load.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolJob {
    /// What returns them.
    pub query: String,
    /// The variables that its columns become, from left to right.
    pub variables: Vec<String>,
    /// Which row is taken next.
    pub order: PoolOrder,
}

/// Which row of a pool is taken next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PoolOrder {
    /// Any, each as likely as the others.
    Random,
    /// The next one that no client had; each client's share anew when it is through with it.
    InTurn,
}

/// What a script takes from a pool.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DrawJob {
    /// The pool's name.
    pub pool: String,
    /// What the names of the pool's variables begin with in the script.
    #[serde(default)]
    pub prefix: String,
    /// Of the pool's variables, those that have to be equal to a variable of an earlier draw, with its name. Any row is
    /// taken where none is like that.
    #[serde(default)]
    pub like: BTreeMap<String, String>,
}

/// pgbench's `-M`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Statements {
    /// As text with the values in it.
    Simple,
    /// Parsed and bound anew for each execution.
    Extended,
    /// Parsed once in a session, and only bound for each execution.
    Prepared,
}

impl PgbenchJob {
    /// Refuses what cannot be run or loaded; the error is one line that names the key.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.scale == 0 {
            return Err(r#"key "workload.scale" must be at least 1, not 0"#.into());
        }
        self.tables.as_ref().map_or(Ok(()), |tables| tables.check(self.scale))?;
        for (index, script) in self.scripts.iter().enumerate() {
            if script.name.is_empty() {
                return Err(format!(r#"key "workload.scripts[{index}].name" must not be empty"#));
            }
            if self.scripts[..index].iter().any(|other| other.name == script.name) {
                return Err(format!(
                    r#"key "workload.scripts[{index}].name" must differ from the others, not be "{}""#,
                    script.name
                ));
            }
        }
        if let Some(unknown) = self.clients.iter().find(|script| **script >= self.scripts.len()) {
            return Err(format!(
                r#"key "workload.clients" must name scripts by their index, below {}, not {unknown}"#,
                self.scripts.len()
            ));
        }
        let sum: u64 = self.scripts.iter().map(|script| u64::from(script.weight)).sum();
        if sum == 0 && !self.scripts.is_empty() {
            return Err(r#"key "workload.scripts" must have weights with a sum above 0"#.into());
        }
        Ok(())
    }

    /// Refuses clients of which nobody says what they run.
    pub(crate) fn check_connections(&self, connections: u32) -> Result<(), String> {
        let named = self.clients.len();
        if named == 0 || named == connections as usize {
            return Ok(());
        }
        Err(format!(
            r#"key "workload.clients" must have as many scripts as "run.connections", {connections}, not {named}"#
        ))
    }
}
