//! What do a variable's values sum to, over the server's transactions that committed?
//!
//! The check of a dataset needs to know what was written into it, to the last transaction: also what
//! committed before the window opened or after it ended, and also a statement by itself whose script went
//! on to fail. So sums are kept by the server's transactions, and not by the scripts'. Where a connection
//! broke, or was dropped, before the server had confirmed, nobody knows: that is told apart.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pgbench_script::{Programs, Slot, Variables};

use crate::error::Error;
use crate::session::Answers;
use crate::workload::Sum;

/// The variables that are summed, and each client's part in it.
#[derive(Debug, Default)]
pub(super) struct Sums {
    names: Vec<String>,
    /// By statement: which of the variables it sends.
    carries: Vec<Vec<(usize, Slot)>>,
    accounts: Mutex<Vec<Arc<Mutex<Vec<Entry>>>>>,
}

/// One variable in one client's hands.
#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    done: Sum,
    /// Sent, and not confirmed: the first value in the server's transaction that is under way.
    pending: Option<Pending>,
}

#[derive(Debug, Clone, Copy)]
struct Pending {
    value: i64,
    has_touched: bool,
}

/// One client's part in the sums.
#[derive(Debug)]
pub(super) struct Account {
    sums: Arc<Sums>,
    entries: Arc<Mutex<Vec<Entry>>>,
}

impl Sums {
    /// Finds the statements that send these variables; the error is one line that names the key.
    pub fn new(names: &[String], programs: &Programs) -> Result<Self, String> {
        if !names.is_empty() && programs.uses_pipelines() {
            // Parts of a pipeline commit and fail apart, within one answer.
            return Err(r#"key "workload.sums" must be empty where a script has a pipeline"#.into());
        }
        let statements = programs.statements();
        let mut carries = vec![Vec::new(); statements.len()];
        for (index, name) in names.iter().enumerate() {
            let slot = programs.slot(name);
            let mut is_sent = false;
            for (statement, carried) in statements.iter().zip(&mut carries) {
                if let Some(slot) = slot.filter(|slot| statement.parameters().contains(slot)) {
                    carried.push((index, slot));
                    is_sent = true;
                }
            }
            if !is_sent {
                return Err(format!(
                    r#"key "workload.sums": no statement of a script has a variable "{name}""#
                ));
            }
        }
        Ok(Self { names: names.to_vec(), carries, accounts: Mutex::default() })
    }

    /// Opens a client's part; none where nothing is summed.
    pub fn open(self: &Arc<Self>) -> Option<Account> {
        if self.names.is_empty() {
            return None;
        }
        let entries = Arc::new(Mutex::new(vec![Entry::default(); self.names.len()]));
        lock(&self.accounts).push(Arc::clone(&entries));
        Some(Account { sums: Arc::clone(self), entries })
    }

    /// Adds up what all clients have done, once none of them does anything any more.
    pub fn add_up(&self) -> Vec<(String, Sum)> {
        let mut totals = vec![Sum::default(); self.names.len()];
        for account in lock(&self.accounts).iter() {
            for (total, entry) in totals.iter_mut().zip(lock(account).iter_mut()) {
                // A client that was dropped in the middle of a transaction.
                entry.give_up();
                total.add(&entry.done);
            }
        }
        self.names.iter().cloned().zip(totals).collect()
    }
}

impl Account {
    /// A statement is about to be sent with these values.
    pub fn sends(&mut self, statement: usize, variables: &Variables) -> Result<(), Error> {
        for (index, slot) in &self.sums.carries[statement] {
            let value = variables.value(*slot).and_then(|value| Ok(value.to_int()?));
            let value = value.map_err(|error| self.refused(*index, &error.to_string()))?;
            let pending = &mut lock(&self.entries)[*index].pending;
            pending.get_or_insert(Pending { value, has_touched: false });
        }
        Ok(())
    }

    /// The statement has been executed.
    pub fn answered(&mut self, statement: usize, answers: &Answers<'_>) -> Result<(), Error> {
        let tag = answers.last()?.command()?;
        let has_touched = !tag.ends_with(" 0");
        let mut entries = lock(&self.entries);
        for (index, _) in &self.sums.carries[statement] {
            if let Some(pending) = &mut entries[*index].pending {
                pending.has_touched |= has_touched;
            }
        }
        if answers.is_transaction_open() {
            return Ok(());
        }
        let has_rolled_back = tag == "ROLLBACK";
        for (index, entry) in entries.iter_mut().enumerate() {
            let Some(pending) = entry.pending.take().filter(|_| !has_rolled_back) else { continue };
            if !entry.done.commit(pending) {
                return Err(self.refused(index, "sum out of range"));
            }
        }
        Ok(())
    }

    /// The attempt has failed: what it had not committed is rolled back, unless the connection broke.
    pub fn failed(&mut self, is_broken: bool) {
        for entry in lock(&self.entries).iter_mut() {
            if is_broken {
                entry.give_up();
            }
            entry.pending = None;
        }
    }

    fn refused(&self, index: usize, why: &str) -> Error {
        Error::Fatal(format!(r#"cannot sum variable "{}": {why}"#, self.sums.names[index]))
    }
}

impl Entry {
    /// Nobody will ever know what became of what is pending.
    fn give_up(&mut self) {
        let Some(Pending { value, .. }) = self.pending.take() else { return };
        self.done.unknown += 1;
        self.done.unknown_low = self.done.unknown_low.saturating_add(value.min(0));
        self.done.unknown_high = self.done.unknown_high.saturating_add(value.max(0));
    }
}

impl Sum {
    /// Adds a value; false if the sum is no integer any more.
    fn commit(&mut self, pending: Pending) -> bool {
        self.committed += 1;
        self.untouched += u64::from(!pending.has_touched);
        let sum = self.sum.checked_add(pending.value);
        self.sum = sum.unwrap_or(self.sum);
        sum.is_some()
    }

    fn add(&mut self, other: &Self) {
        self.sum = self.sum.saturating_add(other.sum);
        self.committed += other.committed;
        self.untouched += other.untouched;
        self.unknown += other.unknown;
        self.unknown_low = self.unknown_low.saturating_add(other.unknown_low);
        self.unknown_high = self.unknown_high.saturating_add(other.unknown_high);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
