"""How are well-known programs called, what is read of what they print, and what does that count?

Each profile was held against output of the program itself (tests/pure/program_output).
"""

from __future__ import annotations

from dataclasses import dataclass

from pgdrag.workloads._reading import Reading


@dataclass(frozen=True)
class Profile:
    """One program.

    Attributes:
        call: a command to begin with.
        setup: what loads its tables, once.
        counts: what its figures really count: a sentence or two.
        transaction: what one of the things is that it counts.
    """

    call: str
    setup: str
    reading: Reading
    counts: str
    transaction: str = "transaction"


PROFILES = {
    "pgbench": Profile(
        call="pgbench -n -c $PGDRAG_CONNECTIONS -T $PGDRAG_DURATION_S --random-seed=$PGDRAG_SEED",
        setup="pgbench -i -q -s 10",
        reading=Reading(
            (
                r"^number of transactions actually processed: (?P<committed>\d+)",
                r"^number of failed transactions: (?P<failed>\d+)",
                r"^total number of retries: (?P<retried>\d+)",
                r"^latency average = (?P<latency_ms>[\d.]+) ms",
                r"^tps = (?P<tps>[\d.]+) \(without initial connection time\)",
            )
        ),
        counts="Scripts run to their end, without the time to connect; it has no warm-up of its own.",
    ),
    "benchbase": Profile(
        call="java -jar benchbase.jar -b tpcc -c config.xml --execute=true -d $PGDRAG_RESULTS",
        setup="java -jar benchbase.jar -b tpcc -c config.xml --create=true --load=true",
        reading=Reading(
            json_paths={
                "tps": ("Goodput (requests/second)",),
                "elapsed_ns": ("Elapsed Time (nanoseconds)",),
                "latency_us": ("Latency Distribution", "Average Latency (microseconds)"),
                "latency_us_p50": ("Latency Distribution", "Median Latency (microseconds)"),
                "latency_us_p95": (
                    "Latency Distribution",
                    "95th Percentile Latency (microseconds)",
                ),
                "latency_us_p99": (
                    "Latency Distribution",
                    "99th Percentile Latency (microseconds)",
                ),
                "latency_us_max": ("Latency Distribution", "Maximum Latency (microseconds)"),
            },
            result_file="*.summary.json",
        ),
        counts="Goodput: successes per second; those of a warm-up count in it, so leave <warmup> out. "
        "Its throughput would count errors and give-ups as well. Latency begins when a worker takes "
        "the work, not when it was due.",
    ),
    "hammerdb": Profile(
        call="hammerdbcli auto run.tcl",
        setup="hammerdbcli auto build.tcl",
        reading=Reading((r"System achieved (?P<tpm>\d+) NOPM",)),
        counts="New orders only (NOPM), counted in its tables over its own timed window; its TPM is the "
        "server's counter of all commits and rollbacks, whoever made them, and is not read.",
        transaction="new order",
    ),
    "sysbench": Profile(
        call="sysbench --db-driver=pgsql --pgsql-host=$PGHOST --pgsql-port=$PGPORT --pgsql-user=$PGUSER "
        "--pgsql-db=$PGDATABASE --threads=$PGDRAG_CONNECTIONS --time=$PGDRAG_DURATION_S "
        "--rand-seed=$PGDRAG_SEED oltp_read_write run",
        setup="sysbench --db-driver=pgsql --pgsql-host=$PGHOST --pgsql-port=$PGPORT --pgsql-user=$PGUSER "
        "--pgsql-db=$PGDATABASE oltp_read_write prepare",
        reading=Reading(
            (
                r"^ *transactions: +(?P<committed>\d+) +\((?P<tps>[\d.]+) per sec",
                r"^ *ignored errors: +(?P<failed>\d+)",
                r"^ *total time: +(?P<elapsed_s>[\d.]+)s",
                r"^ *avg: +(?P<latency_ms>[\d.]+)\n *max: +(?P<latency_ms_max>[\d.]+)"
                r"\n *95th percentile: +(?P<latency_ms_p95>[\d.]+)",
            )
        ),
        counts="Its events; one that met an ignored error was begun again with other values, and is "
        "shown as failed. With --rate, what piled up in its warm-up pollutes its latency.",
    ),
    "go-tpc": Profile(
        # It asks for a TCP host: "!" comes before the socket's directory, and the last one counts.
        call="go-tpc tpcc run -d postgres -H '!' -P $PGPORT -U $PGUSER -p none -D $PGDATABASE "
        '--conn-params "sslmode=disable&host=$PGHOST" -T $PGDRAG_CONNECTIONS '
        "--time ${PGDRAG_DURATION_S}s",
        setup="go-tpc tpcc prepare -d postgres -H '!' -P $PGPORT -U $PGUSER -p none -D $PGDATABASE "
        '--conn-params "sslmode=disable&host=$PGHOST" --no-check',
        reading=Reading(
            (
                r"^\[Summary\] (?!\w+_ERR\b)\w+ - .*?Count: (?P<committed>\d+)",
                r"^\[Summary\] \w+_ERR - .*?Count: (?P<failed>\d+)",
                r"^tpmC: [\d.]+, tpmTotal: (?P<tpm>[\d.]+)",
            )
        ),
        counts="Transactions that ended without an error, over all five types; it pings before each, so "
        "the server sees twice as many. An error ends a thread unless --ignore-error is given.",
    ),
}
