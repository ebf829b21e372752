"""What does another program say that it did? Its figures, by named pattern or JSON path.

Pure: text in, figures out. The names of the figures say their unit; whoever reads them gets seconds,
counts and microseconds.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

JsonPath = tuple[str | int, ...]

# Figure → what one of it is in the unit that is kept. The rest are counts and rates.
_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_QUALIFIERS = ("", "_p50", "_p95", "_p99", "_max")
_COUNTS = ("committed", "failed", "retried")
FIGURES = (
    "tps",
    "tpm",
    *_COUNTS,
    *(f"elapsed_{unit}" for unit in _UNITS),
    *(f"latency_{unit}{qualifier}" for unit in _UNITS for qualifier in _QUALIFIERS),
)


class Unreadable(Exception):
    """The program ended well, but its result cannot be read; the message says why."""


@dataclass(frozen=True)
class Reading:
    """How a result is read: patterns over what was printed, or paths into a JSON document.

    Attributes:
        patterns: regular expressions with named groups, each named by a figure. Of several matches
            the last counts, but counts (`committed`, `failed`, `retried`) are added up.
        json_paths: where in the JSON document each figure is.
        result_file: the document's file, a pattern such as "*.summary.json" below the directory for
            results, of which the newest counts; None: what was printed.
    """

    patterns: tuple[str, ...] = ()
    json_paths: Mapping[str, JsonPath] = field(default_factory=dict)
    result_file: str | None = None


@dataclass(frozen=True)
class Figures:
    """What a program says that it did; what it does not say is None.

    Attributes:
        committed: transactions, counted by it, or its rate times its time.
        latency_us: by qualifier: "mean", "p50", "p95", "p99", "max"; in microseconds.
    """

    tps: float
    elapsed_s: float
    committed: int
    failed: int = 0
    retried: int = 0
    latency_us: Mapping[str, float] = field(default_factory=dict)


def check_figures(names: Iterable[str]) -> None:
    """Refuse names that are no figures.

    Raises:
        ValueError: one is none.
    """
    for name in names:
        if name not in FIGURES:
            raise ValueError(
                f'"{name}" is not a figure; use tps, tpm, committed, failed, retried, elapsed_s, '
                "latency_ms, latency_ms_p99 and the like"
            )


def read_figures(text: str, reading: Reading, *, asked_s: float) -> Figures:
    """Return the figures of one run.

    Args:
        text: what the program printed, or the content of its result file.
        reading: how to read it.
        asked_s: how long the program was asked to run, for one that does not say how long it did.

    Raises:
        Unreadable: the text has no rate in it, or figures that cannot be.
    """
    found: dict[str, float] = {}
    if reading.json_paths:
        document = _document(text)
        found = {name: _number(name, _at(document, x)) for name, x in reading.json_paths.items()}
    for pattern in reading.patterns:
        matches: dict[str, float] = {}
        for match in re.finditer(pattern, text, re.MULTILINE):
            for name, value in match.groupdict().items():
                if value is not None:
                    before = matches.get(name, 0.0) if name in _COUNTS else 0.0
                    matches[name] = before + _number(name, value)
        found |= matches
    if not found:
        raise Unreadable("nothing in its output matches what was to be read")
    for name, value in found.items():
        if not math.isfinite(value) or value < 0:
            raise Unreadable(f"its {name} is {value:g}")
    return _figures(found, asked_s)


def _figures(found: Mapping[str, float], asked_s: float) -> Figures:
    elapsed_s = next(
        (found[f"elapsed_{x}"] * u for x, u in _UNITS.items() if f"elapsed_{x}" in found), None
    )
    tps = found.get("tps", found["tpm"] / 60 if "tpm" in found else None)
    committed = found.get("committed")
    if committed is not None and tps:
        # Both are the program's own: so is then the time that they span.
        elapsed_s = elapsed_s or committed / tps
    elapsed_s = elapsed_s or asked_s
    if committed is None:
        if tps is None:
            raise Unreadable("it has no rate in it: neither tps, tpm nor committed was found")
        committed = tps * elapsed_s
    return Figures(
        tps=committed / elapsed_s if tps is None else tps,
        elapsed_s=elapsed_s,
        committed=round(committed),
        failed=round(found.get("failed", 0)),
        retried=round(found.get("retried", 0)),
        latency_us={
            qualifier.removeprefix("_") or "mean": found[name] * size * 1e6
            for unit, size in _UNITS.items()
            for qualifier in _QUALIFIERS
            if (name := f"latency_{unit}{qualifier}") in found
        },
    )


def _document(text: str) -> object:
    for candidate in (text, text.strip().rpartition("\n")[2]):
        try:
            return json.loads(candidate)
        except (ValueError, RecursionError):
            continue
    raise Unreadable("it is not JSON, nor does it end with a line of JSON")


def _at(document: object, path: JsonPath) -> object:
    here = document
    try:
        for part in path:
            if isinstance(here, dict):
                here = here[part]
            elif isinstance(here, list):
                here = here[int(part)]
            else:
                raise KeyError(part)
    except (LookupError, ValueError):
        raise Unreadable(f"its JSON has nothing at {' → '.join(map(str, path))}") from None
    return here


def _number(name: str, value: object) -> float:
    try:
        return float(value.replace(",", "") if isinstance(value, str) else value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise Unreadable(f"its {name} is not a number: {str(value)[:40]!r}") from None


@dataclass(frozen=True)
class Profile:
    """How a well-known program is called, and what is read of what it prints.

    Each was held against output of the program itself (tests/pure/program_output).

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
