//! What do pgbench's own scripts do?
//!
//! TPC-B's transaction, or parts of it, over the four tables that `pgbench -i` makes.

/// A script that comes with pgbench.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Builtin {
    /// The name that `-b` takes.
    pub name: &'static str,
    /// What it is.
    pub description: &'static str,
    /// Its text.
    pub text: &'static str,
}

/// The built-in scripts.
pub const BUILTINS: [Builtin; 3] = [
    Builtin {
        name: "tpcb-like",
        description: "<builtin: TPC-B (sort of)>",
        text: "\
\\set aid random(1, 100000 * :scale)
\\set bid random(1, 1 * :scale)
\\set tid random(1, 10 * :scale)
\\set delta random(-5000, 5000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;
UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);
END;
",
    },
    Builtin {
        name: "simple-update",
        description: "<builtin: simple update>",
        text: "\
\\set aid random(1, 100000 * :scale)
\\set bid random(1, 1 * :scale)
\\set tid random(1, 10 * :scale)
\\set delta random(-5000, 5000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);
END;
",
    },
    Builtin {
        name: "select-only",
        description: "<builtin: select only>",
        text: "\
\\set aid random(1, 100000 * :scale)
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
",
    },
];

/// Finds the built-in script whose name starts with a text; the error is one line.
pub fn builtin(prefix: &str) -> Result<&'static Builtin, String> {
    let mut found = BUILTINS.iter().filter(|builtin| builtin.name.starts_with(prefix));
    match (found.next(), found.count()) {
        (Some(builtin), 0) => Ok(builtin),
        (None, _) => {
            let names = BUILTINS.map(|builtin| builtin.name).join(", ");
            Err(format!("no builtin script found for name \"{prefix}\"; there are {names}"))
        }
        (Some(_), more) => Err(format!(
            "ambiguous builtin name: {} builtin scripts found for prefix \"{prefix}\"",
            more + 1
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_that_fits_one_name_is_enough() {
        let names = ["t", "tpcb-like", "se", "si"].map(|prefix| builtin(prefix).map(|it| it.name));
        assert_eq!(
            names,
            [Ok("tpcb-like"), Ok("tpcb-like"), Ok("select-only"), Ok("simple-update")]
        );
        let error = builtin("s").expect_err("two names");
        assert_eq!(error, "ambiguous builtin name: 2 builtin scripts found for prefix \"s\"");
        assert!(builtin("tpcc").is_err());
    }
}
