//! Which row of values does an execution of a script take?
//!
//! A pool is what a query returns, asked once before the load. All clients share it, and each takes rows on its
//! own: which ones depends on the seed and on the client, never on how quick the others are. A row may have to agree
//! with one that was taken before it: a customer's order with the customer.

use std::collections::HashMap;
use std::sync::OnceLock;

use pgbench_script::{Generator, Programs, Slot, Variables, is_variable_name};

use crate::error::Error;
use crate::job::{DrawJob, PgbenchJob, PoolJob, PoolOrder, Statements};
use crate::session::Connection;

/// Behind each value of a key: no value has it.
const BETWEEN: char = '\0';

/// The pools of a job, and which scripts take what from them.
#[derive(Debug)]
pub(super) struct Pools {
    asked: Vec<Asked>,
    rows: OnceLock<Vec<Rows>>,
    /// By a script's number.
    takes: Vec<Vec<Take>>,
    /// The pools and columns that rows are looked up by.
    keys: Vec<(usize, Vec<usize>)>,
    /// For each of these the rows that have a key.
    found: OnceLock<Vec<HashMap<String, Vec<u64>>>>,
    /// NULL is this text where values stand in the text of a statement; else a variable without a value.
    null: Option<&'static str>,
}

#[derive(Debug)]
struct Asked {
    name: String,
    query: String,
    width: usize,
    order: PoolOrder,
}

/// What one script takes from one pool: a row, for variables that it has.
#[derive(Debug)]
struct Take {
    pool: usize,
    slots: Vec<Option<Slot>>,
    like: Option<Like>,
}

/// Which of a pool's rows are taken: those that have these variables' values in the columns of a key.
#[derive(Debug)]
struct Like {
    key: usize,
    variables: Vec<Slot>,
}

/// The values of a pool, row by row; none is NULL.
#[derive(Debug)]
struct Rows {
    count: u64,
    values: Vec<Option<Box<str>>>,
}

/// Where one client is in each pool.
#[derive(Debug)]
pub(super) struct Taker {
    random: Generator,
    client: u64,
    clients: u64,
    /// Rows taken in turn, by pool.
    taken: Vec<u64>,
}

impl Taker {
    pub fn new(random: Generator, client: u32, clients: u32) -> Self {
        Self { random, client: client.into(), clients: clients.into(), taken: Vec::new() }
    }

    fn any_of(&mut self, count: usize) -> usize {
        usize::try_from(self.random.up_to(count as u64 - 1)).expect("it is below a length")
    }

    fn next(&mut self, pool: usize, order: PoolOrder, count: u64) -> u64 {
        if order == PoolOrder::Random {
            return self.random.up_to(count - 1);
        }
        if self.taken.len() <= pool {
            self.taken.resize(pool + 1, 0);
        }
        // Client k of n has rows k, k + n, k + 2n …, and begins anew with them at the end.
        let (client, clients) = (self.client % count, self.clients);
        let share = (count - client).div_ceil(clients);
        let taken = self.taken[pool];
        self.taken[pool] = (taken + 1) % share;
        client + taken * clients
    }
}

impl Pools {
    /// Finds the variables; the error is one line that names the key.
    pub fn new(job: &PgbenchJob, programs: &Programs) -> Result<Self, String> {
        for (name, pool) in &job.pools {
            let key = |rest: &str| format!("key \"workload.pools.{name}.{rest}");
            if pool.query.is_empty() || pool.query.contains('\0') {
                return Err(key("query\" must be a query without zero bytes"));
            }
            if pool.variables.is_empty() {
                return Err(key("variables\" must not be empty"));
            }
        }
        let mut keys: Vec<(usize, Vec<usize>)> = Vec::new();
        let mut take = |script: usize, draw: &DrawJob| {
            let key = format!("key \"workload.scripts[{script}].draws\"");
            let found = job.pools.iter().enumerate().find(|(_, (name, _))| **name == draw.pool);
            let (pool, (_, of)) =
                found.ok_or_else(|| format!("{key}: there is no pool \"{}\"", draw.pool))?;
            let slot = |variable: &String| {
                let name = format!("{}{variable}", draw.prefix);
                if is_variable_name(&name) {
                    Ok(programs.slot(&name))
                } else {
                    Err(format!("{key}: invalid variable name: \"{name}\""))
                }
            };
            let slots = of.variables.iter().map(slot).collect::<Result<_, String>>()?;
            let (columns, variables) =
                like(draw, of, programs).map_err(|it| format!("{key}: {it}"))?;
            let like = (!columns.is_empty()).then(|| {
                let wanted = (pool, columns);
                let known = keys.iter().position(|one| *one == wanted);
                let key = known.unwrap_or_else(|| {
                    keys.push(wanted);
                    keys.len() - 1
                });
                Like { key, variables }
            });
            Ok(Take { pool, slots, like })
        };
        let mut takes = Vec::with_capacity(job.scripts.len());
        for (number, script) in job.scripts.iter().enumerate() {
            let draws = script.draws.iter().map(|draw| take(number, draw));
            takes.push(draws.collect::<Result<_, String>>()?);
        }
        let asked = job.pools.iter().map(|(name, pool)| Asked {
            name: name.clone(),
            query: pool.query.clone(),
            width: pool.variables.len(),
            order: pool.order,
        });
        Ok(Self {
            asked: asked.collect(),
            rows: OnceLock::new(),
            takes,
            keys,
            found: OnceLock::new(),
            null: (job.statements == Statements::Simple).then_some("NULL"),
        })
    }

