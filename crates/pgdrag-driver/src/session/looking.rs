//! How is a dataset looked at as a whole, on a server that may have been set up to be slow?

use crate::error::Error;
use crate::session::connection::Connection;

const QUERY_CANCELED: &str = "57014";

/// Sent before the conditions.
///
/// The server may have been set up to be slow. What the trial did to the planner and to memory is
/// undone for this session, else the check of a slow trial could take hours: whatever any session may set,
/// and the server's own files, command line or catalog have set. What a client must agree with the
/// server about, and what names objects, stays. Every condition looks at whole tables, so the plan wanted is
/// always the same: read them in order and hash, without indexes, which may be bloated, and which would
/// hide a row that they have lost. Workers take whole parts of a statement (shares of the warehouses), not
/// pages of a table: what is hashed and joined above the pages is most of the work.
const PREPARE: &str = "\
    SELECT set_config(name, boot_val, false) FROM pg_settings
        WHERE context = 'user' AND boot_val IS NOT NULL AND setting <> boot_val
            AND source IN ('environment variable', 'configuration file', 'command line', 'global',
                'database', 'user', 'database user')
            AND name NOT IN ('search_path', 'role', 'client_encoding', 'DateStyle', 'IntervalStyle', 'TimeZone',
                'timezone_abbreviations', 'default_text_search_config', 'temp_tablespaces',
                'default_tablespace')
            AND name NOT LIKE 'lc\\_%' AND name NOT LIKE '%.%';
    SET enable_nestloop = off; SET enable_indexscan = off; SET enable_indexonlyscan = off;
    SET enable_bitmapscan = off; SET enable_mergejoin = off; SET jit = off; SET work_mem = '128MB';
    SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 715827882;
    SET lock_timeout = 0; SET idle_in_transaction_session_timeout = 0";

/// Keeps what the session does out of the workload's account and out of the log, where the server keeps
/// the one and writes the other, and this session may say so.
const UNTRACKED: &str = "\
    SELECT set_config(name, value, false)
        FROM (VALUES ('pg_stat_statements.track', 'none'), ('log_statement', 'none'),
            ('log_min_duration_statement', '-1'), ('log_duration', 'off')) AS own (name, value)
        WHERE current_setting(name, true) IS NOT NULL AND current_setting('is_superuser') = 'on'
    UNION ALL
    SELECT set_config(name, 'warning', false) FROM pg_settings
        WHERE name = 'log_min_messages' AND setting LIKE 'debug%'
            AND current_setting('is_superuser') = 'on'";

/// Lets a session's statements take any time, whatever the server was set up to.
///
/// Sent first, on its own: the limit would hold for what comes with it. A limit of a millisecond can end even
/// this on a busy machine, so that it is tried again.
pub(crate) async fn lift_time_limit(conn: &mut Connection) -> Result<(), Error> {
    let mut tries_left = 100;
    loop {
        let ended = conn.simple("SET statement_timeout = 0").await;
        match &ended {
            Err(error) if error.sqlstate() == QUERY_CANCELED && tries_left > 0 => tries_left -= 1,
            _ => return ended,
        }
    }
}

/// Makes a session independent of how the server was set up.
pub async fn prepare(conn: &mut Connection) -> Result<(), Error> {
    lift_time_limit(conn).await?;
    conn.simple(UNTRACKED).await?;
    conn.simple(PREPARE).await
}

/// Begins a transaction in which every [`count`] sees the same snapshot, and writes nothing.
pub async fn begin(conn: &mut Connection) -> Result<(), Error> {
    prepare(conn).await?;
    conn.simple("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await
}

/// Executes a statement that counts the places where the condition `name` does not hold.
pub async fn count(conn: &mut Connection, name: &str, sql: &str) -> Result<u64, Error> {
    counts(conn, name, sql).await?.first().copied().ok_or_else(|| no_counts(name, "nothing"))
}

/// Executes a statement that answers with one row of counts.
pub async fn counts(conn: &mut Connection, name: &str, sql: &str) -> Result<Vec<u64>, Error> {
    let rows = conn.simple_rows(sql).await?;
    let counts = rows.first().and_then(|row| {
        row.iter().map(|value| value.as_deref()?.parse().ok()).collect::<Option<Vec<u64>>>()
    });
    counts.ok_or_else(|| no_counts(name, &format!("{rows:?}")))
}

fn no_counts(name: &str, answer: &str) -> Error {
    Error::Protocol(format!("condition {name} answered {answer}, not a count"))
}
