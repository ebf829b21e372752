//! What is there to do until the dataset is whole, and which of it can go on at the same time?
//!
//! Filling a table, adding a key and adding a foreign key each lock tables, so what two connections do at
//! once must not touch the same ones. A step begins as soon as the earlier phases are through with its
//! tables: the long chain (order lines, their key, their two foreign keys) goes on without a pause
//! on one connection, while others work off the rest.

use super::schema::{TABLES, Table};

/// The phases in their order, as progress names them.
pub const PHASES: [&str; 4] = ["populate", "index", "foreign_keys", "analyze"];

/// What one connection does at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// Fills the table with this index.
    Fill(usize),
    Statement(String),
}

/// A piece of work, and the tables that it has for itself.
#[derive(Clone, Debug)]
pub struct Step {
    /// An index of [`PHASES`].
    pub phase: usize,
    pub work: Work,
    /// One bit for each of [`TABLES`].
    tables: u16,
}

/// What a connection that is free finds.
#[derive(Debug)]
pub enum Next {
    Step(Step),
    /// All that is left touches tables that another step has, or must have first.
    Wait,
    Nothing,
}

/// The steps that have not ended.
#[derive(Debug)]
pub struct Steps {
    /// In the order in which they are preferred.
    waiting: Vec<Step>,
    /// Phase and tables of those that are going on.
    running: Vec<(usize, u16)>,
}

impl Steps {
    /// All steps from empty tables to the whole dataset.
    pub fn new() -> Self {
        let fill = TABLES.iter().enumerate().map(|(i, _)| Step::new(0, i, Work::Fill(i)));
        // The first key of each table before the second of any: two of one table exclude each other.
        let keys = (0..2).flat_map(|n| {
            let nth = move |(i, table): (usize, &Table)| {
                Some(Step::statement(1, i, (*table.keys.get(n)?).to_owned()))
            };
            TABLES.iter().enumerate().filter_map(nth)
        });
        let analyze = TABLES
            .iter()
            .enumerate()
            .map(|(i, table)| Step::statement(3, i, format!("ANALYZE {}", table.name)));
        let foreign_keys = TABLES.iter().enumerate().flat_map(|(i, table)| {
            table.foreign_keys.iter().map(move |key| {
                let mut step = Step::statement(2, i, table.add_foreign_key(key));
                step.tables |= bit(index_of(key.references));
                step
            })
        });
        let waiting = fill.chain(keys).chain(foreign_keys).chain(analyze).collect();
        Self { waiting, running: Vec::new() }
    }

    /// Takes the first step that can begin now.
    pub fn take(&mut self) -> Next {
        if self.waiting.is_empty() {
            return Next::Nothing;
        }
        let held = self.running.iter().fold(0, |held, (_, tables)| held | tables);
        let can_begin = |step: &Step| {
            let earlier = self.waiting.iter().filter(|other| other.phase < step.phase);
            let owed = earlier.fold(0, |owed, other| owed | other.tables);
            step.tables & (held | owed) == 0
        };
        match self.waiting.iter().position(can_begin) {
            Some(index) => {
                let step = self.waiting.remove(index);
                self.running.push((step.phase, step.tables));
                Next::Step(step)
            }
            None => Next::Wait,
        }
    }

    /// Notes that a step has ended, which may let others begin.
    pub fn end(&mut self, step: &Step) {
        let ended = (step.phase, step.tables);
        let index = self.running.iter().position(|running| *running == ended);
        self.running.swap_remove(index.expect("a step that was taken"));
    }

    /// The first phase that has not ended; [`PHASES`]' length when all have.
    pub fn phase(&self) -> usize {
        let waiting = self.waiting.iter().map(|step| step.phase);
        let running = self.running.iter().map(|(phase, _)| *phase);
        waiting.chain(running).min().unwrap_or(PHASES.len())
    }

    /// Counts the steps of a phase that have not ended.
    pub fn left(&self, phase: usize) -> usize {
        self.waiting.iter().filter(|step| step.phase == phase).count()
            + self.running.iter().filter(|(running, _)| *running == phase).count()
    }
}

impl Step {
    fn new(phase: usize, table: usize, work: Work) -> Self {
        Self { phase, work, tables: bit(table) }
    }

    fn statement(phase: usize, table: usize, sql: String) -> Self {
        Self::new(phase, table, Work::Statement(sql))
    }
}

fn bit(table: usize) -> u16 {
    1 << table
}

fn index_of(name: &str) -> usize {
    TABLES.iter().position(|table| table.name == name).expect("a table of the schema")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn no_key_is_left_out() {
        let steps = Steps::new();
        let keys: usize = TABLES.iter().map(|table| table.keys.len()).sum();
        let references: usize = TABLES.iter().map(|table| table.foreign_keys.len()).sum();
        assert_eq!([0, 1, 2, 3].map(|phase| steps.left(phase)), [9, keys, references, 9]);
        assert_eq!((keys, references), (10, 10));
    }

    #[test]
    fn a_key_is_added_as_soon_as_its_table_is_full() {
        let mut steps = Steps::new();
        let (Next::Step(lines), Next::Step(_)) = (steps.take(), steps.take()) else {
            panic!("two tables can be filled at once")
        };
        steps.waiting.retain(|step| step.phase > 0);
        steps.end(&lines);
        let Next::Step(key) = steps.take() else { panic!("its key is next") };
        assert_eq!((key.phase, key.tables), (1, lines.tables));
        assert_eq!(steps.phase(), 0);
    }

    proptest! {
        /// Whatever ends first, no two steps share a table, none waits for ever, and a table's phases
        /// follow each other.
        #[test]
        fn every_order_of_ends_gets_to_the_end(
            workers in 1..6usize,
            picks in prop::collection::vec(any::<prop::sample::Index>(), 38),
        ) {
            let mut steps = Steps::new();
            let mut running: Vec<Step> = Vec::new();
            let mut reached = [0; TABLES.len()];
            for pick in picks {
                while running.len() < workers && let Next::Step(step) = steps.take() {
                    prop_assert!(running.iter().all(|other| other.tables & step.tables == 0));
                    for (table, reached) in reached.iter_mut().enumerate() {
                        if step.tables & bit(table) != 0 {
                            prop_assert!(*reached <= step.phase);
                            *reached = step.phase;
                        }
                    }
                    running.push(step);
                }
                prop_assert!(!running.is_empty(), "{steps:?}");
                steps.end(&running.swap_remove(pick.index(running.len())));
            }
            prop_assert!(matches!(steps.take(), Next::Nothing));
            prop_assert_eq!(steps.phase(), PHASES.len());
        }
    }
}