    /// Asks for the rows, once a run.
    pub async fn fetch(&self, conn: &mut Connection) -> Result<(), Error> {
        let mut found = Vec::with_capacity(self.asked.len());
        for pool in &self.asked {
            let wrong = |what: String| Error::Fatal(format!("pool \"{}\" {what}", pool.name));
            let rows = conn.simple_rows(&pool.query).await.map_err(|error| match error {
                Error::Server(_) => wrong(format!("could not be read: {error}")),
                other => other,
            })?;
            let count = rows.len();
            if count == 0 {
                return Err(wrong("has no rows".to_owned()));
            }
            if let Some(odd) = rows.iter().find(|row| row.len() != pool.width) {
                let (is, wanted) = (odd.len(), pool.width);
                return Err(wrong(format!("has {is} columns for {wanted} variables")));
            }
            let values = rows.into_iter().flatten().map(|value| value.map(String::into_boxed_str));
            found.push(Rows { count: count as u64, values: values.collect() });
        }
        let by_key = self.keys.iter().map(|(pool, columns)| found[*pool].by_key(columns)).collect();
        // A second time would be another run's.
        let _ = self.found.set(by_key);
        let _ = self.rows.set(found);
        Ok(())
    }

    /// Assigns to a client's variables what the next execution of a script takes.
    pub fn take(&self, script: usize, taker: &mut Taker, variables: &mut Variables) {
        let Some(all) = self.rows.get() else { return };
        for Take { pool, slots, like } in &self.takes[script] {
            let rows = &all[*pool];
            let row = match like.as_ref().and_then(|like| self.rows_like(like, variables)) {
                Some(some) => some[taker.any_of(some.len())],
                None => taker.next(*pool, self.asked[*pool].order, rows.count),
            };
            let begin = usize::try_from(row).expect("rows are in memory") * slots.len();
            for (slot, value) in slots.iter().zip(&rows.values[begin..]) {
                let Some(slot) = slot else { continue };
                match value.as_deref().or(self.null) {
                    Some(text) => variables.set_text(*slot, text),
                    None => variables.unset(*slot),
                }
            }
        }
    }

    /// The rows that have the values of these variables; none where nothing is like them.
    fn rows_like(&self, like: &Like, variables: &Variables) -> Option<&[u64]> {
        let mut key = String::new();
        for slot in &like.variables {
            if !variables.write_text(*slot, &mut key) {
                return None;
            }
            key.push(BETWEEN);
        }
        self.found.get()?[like.key].get(&key).map(Vec::as_slice)
    }
}

/// The columns of a pool that have to be equal to variables, and these variables.
fn like(
    draw: &DrawJob,
    pool: &PoolJob,
    programs: &Programs,
) -> Result<(Vec<usize>, Vec<Slot>), String> {
    let pair = |(own, other): (&String, &String)| {
        let column = pool.variables.iter().position(|one| one == own);
        let column =
            column.ok_or_else(|| format!("pool \"{}\" has no variable \"{own}\"", draw.pool))?;
        let slot = programs.slot(other);
        Ok((column, slot.ok_or_else(|| format!("no statement has the variable \"{other}\""))?))
    };
    draw.like.iter().map(pair).collect::<Result<Vec<_>, String>>().map(|it| it.into_iter().unzip())
}

impl Rows {
    /// The numbers of the rows that have a key, by its values; NULL is in none.
    fn by_key(&self, columns: &[usize]) -> HashMap<String, Vec<u64>> {
        let mut found = HashMap::<String, Vec<u64>>::new();
        let count = usize::try_from(self.count).expect("rows are in memory");
        for (row, values) in (0..).zip(self.values.chunks(self.values.len() / count)) {
            let mut key = String::new();
            let is_whole = columns.iter().all(|column| {
                values[*column].as_deref().is_some_and(|value| {
                    key.push_str(value);
                    key.push(BETWEEN);
                    true
                })
            });
            if is_whole {
                found.entry(key).or_default().push(row);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_by_some_of_their_columns_and_null_is_like_nothing() {
        let text = |value: &str| Some(value.to_owned().into_boxed_str());
        let values =
            vec![text("1"), text("a"), text("2"), text("b"), text("1"), None, text("1"), text("c")];
        let found = Rows { count: 4, values }.by_key(&[0]);
        assert_eq!(found["1\0"], [0, 2, 3]);
        assert_eq!(found["2\0"], [1]);
        let values = vec![text("1"), None, text("1"), text("a")];
        let found = Rows { count: 2, values }.by_key(&[1, 0]);
        assert_eq!(found.len(), 1);
        assert_eq!(found["a\u{0}1\u{0}"], [1]);
    }

    #[test]
    fn in_turn_each_row_is_one_client_s_alone_and_comes_again_when_all_of_its_have_been() {
        let clients = 3;
        let mut takers: Vec<_> =
            (0..clients).map(|client| Taker::new(Generator::new(1), client, clients)).collect();
        let mut rounds = Vec::new();
        for taker in &mut takers {
            rounds.push([0; 4].map(|_| taker.next(0, PoolOrder::InTurn, 8)));
        }
        assert_eq!(rounds, [[0, 3, 6, 0], [1, 4, 7, 1], [2, 5, 2, 5]]);
    }

    #[test]
    fn with_more_clients_than_rows_each_has_one() {
        let mut taker = Taker::new(Generator::new(1), 7, 10);
        assert_eq!([0; 3].map(|_| taker.next(0, PoolOrder::InTurn, 4)), [3, 3, 3]);
    }
}
