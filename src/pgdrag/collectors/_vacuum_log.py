"""What does the server's log say of one automatic vacuum or analyze?"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pgdrag.english import counted
from pgdrag.units import format_bytes, format_duration

# The server cuts its times off after the hundredths of a second, and rounds its rates.
CUT_S = 0.01
_MB = 2**20
RATE_STEP_BYTES_PER_S = 0.001 * _MB
_FIRST_LINE = re.compile(
    r"^automatic (?:aggressive )?(?P<kind>vacuum|analyze) (?:to prevent wraparound )?of table"
    r' "(?P<table>.+)"'
)
_NUMBERS = [
    re.compile(line, re.MULTILINE)
    for line in (
        r"^pages: (?P<pages_removed>\d+) removed, (?P<pages_remain>\d+) remain,"
        # The second form is that of before 15.
        r" (?:(?P<scanned>\d+) scanned|(?P<pinned>\d+) skipped due to pins, (?P<skipped_frozen>\d+) skipped frozen)",
        r"^tuples: (?P<removed>\d+) removed, \d+ remain, (?P<kept>\d+) are dead but not yet removable",
        r"^removable cutoff: \d+, which was (?P<cutoff_age>\d+) XIDs old",
        # Since 16.
        r"^frozen: (?P<pages_frozen>\d+) pages from table \(.*\) had (?P<tuples_frozen>\d+) tuples frozen",
        # Since 18.
        r"^visibility map: (?P<all_visible>\d+) pages set all-visible, (?P<all_frozen>\d+) pages set all-frozen",
        # "misses" became "reads" in 18.
        r"^buffer usage: \d+ hits, (?P<read>\d+) (?:misses|reads), (?P<dirtied>\d+) dirtied",
        r"^WAL usage: \d+ records, \d+ full page images, (?P<wal_bytes>\d+) bytes",
    )
]
_RATES = re.compile(
    r"^avg read rate: (?P<read>[\d.]+) MB/s, avg write rate: (?P<written>[\d.]+) MB/s", re.MULTILINE
)
_USAGE = re.compile(
    r"^system usage: CPU: user: (?P<user>[\d.]+) s, system: (?P<system>[\d.]+) s, elapsed: (?P<elapsed>[\d.]+) s",
    re.MULTILINE,
)
# Of the dead that a vacuum finds, those of transactions that rolled back may go under any horizon.
_HARDLY_ANY = 0.05


@dataclass(frozen=True)
class Work:
    """One automatic vacuum or analyze of one table; None: the server does not say.

    Attributes:
        kind: "vacuum" or "analyze".
        table: with its schema, without the database.
        removed: dead tuples taken away.
        kept: dead tuples that some snapshot may still see.
        cutoff_age: how many transactions the oldest of those snapshots was behind at the end (since 15).
        blocks_read: from outside of shared buffers.
        blocks_dirtied: that were clean before.
        user_cpu_s: processor time; this and all times are cut off after hundredths.
        read_bytes_per_s: of blocks read, over a time that the server measures more precisely than it logs.
        write_bytes_per_s: of blocks dirtied, which is what the server calls its write rate.
        pages_frozen: in which it froze tuples (since 16).
        pages_set_all_visible: in the visibility map (since 18).
        pages_set_all_frozen: in the visibility map (since 18).
    """

    kind: str
    table: str
    elapsed_s: float = 0.0
    pages_scanned: int = 0
    removed: int = 0
    kept: int = 0
    cutoff_age: int | None = None
    blocks_read: int | None = None
    blocks_dirtied: int | None = None
    wal_bytes: int | None = None
    user_cpu_s: float = 0.0
    system_cpu_s: float = 0.0
    read_bytes_per_s: float | None = None
    write_bytes_per_s: float | None = None
    pages_frozen: int | None = None
    tuples_frozen: int | None = None
    pages_set_all_visible: int | None = None
    pages_set_all_frozen: int | None = None

    @property
    def is_futile(self) -> bool:
        """Whether it found nothing to remove, or had to leave nearly all that it found."""
        return self.removed <= _HARDLY_ANY * (self.removed + self.kept)

    @property
    def is_held_back(self) -> bool:
        """Whether it was futile because of what some snapshot may still see."""
        return self.is_futile and self.kept > 0

    @property
    def words(self) -> str:
        """Describe it on one line."""
        parts = []
        if self.kind == "vacuum":
            parts.append(f"{self.pages_scanned:,} pages scanned")
            tuples = f"{self.removed:,} tuples removed, {self.kept:,} dead but not removable"
            if self.cutoff_age is not None:
                tuples += f", cutoff {counted(self.cutoff_age, 'transaction')} old"
            parts.append(tuples)
        if self.pages_frozen is not None:
            parts.append(
                f"{self.tuples_frozen:,} tuples frozen in {counted(self.pages_frozen, 'page')}"
            )
        if self.pages_set_all_visible is not None:
            parts.append(
                f"{counted(self.pages_set_all_visible, 'page')} set all-visible,"
                f" {self.pages_set_all_frozen:,} all-frozen"
            )
        if self.blocks_read is not None:
            parts.append(f"{self.blocks_read:,} blocks read, {self.blocks_dirtied:,} dirtied")
        if self.read_bytes_per_s is not None and self.write_bytes_per_s is not None:
            rates = format_bytes(self.read_bytes_per_s), format_bytes(self.write_bytes_per_s)
            parts.append("read at {}/s, dirtied at {}/s".format(*rates))
        if self.wal_bytes is not None:
            parts.append(f"{format_bytes(self.wal_bytes)} of WAL")
        if cpu_s := self.user_cpu_s + self.system_cpu_s:
            parts.append(f"{format_duration(cpu_s)} on CPU")
        return ": ".join(part for part in (self.table, "; ".join(parts)) if part)


def parse_work(message: str) -> Work | None:
    """Read the log message of a vacuum or an analyze, as versions 14 to 18 write it; None: another."""
    first = _FIRST_LINE.match(message)
    if first is None:
        return None
    found = (line.search(message) for line in _NUMBERS)
    texts = {name: text for one in found if one for name, text in one.groupdict().items()}
    numbers = {name: int(text) for name, text in texts.items() if text is not None}
    if first["kind"] == "vacuum" and not {"removed", "pages_removed"} <= numbers.keys():
        return None
    skipped = numbers.get("pinned", 0) + numbers.get("skipped_frozen", 0)
    of_table = numbers.get("pages_removed", 0) + numbers.get("pages_remain", 0)
    rates, usage = _RATES.search(message), _USAGE.search(message)
    return Work(
        kind=first["kind"],
        table=first["table"].partition(".")[2] or first["table"],
        elapsed_s=float(usage["elapsed"]) if usage else 0.0,
        pages_scanned=numbers.get("scanned", max(0, of_table - skipped)),
        removed=numbers.get("removed", 0),
        kept=numbers.get("kept", 0),
        cutoff_age=numbers.get("cutoff_age"),
        blocks_read=numbers.get("read"),
        blocks_dirtied=numbers.get("dirtied"),
        wal_bytes=numbers.get("wal_bytes"),
        user_cpu_s=float(usage["user"]) if usage else 0.0,
        system_cpu_s=float(usage["system"]) if usage else 0.0,
        read_bytes_per_s=float(rates["read"]) * _MB if rates else None,
        write_bytes_per_s=float(rates["written"]) * _MB if rates else None,
        pages_frozen=numbers.get("pages_frozen"),
        tuples_frozen=numbers.get("tuples_frozen"),
        pages_set_all_visible=numbers.get("all_visible"),
        pages_set_all_frozen=numbers.get("all_frozen"),
    )
