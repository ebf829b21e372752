"""How far back is the horizon held while the workload runs? By holders of pgdrag's own, as levels plan them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pgdrag.english import counted
from pgdrag.errors import ServerError
from pgdrag.factors import Example, Factor, Here, Problem
from pgdrag.findings.holds.levels import DEFAULTS, FACTOR, HOLDER, NOTHING, REPLAY
from pgdrag.horizon.distribution_file import inlined
from pgdrag.horizon.holders import LOST_SILENTLY, HoldPlace, all_holders
from pgdrag.horizon.levels import HorizonLevels, kinds_of, read_levels, unsupported
from pgdrag.horizon.runner import Cleanup, HoldRunner, MadeHold
from pgdrag.horizon.schedule import Hold
from pgdrag.host.clock import CLOCK
from pgdrag.model import Applied, Level, Trial
from pgdrag.model.recordings import HOLD_EVENT, Event, Recordings
from pgdrag.units import format_duration

if TYPE_CHECKING:
    from pgdrag.servers.cluster import Cluster

_FIRST_TIMEOUT_S = 60.0
# What a trial does before and after its load; a hold of its sessions lasts no longer than all that.
_AROUND_S = 3600.0
_MOST_EVENTS = 1000
CLEANUP_EVENT = "vacuum by pgdrag"  # event of what was done after the last hold


class HeldHorizon(Factor):
    """Sessions, prepared transactions, a slot or a standby that keep old row versions from being removed."""

    name = FACTOR
    summary = (
        "who holds the horizon back, and for how long: holder = any that pgdrag list shows; "
        "hold, pattern, begin, replay …"
    )
    examples = (
        Example(Level(name, HOLDER, "transaction"), "transaction", Level(name, HOLDER, "somebody")),
        Example(Level(name, HOLDER, "snapshot"), "snapshot", Level(name, "holds", "window")),
    )
    reads_back_late = True

    def __init__(self) -> None:
        self._seed = 1
        self._warm_up_s = 0.0
        self._window_s = 60.0
        self._asked = HorizonLevels()
        self._holds: tuple[Hold, ...] = ()
        self._needed: dict[str, str] = {}
        self._runner: HoldRunner | None = None
        self._refused = ""
        self._window_unix_s = 0.0

    def check(self, levels: Sequence[Level], here: Here) -> list[Problem]:
        """Return as mistakes what cannot be held anywhere, and as untestable what the treatment's own settings rule out."""
        asked, wrong = read_levels({level.name: level.value for level in levels})
        of = {level.name: level for level in levels}
        return [
            Problem(of[one.name], one.is_mistake, one.message, one.hint)
            for one in (*wrong, *unsupported(asked, here.settings_asked))
        ]

    @classmethod
    def inlined(cls, name: str, value: str, directory: Path) -> str:
        return inlined(value, directory) if name == REPLAY else value

    @classmethod
    def more_clusters(cls, levels: Mapping[str, str]) -> int:
        """Return 1 where holders need a standby, whatever their number."""
        asked, _ = read_levels(levels)
        return int(any(all_holders()[name].needs_cluster for name in asked.kinds))

    def serve(self, trial: Trial) -> None:
        self._seed = trial.seed
        self._warm_up_s = trial.load.warm_up_s
        self._window_s = trial.load.budget_s

    def before_start(self, cluster: Cluster, levels: Mapping[str, str]) -> None:
        self._asked, _ = read_levels(levels)
        self._holds = self._asked.holds(
            warm_up_s=self._warm_up_s, window_s=self._window_s, seed=self._seed
        )
        kinds = kinds_of(self._holds)
        self._needed = {name: x for kind in kinds for name, x in kind.settings.items()}
        cluster.needed = self._needed

    def after_start(self, cluster: Cluster, levels: Mapping[str, str]) -> None:
        """Make standbys and slots; hold already where the load is to find it held."""
        if not self._holds:
            return
        longest_s = self._warm_up_s + self._window_s + _AROUND_S
        place = HoldPlace(cluster.conninfo(), longest_s, cluster)
        after = self._asked.after_release
        cleanup = None if after == NOTHING else Cleanup(place, after)
        self._runner = HoldRunner(place, self._holds, cleanup)
        try:
            self._runner.prepare()
        except ServerError as error:
            self._refused = error.message
            return
        if self._asked.begin_s is None:
            self._runner.begin(window_in_s=self._warm_up_s)
            self._runner.wait_for_first(_FIRST_TIMEOUT_S)

    def window_began(self, cluster: Cluster) -> None:
        self._window_unix_s = CLOCK.unix_s()
        if self._runner is not None and not self._refused and self._asked.begin_s is not None:
            self._runner.begin()

    def read_back(self, cluster: Cluster, levels: Mapping[str, str]) -> list[Applied]:
        """Return what was held, if the horizon's age shows it."""
        if self._runner is not None and not self._refused:
            self._runner.watch.sample()
        return [self._applied(Level(self.name, *level)) for level in levels.items()]

    def recordings(self, started_unix_s: float) -> Recordings:
        """Return each hold, and what was done when the last had ended."""
        if self._runner is None:
            return Recordings()
        made, cleanup = self._runner.made, self._runner.cleanup
        events = [_hold_event(one, started_unix_s) for one in made[:_MOST_EVENTS]]
        if len(made) > _MOST_EVENTS:
            more = made[_MOST_EVENTS:]
            events.append(replace(_hold_event(more[0], started_unix_s), count=len(more)))
        if cleanup is not None and cleanup.began_unix_s is not None:
            begin_s = cleanup.began_unix_s - started_unix_s
            end = cleanup.ended_unix_s
            end_s = None if end is None else end - started_unix_s
            events.append(Event(CLEANUP_EVENT, begin_s, end_s, cleanup.words))
        return Recordings(events)

    def failure(self, cluster: Cluster) -> str:
        if self._runner is None or self._refused:
            return ""
        return self._failure(self._runner)

    def undo(self, cluster: Cluster) -> None:
        runner, self._runner = self._runner, None
        if runner is None:
            return
        troubles = runner.end()
        is_cut_short = runner.cleanup is not None and runner.cleanup.is_cut_short
        if troubles or is_cut_short:
            # Not as it was: no other trial goes on with it.
            cluster.stop(fast_timeout_s=0)
        if troubles:
            raise ServerError("; ".join(troubles))

    def _applied(self, level: Level) -> Applied:
        default = DEFAULTS[level.name]
        if not self._asked.is_held:
            if level.name in (HOLDER, REPLAY):
                return Applied(level, default, default=default)
            return Applied(level, level.value, default=default, how="nobody holds")
        why = self._refused or self._why_not()
        if why:
            return Applied(level, None, why, default)
        is_significant = level.name in (HOLDER, REPLAY)
        return Applied(
            level, level.shown, default=default, how=self._how() if is_significant else ""
        )

    def _why_not(self) -> str:
        """Return why the horizon was not held as requested: a clause, or ""."""
        if self._runner is None:
            return "nothing was held: the trial has not begun"
        return self._failure(self._runner) or (
            "" if self._runner.made else "nothing was held: the window ended before the first hold"
        )

    def _failure(self, runner: HoldRunner) -> str:
        if runner.failed:
            return runner.failed[0]
        if runner.making is not None and not runner.made:
            return f"the first hold ({runner.making.holder}) was not in force by the window's end"
        lost = next((one for one in runner.made if one.lost), None)
        if lost is not None:
            if runner.watch.broken and lost.lost == LOST_SILENTLY:
                return ""  # all of the server's sessions were: it is the server that has failed
            at = format_duration(max((lost.ended_unix_s or 0.0) - self._window_unix_s, 0.0))
            return f"the holder of the horizon was lost {at} into the window: {lost.lost}"
        slipped = next((age for age in runner.watch.ages if not age.is_held), None)
        if slipped is None:
            return ""
        at = format_duration(max(slipped.at_unix_s - self._window_unix_s, 0.0))
        return (
            f"the horizon was not held {at} into the window: the oldest row version kept was "
            f"{counted(slipped.oldest, 'transaction')} old, and a hold was {slipped.wanted:,} old"
        )

    def _how(self) -> str:
        assert self._runner is not None
        made = self._runner.made
        oldest = max(
            (x.oldest for x in self._runner.watch.ages if x.at_unix_s >= self._window_unix_s),
            default=0,
        )
        clauses = [
            counted(len(made), "hold"),
            f"the longest {format_duration(max(map(_lasted_s, made)))}",
            f"the oldest row version kept was up to {counted(oldest, 'transaction')} old",
            *(f"started with {name} = {value}" for name, value in self._needed.items()),
        ]
        if any(kind.needs_cluster for kind in kinds_of(self._holds)):
            clauses.append("the standby ran on the same machine")
        if self._runner.cleanup is not None:
            clauses.append(f"after it, {self._runner.cleanup.words}")
        return ", ".join(clauses)


def _lasted_s(one: MadeHold) -> float:
    return (one.ended_unix_s or CLOCK.unix_s()) - one.began_unix_s


def _hold_event(one: MadeHold, started_unix_s: float) -> Event:
    end_s = None if one.ended_unix_s is None else one.ended_unix_s - started_unix_s
    lost = f", lost: {one.lost}" if one.lost else ""
    text = f"{one.planned.holder}, {one.held.who}{lost}"
    return Event(HOLD_EVENT, one.began_unix_s - started_unix_s, end_s, text)
