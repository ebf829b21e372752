"""Which rows does a session have for itself? No log tells, but nobody waits for them though they are few and always in use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from pgdrag.data_twin.load.constants import Home
from pgdrag.data_twin.load.kinds import Constant, TransactionType
from pgdrag.data_twin.load.links import columns_by_parameter, foreign_keys, key_parameters, origin
from pgdrag.data_twin.load.statements import Analysed
from pgdrag.data_twin.load.texts import is_locking
from pgdrag.twins.model import Twin

# A change's time includes some tens of microseconds of its own work: a shorter wait cannot be told apart from that.
_LEAST_S = 50e-6
_LEAST_CALLS = 1000  # of which the mean time is known to some per cent, whatever a single wait was
# Rows in use are taken for equally often used, and sessions for always at work: that may be wrong by a factor of two, not of three.
_LESS_BY = 3.0
# A table is changed as often as its parent where each transaction changes both: then it waits for the parent's row and never for
# its own. The margin is above what a window cuts off and rolls back.
_MORE_THAN_PARENT = 1.2


@dataclass(frozen=True)
class OwnedRows:
    """A table of whose rows each session changes its own.

    Attributes:
        statement: whose pool has their keys.
        parameters: of it, by the key's columns.
    """

    table: str
    statement: int
    parameters: Mapping[str, int]

    def home(self, column: str) -> Home:
        """Return where the values of a key's column come from."""
        return Home(self.statement, self.parameters[column], is_own=True)

    def group(self, column: str) -> int:
        """Return the number of the constants that have a column's values."""
        return -(1000 * self.statement + self.parameters[column])


def owned_rows(known: Mapping[int, Analysed], twin: Twin) -> list[OwnedRows]:
    """Return tables whose rows' changes wait far less than they would if all sessions changed any of them."""
    changed: dict[str, list[int]] = {}
    for number, one in known.items():
        if one.change.kind == "update" and one.table is not None and key_parameters(one, one.table.name):  # fmt: skip
            changed.setdefault(one.table.name, []).append(number)
    calls = {table: sum(known[x].wanted.calls for x in some) for table, some in changed.items()}
    parents = {
        (x.table, x.parent) for x in foreign_keys(twin, known.values()) if x.parent != x.table
    }
    found = []
    for table, some in changed.items():
        is_beneath = any(
            calls[table] <= _MORE_THAN_PARENT * calls.get(parent, 0) for child, parent in parents if child == table
        )  # fmt: skip
        # Who waits does so where the row is locked first.
        waited_s = sum(x.wanted.exec_s for x in known.values() if _locks(x, table)) / max(calls[table], 1)  # fmt: skip
        if not is_beneath and _wait_by_lot_s(known[some[0]], calls[table], twin) > _LESS_BY * waited_s:  # fmt: skip
            best = max(some, key=lambda x: known[x].wanted.calls)
            found.append(OwnedRows(table, best, key_parameters(known[best], table)))
    return found


def _locks(one: Analysed, table: str) -> bool:
    """Whether a statement locks a row of a table by its key."""
    return (one.change.kind in ("update", "delete") or is_locking(one.text)) and bool(
        key_parameters(one, table)
    )


def _wait_by_lot_s(one: Analysed, calls: int, twin: Twin) -> float:
    """Return about how long each change would wait for others, if sessions took any rows; 0 where that tells nothing."""
    activity, sessions = twin.activity, twin.activity.most_active
    transactions = (activity.commits or 0) + (activity.rollbacks or 0)
    if sessions < 2 or not transactions or activity.active_s is None or calls < _LEAST_CALLS:
        return 0.0
    assert one.table is not None, "it is a change"
    rows = next((x.rows for x in one.roots.values() if x.name == one.table.name), 0.0)
    if rows < sessions:
        return 0.0
    held_s = (activity.active_s + (activity.idle_in_transaction_s or 0.0)) / transactions
    busy = calls / twin.workload.window_s * held_s / rows * (sessions - 1) / sessions
    wait_s = min(busy, 1.0) * held_s / 2
    return wait_s if wait_s >= _LEAST_S else 0.0


def with_owned(
    kind: TransactionType, found: list[OwnedRows], known: Mapping[int, Analysed]
) -> TransactionType:
    """Return a transaction that changes rows of the session's own, where it has some of such a table."""
    constants = {(x.step, x.parameter): x for x in kind.constants}
    for one in found:
        for (step, parameter), group in _places(kind, one, known):
            constants[step, parameter] = Constant(step, parameter, group)
    return replace(kind, constants=tuple(constants.values()))


def _places(
    kind: TransactionType, owned: OwnedRows, known: Mapping[int, Analysed]
) -> Iterator[tuple[tuple[int, int], int]]:
    """Yield where the key of the first row that is locked comes from in the transaction, and of which column it is."""
    links = {(x.step, x.parameter): x for x in kind.links}
    for at, step in enumerate(kind.steps):
        one = known.get(step.statement)
        if one is None or not _locks(one, owned.table):
            continue
        parameters = key_parameters(one, owned.table)
        if parameters.keys() != owned.parameters.keys():
            continue
        places = []
        for column, parameter in parameters.items():
            place = origin(links, (at, parameter))
            if place is None:
                return
            places.append((place, owned.group(column)))
        yield from places
        return


def homes_of_owned(
    found: list[OwnedRows], kept: Mapping[int, Home], known: Mapping[int, Analysed], twin: Twin
) -> dict[int, Home]:
    """Return where constants come from: of sessions that have rows of their own, from their keys."""
    columns = columns_by_parameter(known, twin)
    own = {x.group(column): x.home(column) for x in found for column in x.parameters}
    by_column = {columns.get((x.statement, x.parameter)): x for x in own.values()}
    return {
        group: by_column.get(columns.get((x.statement, x.parameter)), x)
        for group, x in kept.items()
    } | own
