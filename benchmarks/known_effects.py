"""Make the shipped table of what settings were measured to do, from runs of this machine's journal.

    pgdrag run benchmarks/single-settings.toml
    python -m benchmarks.known_effects last

Rows of a run that is in the table already are replaced; all others, also those of pages of docs/studies, stay.
`--list` prints what a run says and writes nothing.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pgdrag.experiment
from pgdrag.experiment.known_effects import KnownEffect, effects_of, read, written
from pgdrag.findings.wording import slowdown_words
from pgdrag.journal import Journal, home_directory

TABLE = Path(pgdrag.experiment.__file__).with_name("known_effects.json")


def main() -> None:
    """Read the arguments and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.known_effects")
    parser.add_argument("runs", nargs="+", metavar="RUN", help="id of a run, or last")
    parser.add_argument("--list", action="store_true", help="print the rows and write nothing")
    given = parser.parse_args()
    journal = Journal(home_directory() / "journal.sqlite")
    rows = [row for run in given.runs for row in effects_of(journal.run(journal.find(run)))]
    for row in rows:
        print(line(row))
    if not given.list:
        TABLE.write_text(written(merged(read(TABLE.read_text("utf-8")), rows)), encoding="utf-8")


def merged(known: tuple[KnownEffect, ...], rows: list[KnownEffect]) -> list[KnownEffect]:
    """Return the table with the rows of runs in place of what it has of them."""
    sources = {row.source for row in rows}
    return [*(row for row in known if row.source not in sources), *rows]


def line(row: KnownEffect) -> str:
    """Return a row for people."""
    changes = ", ".join(
        f"{x.name} {x.before or 'default'} → {x.after or 'default'}" for x in row.changes
    )
    return f"{changes}: {slowdown_words(row.interval)}, {row.beside}; {row.workload}"


if __name__ == "__main__":
    main()
