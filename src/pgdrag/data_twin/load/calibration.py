"""How are values chosen so that a statement does as much as in the original?

Each stratum of candidates (rows by lot, each key once, frequent keys, keys that are not there; at each level) is tried a
few times on the twin's server, in transactions that are rolled back. A linear programme finds shares of the strata that
give, on average, the rows and blocks that the original's calls had.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import psycopg

from pgdrag.data_twin.load.bench import CHANGES, MISSING, Bench, Given, Stratum
from pgdrag.data_twin.load.free import UNITS, unit_parameters
from pgdrag.data_twin.load.parameters import STEP
from pgdrag.data_twin.load.work import (
    Values,
    Work,
    average,
    balanced,
    best_shares,
    deviation,
    is_near,
    mean,
    own_wal,
    squared_error,
    wanted,
)

TRIES = 20  # of each stratum
_CERTAIN = 0.03  # standard error of what executions take on average, as a share of what they should
_SURE = 0.01  # standard error of what the original's calls take with values by lot, from which down any will do
_MOST_TRIES = 3000  # of a stratum
_SIZES = (1, 10, 100, 1000, 10_000)
_SIZE_ROUNDS = 3
_INNER_LIMITS = (10, 100, 1000)  # and 1
_NEARLY = 0.9  # of the blocks that are wanted
_NEAR_BOUNDS = 2  # steps, of which each has so many more rows: see STEP
_AS_GOOD = 0.5  # of what shares cost: see best_shares
_MOST_BALANCED = 200  # values of a statement of few calls
# A program seldom asks for what is not there: sooner for keys that have fewer rows.
_COSTS = {"asked": 0.0, "placed": 0.0, "row": 0.0, "joined": 0.005, "apart": 1.0, "absent": 2.0}
# Few keys that are changed wait for each other's rows more than the original's did, and few that are read are cached.
_BAND_COST, _CHANGED_BAND_COST = 0.2, 1.0


@dataclass(frozen=True)
class Calibrated:
    """Which shares of which strata a statement's values have.

    Attributes:
        work: an execution's with these, on average; None where none could be tried.
    """

    shares: tuple[tuple[Stratum, float], ...]
    work: Work | None = None


class Calibration:
    """The search for values of a statement that does as much with them as in the original."""

    def __init__(
        self,
        bench: Bench,
        *,
        asked: float = 0.0,
        is_placed: bool = False,
        most_absent: float = 1.0,
    ) -> None:
        """Begin.

        Args:
            asked: share of the original's calls whose values are in the table ASKED.
            is_placed: it also has others.
            most_absent: share of the calls that may ask for keys that no row has.
        """
        self._bench, self._one, self._drawn = bench, bench.one, bench.drawn
        self._asked, self._most_absent = asked, most_absent
        # What is not asked, or where nothing tells what is.
        self._other = "placed" if is_placed else "row"
        self._ends: list[Stratum] = []  # where a search for a bound ended

    def calibrated(self) -> Calibrated:
        """Try strata until shares of them do what the original's calls did, or nothing more is to be tried."""
        one = self._one
        is_plain_insert = one.change.kind == "insert" and not one.change.has_conflict
        if not one.types or (is_plain_insert and self._drawn.bound is None):
            likely = [*next(self._batches({}))]
            bases = [x for x in likely if x.level == likely[0].level]
            sizes = self._sizes(bases[0])
            bases = [replace(x, given=(*x.given, *sizes)) for x in bases]
            tries = TRIES if one.change.kind == "select" else CHANGES
            return self._ended({x: self._bench.tried(x, tries) for x in bases})
        found: dict[Stratum, Work | None] = {}
        for batch in self._batches(found):
            for stratum in batch:
                if stratum not in found and self._bench.effort.may_go_on:
                    found[stratum] = self._bench.tried(stratum, TRIES)
            if self._is_close(found):
                break
        self._refine(found)
        ended = self._ended(found)
        sizes = self._sizes(ended.shares[0][0])
        shares = tuple((replace(x, given=(*x.given, *sizes)), share) for x, share in ended.shares)
        return replace(ended, shares=shares)

    def _refine(self, found: dict[Stratum, Work | None]) -> None:
        """Try more of the strata that are used, until chance tells little of what they take on average."""
        target = self._target()
        kinds = ["rows", "blocks"] if self._weighs_blocks else ["rows"]
        while self._bench.effort.may_go_on:
            known = _known(found)
            if not known:
                return
            unsure: dict[Stratum, float] = {}
            shares = self._shares(known)
            for kind in kinds:
                errors = {
                    x: share**2
                    * squared_error([getattr(work, kind) for _, work in self._bench.executed[x]])
                    for x, share in shares.items()
                }
                if math.sqrt(sum(errors.values())) > _CERTAIN * max(getattr(target, kind), 0.5):
                    unsure |= {max(errors, key=errors.__getitem__): 0.0}
            unsure = {x: 0.0 for x in unsure if len(self._bench.executed[x]) < _MOST_TRIES}
            before = sum(len(self._bench.executed[x]) for x in unsure)
            for stratum in unsure:
                found[stratum] = self._bench.tried(stratum, len(self._bench.executed[stratum]))
            if sum(len(self._bench.executed[x]) for x in unsure) == before:
                return  # there are no more candidates

    def _sizes(self, stratum: Stratum) -> tuple[tuple[int, str], ...]:
        """Return sizes of what is written with which calls write as much WAL as the original's: `repeat($1, $2)`."""
        sizes, target = self._drawn.sizes, own_wal(self._target())
        if not sizes or not target:
            return ()

        def written(size: int) -> float | None:
            tried = replace(stratum, given=(*stratum.given, *((n, str(size)) for n in sizes)))
            works = self._bench.checked(self._bench.values(tried, CHANGES))
            return own_wal(average(works)) if works else None

        known: dict[int, float] = {}
        for size in _SIZES:
            wal = written(size)
            if wal is None:
                break
            known[size] = wal
            if wal > target:
                break
        for _ in range(_SIZE_ROUNDS):
            low = max((x for x in known if known[x] <= target), default=0)
            high = min((x for x in known if known[x] > target), default=0)
            if not low or high - low < 2:
                break
            size = round(low + (target - known[low]) / (known[high] - known[low]) * (high - low))
            size = min(max(size, low + 1), high - 1)
            wal = written(size)
            if wal is None:
                break
            known[size] = wal
        best = min(known, key=lambda x: abs(known[x] - target), default=None)
        return () if best is None else tuple((n, str(best)) for n in sizes)

    def _ended(self, found: Mapping[Stratum, Work | None]) -> Calibrated:
        known = _known(found)
        if not known:
            first = next(iter(next(self._batches({}))))
            return Calibrated(((first, 1.0),))
        shares = self._shares(known)
        return Calibrated(tuple(shares.items()), mean(shares, known))

    def _batches(self, found: Mapping[Stratum, Work | None]) -> Iterator[Iterable[Stratum]]:
        """Yield what to try: likely levels first, then other units of rounded times, other keys, all levels, and other limits."""
        drawn, limits = self._drawn, self._limits()
        modes = ["asked"] if self._asked else []
        modes += [self._other] if self._asked < 1 else []
        if self._bounds:
            yield self._searched(
                found, modes[0], [(*limits[0], x) for x in self._bounds], self._kinds
            )
            yield [replace(x, mode=mode) for x in self._near(found) for mode in modes]
        else:
            yield [Stratum(mode, level, limits[0]) for level in drawn.likely[:3] for mode in modes]
        near = self._near(found)
        if units := unit_parameters(self._one):
            yield [replace(x, given=(*x.given, *((n, unit) for n in units))) for x in near[:2] for unit in UNITS]  # fmt: skip
            # Where a scan reads all blocks, whatever the bound, how many groups there are tells both.
            for unit in UNITS if self._bounds else ():
                of_unit = tuple((n, unit) for n in units)
                yield self._searched(
                    found, modes[0], [(*limits[0], x, *of_unit) for x in self._bounds], ["rows"]
                )
            if known := _known(found):
                chosen = dict(next(iter(self._shares(known))).given)
                near = [replace(x, given=_with(x.given, tuple((n, chosen[n]) for n in units if n in chosen))) for x in near]  # fmt: skip
        first = ["joined"] * drawn.has_joins
        last = ["apart"] * bool(drawn.apart) + ["absent"] * bool(drawn.absent)
        yield [replace(x, mode=mode) for x in near for mode in (*first, *self._bands(x.level), *last)]  # fmt: skip
        yield [replace(x, level=level) for x in near[:1] for level in drawn.likely]
        yield [replace(x, given=_with(x.given, limit)) for limit in limits[1:] for x in near]  # fmt: skip

    @cached_property
    def _bounds(self) -> list[tuple[int, str]]:
        """Values for the parameter that is one bound for all candidates, each with more rows beyond it than the one before."""
        if self._drawn.bound is None:
            return []
        number, query = self._drawn.bound
        try:
            rows = self._bench.connection.execute(query.encode()).fetchall()
        except psycopg.Error:
            if self._bench.connection.closed:
                raise
            return []
        return [(number, value) for (value,) in dict.fromkeys(rows)]

    def _searched(
        self,
        found: Mapping[Stratum, Work | None],
        mode: str,
        steps: Sequence[Given],
        kinds: Sequence[str],
    ) -> Iterator[Stratum]:
        """Yield strata until the first is found that takes as many rows as it should, and as many blocks: those before take less.

        Of blocks also the first that takes nearly as many: many bounds may take the same.
        """
        strata = [Stratum(mode, self._drawn.likely[0], given) for given in steps]
        for kind in kinds:
            wanted_ = getattr(self._target(), kind)
            for least in (wanted_,) if kind == "rows" else (wanted_, _NEARLY * wanted_):
                values = {at: math.inf if (work := found[x]) is None else getattr(work, kind) for at, x in enumerate(strata) if x in found}  # fmt: skip
                low = max((at for at, value in values.items() if value < least), default=0)
                high = min((at for at, value in values.items() if value >= least and at > low), default=len(strata) - 1)  # fmt: skip
                at = (low + high) // 2
                while low < at < high:
                    yield strata[at]
                    work, before = found.get(strata[at]), high - low
                    # What takes too long has too many.
                    value = math.inf if work is None else getattr(work, kind)
                    low, high = (at, high) if value < least else (low, at)
                    # It mostly takes as many times as much as there are times as many rows.
                    ahead = math.log((least + 1) / (value + 1), STEP) if work else 0.0
                    is_slow = work is None or high - low > before / 2
                    at = (low + high) // 2 if is_slow else min(max(at + round(ahead), low + 1), high - 1)  # fmt: skip
                yield from (strata[low], strata[high])
                self._ends += [strata[high]]

    @property
    def _kinds(self) -> list[str]:
        """What tells whether values are right, the more telling first."""
        of_blocks = ["blocks"] if self._weighs_blocks else []
        is_of_rows = self._target().rows > 1 and not (of_blocks and unit_parameters(self._one))
        return ["rows", *of_blocks] if is_of_rows else [*of_blocks, "rows"]

    def _near(self, found: Mapping[Stratum, Work | None]) -> list[Stratum]:
        """Return strata at the levels that were nearest to what is wanted, and at the one that should be right."""
        target, kind = self._target(), self._kinds[0]

        def distance(stratum: Stratum) -> float:
            work = found[stratum]
            return abs(math.log((getattr(work, kind) + 1) / (getattr(target, kind) + 1))) if work else math.inf  # fmt: skip

        likely = [Stratum(self._other, x, self._limits()[0]) for x in self._drawn.likely[:1]]
        chosen = self._ends or [*sorted(found, key=distance)[:2], *likely]
        return list(dict.fromkeys(replace(x, mode=self._other) for x in chosen))

    def _bands(self, level: int) -> Iterator[str]:
        if not self._drawn.is_unique:
            band = self._drawn.band(level)
            rows = self._bench.connection.execute(f"SELECT DISTINCT {band} FROM {self._bench.candidates} WHERE {band} IS NOT NULL ORDER BY 1".encode())  # fmt: skip
            yield from (str(band) for (band,) in rows.fetchall())

    def _limits(self) -> list[tuple[tuple[int, str], ...]]:
        """Return values for LIMIT and OFFSET: as many rows as calls returned, and then more."""
        wanted = self._one.wanted.rows / max(self._one.wanted.calls, 1)
        of = self._one.limits
        most = max(1, math.ceil(wanted))
        sizes = list(dict.fromkeys([most, max(1, math.floor(wanted)), 2 * most, 10 * most]))
        plain = {"offset": "0", "inner": "1"}
        found = [tuple((n, plain.get(kind, str(size))) for n, kind in of.items()) for size in sizes]
        if "inner" in of.values():
            found += [
                tuple((n, str(size) if of[n] == "inner" else value) for n, value in found[0])
                for size in _INNER_LIMITS
            ]
        if "offset" in of.values():
            found += [
                tuple((n, str(offset) if of[n] == "offset" else value) for n, value in found[0])
                for offset in (most, 10 * most, 100 * most)
            ]
        return list(dict.fromkeys(found))

    def _target(self) -> Work:
        return wanted(self._one)

    def _is_close(self, found: Mapping[Stratum, Work | None]) -> bool:
        known = _known(found)
        if not known:
            return False
        return self._is_near_target(mean(self._shares(known), known))

    def _is_near_target(self, work: Work) -> bool:
        target = self._target()
        return is_near(work.rows, target.rows) and (not self._weighs_blocks or is_near(work.blocks, target.blocks))  # fmt: skip

    @property
    def _weighs_blocks(self) -> bool:
        # What a change touches depends on the rows' state far more than on which they are.
        return self._one.change.kind == "select"

    def _shares(self, tried: Mapping[Stratum, Work]) -> dict[Stratum, float]:
        # Where rows do not tell whether a key is there, as with an aggregate's, blocks alone must not make it miss.
        there = {
            (x.level, x.given): work.rows for x, work in tried.items() if x.mode == self._other
        }
        known = {x: work for x, work in tried.items() if x.mode not in MISSING or there.get((x.level, x.given)) != work.rows}  # fmt: skip
        if len(known) == 1 or not self._one.wanted.calls:
            return {next(iter(known)): 1.0}
        constants = list(dict.fromkeys(map(self._constants, known)))
        if len(constants) > 1:
            chosen = self._chosen(constants, known)
            known = {x: work for x, work in known.items() if self._constants(x) in chosen}
        shares = self._fitted([*known], known)[1]
        return {x: share for x, share in zip(known, shares, strict=True) if share > 0.001}

    def _chosen(self, constants: Sequence[Given], tried: Mapping[Stratum, Work]) -> list[Given]:
        """Return the constants that the program may have: one, or bounds beside each other of which none alone is right.

        Of several bounds that are right it is the middle one: as the load goes on, more rows lie between the present and the first.
        """
        # With other keys, which are tried with some constants, anything may be fitted.
        plain = [x for x in tried if x.mode in ("asked", self._other)] or [*tried]
        of = {x: some for x in constants if (some := [y for y in plain if self._constants(y) == x])}
        fitted = {x: self._fitted(some, tried) for x, some in of.items()}
        best = min(fitted, key=lambda x: fitted[x][0])

        def is_right(one: Given) -> bool:
            cost, shares = fitted[one]
            work = mean(dict(zip(of[one], shares, strict=True)), tried)
            return cost <= fitted[best][0] + _AS_GOOD and self._is_near_target(work)

        if not self._bounds:
            return [best]
        place = {x: at for at, x in enumerate(self._bounds)}
        alike = [x for x in of if x[:-1] == best[:-1]]
        if right := sorted(filter(is_right, alike), key=lambda x: place[x[-1]]):
            return [right[len(right) // 2]]
        return [x for x in alike if abs(place[x[-1]] - place[best[-1]]) <= _NEAR_BOUNDS]

    def _fitted(
        self, strata: Sequence[Stratum], tried: Mapping[Stratum, Work]
    ) -> tuple[float, list[float]]:
        is_asked = [x.mode == "asked" for x in strata]
        is_missing = [x.mode in MISSING for x in strata]
        return best_shares(
            [tried[x] for x in strata], self._target(),
            together=(is_asked, self._asked) if any(is_asked) and not all(is_asked) else None,
            at_most=(is_missing, self._most_absent) if any(is_missing) and not all(is_missing) else None,
            weighs_blocks=self._weighs_blocks, costs=[_COSTS.get(x.mode, _BAND_COST if self._weighs_blocks else _CHANGED_BAND_COST) for x in strata],
        )  # fmt: skip

    def _constants(self, stratum: Stratum) -> Given:
        """Return the values of parameters that a program has one value for: units of times, and then how long ago."""
        given = dict(stratum.given)
        numbers = [*unit_parameters(self._one), *(number for number, _ in self._bounds[:1])]
        return tuple((n, given.get(n, "")) for n in numbers)

    def balanced(self, calibrated: Calibrated) -> list[Values]:
        """Return as many values as there were calls, in an order of which `balanced` tells; of a slow statement those that were tried.

        Nothing, where so many calls do on average what they should whichever values they have.
        """
        tried = {x: self._bench.executed.setdefault(x, []) for x, _ in calibrated.shares}
        works = [work for some in tried.values() for _, work in some]
        calls, target = max(self._one.wanted.calls, 1), self._target()
        if not works or deviation(works) <= _SURE * math.sqrt(calls) * (target.rows + target.blocks):  # fmt: skip
            return []
        for stratum, share in calibrated.shares:
            wanted_, before = share * min(calls, _MOST_BALANCED), -1
            while self._bench.effort.may_go_on and before < (done := len(tried[stratum])) < wanted_:
                before = done
                self._bench.tried(stratum, math.ceil(wanted_) - done)
        most = min((len(tried[x]) / share for x, share in calibrated.shares), default=0.0)
        chosen = [one for x, share in calibrated.shares for one in tried[x][: round(most * share)]]
        return [values for values, _ in balanced(chosen, target)]


def _known(found: Mapping[Stratum, Work | None]) -> dict[Stratum, Work]:
    return {stratum: work for stratum, work in found.items() if work is not None}


def _with(given: Given, others: Given) -> Given:
    """Return given values, with others where there are some for the same parameters."""
    return tuple((dict(given) | dict(others)).items())
