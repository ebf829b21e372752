//! How much memory do all connections together hold for answers?
//!
//! Each may hold some, and ten thousand of them could hold more than the machine has: there is a bound for all.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// What all connections of this process may hold together.
pub(crate) const ALL_BYTES_MAX: usize = 2 << 30;

static ALL: Account = Account::new(ALL_BYTES_MAX);

/// A sum that many share.
#[derive(Debug)]
struct Account {
    held: AtomicUsize,
    most: usize,
}

impl Account {
    const fn new(most: usize) -> Self {
        Self { held: AtomicUsize::new(0), most }
    }
}

/// What one connection holds of it; given back when it ends.
#[derive(Debug)]
pub(crate) struct Room {
    account: &'static Account,
    bytes: usize,
}

impl Room {
    /// A first few bytes, which every connection gets.
    pub(crate) fn new(bytes: usize) -> Self {
        Self::of(&ALL, bytes)
    }

    fn of(account: &'static Account, bytes: usize) -> Self {
        account.held.fetch_add(bytes, Relaxed);
        Self { account, bytes }
    }

    /// Takes more, or nothing where all would hold too much.
    #[must_use]
    pub(crate) fn grow_to(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        let (held, most) = (&self.account.held, self.account.most);
        let fits = |now: usize| now.checked_add(more).filter(|&sum| sum <= most);
        let is_taken = held.fetch_update(Relaxed, Relaxed, fits).is_ok();
        if is_taken {
            self.bytes += more;
        }
        is_taken
    }

    /// Gives back what is no longer held.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        let less = self.bytes.saturating_sub(bytes);
        self.account.held.fetch_sub(less, Relaxed);
        self.bytes -= less;
    }

    /// Whether the connections hold so much that none should keep what it does not need.
    pub(crate) fn is_scarce(&self) -> bool {
        self.account.held.load(Relaxed) > self.account.most / 2
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_thousand_connections_hold_no_more_than_one_may() {
        static SMALL: Account = Account::new(100_000 * 1024);
        let mut rooms: Vec<_> = (0..10_000).map(|_| Room::of(&SMALL, 4096)).collect();
        assert!(!rooms[0].is_scarce());
        let granted = rooms.iter_mut().filter_map(|x| x.grow_to(64 << 10).then_some(())).count();
        assert_eq!(granted, (100_000 - 40_000) / 60);
        assert!(SMALL.held.load(Relaxed) <= SMALL.most);
        assert!(rooms[0].is_scarce());

        rooms[0].shrink_to(4096);
        assert!(rooms[9_999].grow_to(64 << 10), "what one gives back another may have");
        assert!(!rooms[9_998].grow_to(64 << 10));
        drop(rooms);
        assert_eq!(SMALL.held.load(Relaxed), 0);
    }

    #[test]
    fn no_sum_overflows() {
        static SMALL: Account = Account::new(10);
        let mut room = Room::of(&SMALL, 4);
        assert!(!room.grow_to(usize::MAX));
        assert!(room.grow_to(4) && room.grow_to(10));
        room.shrink_to(20);
        assert_eq!(room.bytes, 10);
    }
}
