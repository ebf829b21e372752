"""How do several load generators measure as one?

Each has its part of the clients and of the arrivals. All are connected and warm before any measures; their windows open
at one moment, converted to the clock of each, and end at one. Whatever one of them loses, the measurement is lost: a
smaller sum would pass for a slower server.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any

from pgdrag.driver.clock_offset import Exchange, clearest, moved_s
from pgdrag.driver.contract import (
    ClockLine,
    DoneLine,
    ErrorLine,
    HelloLine,
    IntervalLine,
    Line,
    PhaseLine,
    WarmingLine,
    WarmLine,
    breach,
    measurement_of,
)
from pgdrag.driver.conversation import CANCELLED_S, Confined, Listener, error_of
from pgdrag.driver.generators import Generator, Talk, names_of
from pgdrag.driver.merging import merged_done, merged_interval
from pgdrag.errors import DriverError
from pgdrag.model.load import LoadProfile
from pgdrag.model.measurement import Generator as Part
from pgdrag.model.measurement import Measurement
from pgdrag.units import format_duration

# A generator that says nothing for so long, or did nothing, is lost.
SILENT_S = 5.0
# So many commits that should have been there, and were not, are missing.
CERTAINLY = 100
# How often each is asked for its time: that it answers shows that it lives.
ASK_EVERY_S = 0.5
# Questions before the window; the clearest answer counts.
_QUESTIONS = 8
# An event that is to happen at the same moment everywhere is announced this long before.
NOTICE_S = 0.5
# This process itself was kept from listening.
_AWAY_S = 1.0
_TICK_S = 0.1
_FOREVER_S = 7 * 86_400.0
# Windows that began and ended at the same moments are as long.
_SAME_S = 0.001


@dataclass
class _Member:
    """One of the generators, and what it has said."""

    name: str
    talk: Talk
    clients: int
    asked_s: dict[int, float] = field(default_factory=dict)
    exchanges: list[Exchange] = field(default_factory=list)
    clock: Exchange | None = None
    version: str = ""
    phase: str = ""
    warmings: list[WarmingLine] = field(default_factory=list)
    intervals: list[IntervalLine] = field(default_factory=list)
    is_warm: bool = False
    is_lost: bool = False
    done: DoneLine | None = None
    heard_s: float = 0.0

    def sessions_in(self, interval: int) -> int:
        """Return how many of its clients there were in an interval, or in its own last one before that."""
        lines = self.intervals[: interval + 1]
        return lines[-1].sessions if lines else 0

    def at(self, moment_s: float) -> float:
        """Return what its clock shows at a moment of this process's."""
        assert self.clock is not None, "its clock has been asked before"
        return moment_s + self.clock.offset_s


@contextmanager
def driving_together(
    generators: Sequence[Generator],
    job: Mapping[str, Any],
    load: LoadProfile,
    listen: Listener,
    *,
    timeouts_s: tuple[float, float],
    confined: Confined | None = None,
    starts_programs: bool = False,
) -> Iterator[DrivingTogether]:
    """Start driving from several generators; leaving the block ends all of them in any state.

    Args:
        job: of one driver that has all of the load.
        listen: called with lines as that driver would write them.
        timeouts_s: how long they may take to be warm, and to measure.

    Raises:
        DriverError: one of them cannot be started.
        UsageError: one of them cannot do this.
    """
    with ExitStack() as stack:
        members = []
        for index, (name, one) in enumerate(zip(names_of(generators), generators, strict=True)):
            run = _run_of(job["run"], index, len(generators), load)
            started = one.started({**job, "run": run}, confined, starts_programs=starts_programs)
            clients = len(range(index, load.connections, len(generators)))
            members.append(_Member(name, stack.enter_context(started), clients))
        driving = DrivingTogether(members, load, listen, timeouts_s, job["run"]["interval_s"])
        try:
            yield driving
        finally:
            driving.end()


def _run_of(run: Mapping[str, Any], index: int, of: int, load: LoadProfile) -> dict[str, Any]:
    """Return the load for a driver, without the number of commits, which only pgdrag can count."""
    duration_s = load.budget_s if load.min_commits else load.measure_s
    share = {"index": index, "of": of}
    return {**run, "share": share, "min_commits": 0, "duration_s": duration_s}


def _has_answered(times: int, member: _Member) -> bool:
    return len(member.exchanges) >= times


class DrivingTogether:
    """A load under way from several generators: first `warm_up`, then `measure`, each once."""

    def __init__(
        self,
        members: Sequence[_Member],
        load: LoadProfile,
        listen: Listener,
        timeouts_s: tuple[float, float],
        interval_s: float,
    ) -> None:
        self._members, self._load, self._listen = members, load, listen
        self._warm_timeout_s, self._window_timeout_s = timeouts_s
        self._interval_s = interval_s
        self._began_s = self._looked_s = self._asked_s = time.monotonic()
        self._opening_s: float | None = None
        self._committed = 0
        self._is_ending = False
        self._intervals: list[IntervalLine] = []
        self._warmings = 0
        self._phases: dict[str, set[str]] = defaultdict(set)
        self._questions = count(1)
        self._news: queue.SimpleQueue[tuple[_Member, float, Line | DriverError]] = (
            queue.SimpleQueue()
        )
        self._threads = [
            threading.Thread(target=self._read, args=(one,), name=one.name, daemon=True)
            for one in members
        ]
        for thread in self._threads:
            thread.start()

    def warm_up(self) -> None:
        """Return when all are connected and warm; the load continues.

        Raises:
            DriverError: one of them is lost, or the server refused it.
        """
        self._pump(lambda one: one.is_warm, self._warm_timeout_s, "it was not ready")
        if len(versions := sorted({one.version for one in self._members})) > 1:
            raise DriverError(
                f"load generators have different versions of the driver: {', '.join(versions)}",
                hint="Install the same version of pgdrag on all hosts.",
            )

    def measure(self) -> Measurement:
        """Open the measured window everywhere, and return what was counted in it when it has ended.

        Raises:
            DriverError: one of them is lost, so that nothing has been measured.
        """
        self._compare_clocks()
        opening_s = self._opening_s = time.monotonic() + NOTICE_S
        for one in self._members:
            one.talk.say({"type": "measure", "at_s": one.at(opening_s)})
        self._pump(lambda one: one.done is not None, self._window_timeout_s, "it did not end")
        dones = [one.done for one in self._members if one.done is not None]
        self._refuse_parts(dones)
        done = merged_done(dones, t_s=self._t_s(), stopped_by="")
        done = done.model_copy(update={"stopped_by": self._stopped_by(dones, done)})
        self._listen(done)
        return replace(measurement_of(done, self._intervals), generators=self._parts())

    def end(self) -> None:
        """End all that have not ended, in bounded time."""
        for one in self._members:
            if one.is_lost:
                one.talk.kill()
            elif one.done is None:
                one.talk.end()
        deadline = time.monotonic() + CANCELLED_S
        for one, thread in zip(self._members, self._threads, strict=True):
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                one.talk.kill()
                thread.join(_AWAY_S)

    def _read(self, member: _Member) -> None:
        """Pass on what a generator says, with the time at which it came; in a thread of its own."""
        talk, line = member.talk, None
        try:
            while not isinstance(line, DoneLine | ErrorLine):
                line = talk.next_line(time.monotonic() + _FOREVER_S)
                self._news.put((member, talk.heard_s, line))
        except DriverError as error:
            self._news.put((member, talk.heard_s, error))
        except (OSError, ValueError):
            return  # the block was left in the middle of it

    def _pump(self, is_over: Callable[[_Member], bool], timeout_s: float, why: str) -> None:
        """Listen until all generators have come so far.

        Args:
            why: one that has not in time is lost: "it did not answer".

        Raises:
            DriverError: one of them is lost, or did not come so far in time.
        """
        began_s = self._listen_from_now_on()
        while waited_for := [one for one in self._members if not is_over(one)]:
            now_s = time.monotonic()
            if now_s - began_s > timeout_s:
                raise self._lost(waited_for[0], f"{why} within {timeout_s:.0f} s")
            if now_s - self._looked_s > _AWAY_S:
                self._listen_from_now_on()
            self._looked_s = now_s
            self._refuse_silence(now_s)
            if now_s - self._asked_s > ASK_EVERY_S:
                self._ask()
            try:
                news = self._news.get(timeout=_TICK_S)
            except queue.Empty:
                continue
            self._take(*news)

    def _listen_from_now_on(self) -> float:
        """Forget which generators were silent while nothing listened."""
        now_s = self._looked_s = time.monotonic()
        for one in self._members:
            one.heard_s = now_s
        return now_s

    def _ask(self) -> None:
        """Ask all generators what time it is there."""
        self._asked_s = time.monotonic()
        for one in self._members:
            if one.done is None:
                question = next(self._questions)
                one.asked_s[question] = time.monotonic()
                one.talk.say({"type": "clock", "id": question})

    def _compare_clocks(self) -> None:
        for one in self._members:
            one.exchanges.clear()
        for number in range(1, _QUESTIONS + 1):
            self._ask()
            self._pump(partial(_has_answered, number), SILENT_S, "it did not answer")
        for one in self._members:
            one.clock = clearest(one.exchanges)

    def _refuse_silence(self, now_s: float) -> None:
        for one in self._members:
            # Who has yet to be reached, or cancels what still runs, hears nothing, and has a time limit of its own.
            is_away = not one.version or one.phase == "cancel" or one.done is not None
            if not is_away and now_s - one.heard_s > SILENT_S:
                raise self._lost(one, f"it has not said anything for {format_duration(SILENT_S)}")

    def _take(self, member: _Member, at_s: float, news: Line | DriverError) -> None:
        member.heard_s = max(member.heard_s, at_s)
        match news:
            case DriverError():
                raise self._lost(member, news.message, news.detail)
            case ErrorLine():
                error = error_of(news)
                error.detail = f"It was {member.name}. {error.detail or ''}".rstrip()
                raise error
            case HelloLine():
                member.version = news.driver_version
            case ClockLine():
                self._compare(member, news, at_s)
            case _:
                self._follow(member, news)

    def _follow(self, member: _Member, news: Line) -> None:
        """Note how far a generator has come, and tell how far all have."""
        match news:
            case PhaseLine():
                member.phase = news.name
                self._tell_phase(news.name, member)
            case WarmingLine():
                member.warmings.append(news)
                self._tell_warmings()
            case WarmLine():
                member.is_warm = True
                if all(one.is_warm for one in self._members):
                    self._listen(news.model_copy(update={"t_s": self._t_s()}))
            case IntervalLine():
                member.intervals.append(news)
                self._committed += news.committed
                self._tell_intervals()
                self._end_with_enough()
            case DoneLine():
                if self._opening_s is None:
                    measurement_of(news, ())  # says why, if it was stopped
                    raise breach("it was done before it was asked to measure")
                member.done = news
                self._tell_intervals()
            case _:
                raise breach(f"a run has no line of type {news.type}")

    def _compare(self, member: _Member, line: ClockLine, heard_s: float) -> None:
        asked_s = member.asked_s.pop(line.id, None)
        if asked_s is None:
            raise breach(f"it answers question {line.id}, which nobody asked")
        exchange = Exchange(asked_s, line.received_s, line.t_s, heard_s)
        member.exchanges.append(exchange)
        if member.clock is not None and (moved := moved_s(member.clock, exchange)):
            raise self._lost(member, f"its clock jumped by {format_duration(abs(moved))}")

    def _tell_phase(self, name: str, member: _Member) -> None:
        self._phases[name].add(member.name)
        if len(self._phases[name]) == len(self._members):
            self._listen(PhaseLine(type="phase", name=name, t_s=self._t_s()))

    def _tell_warmings(self) -> None:
        while all(len(one.warmings) > self._warmings for one in self._members):
            lines = [one.warmings[self._warmings] for one in self._members]
            self._warmings += 1
            self._listen(
                WarmingLine(
                    type="warming",
                    t_s=self._t_s(),
                    duration_s=max(line.duration_s for line in lines),
                    committed=sum(line.committed for line in lines),
                    failed=sum(line.failed for line in lines),
                )
            )

    def _tell_intervals(self) -> None:
        """Report the intervals that all generators which have not ended have reported."""
        while True:
            number = len(self._intervals)
            there = [one for one in self._members if len(one.intervals) > number]
            if not there or any(one.done is None for one in self._members if one not in there):
                return
            lines = [one.intervals[number] for one in there]
            assert self._opening_s is not None, "intervals are those of a window"
            begin_s = self._opening_s - self._began_s + number * self._interval_s
            end_s = begin_s + max(line.duration_s for line in lines)
            # Clients that have ended their transactions rest, and are still there.
            sessions = sum(one.sessions_in(number) for one in self._members)
            self._intervals.append(merged_interval(lines, t_s=end_s, sessions=sessions))
            self._listen(self._intervals[-1])

    def _end_with_enough(self) -> None:
        """Let the window end everywhere at one moment, once enough has been committed."""
        load = self._load
        if self._is_ending or not load.min_commits or self._committed < load.min_commits:
            return
        assert self._opening_s is not None, "commits are counted in a window"
        self._is_ending = True
        end_s = max(self._opening_s + load.measure_s, time.monotonic() + NOTICE_S)
        if end_s < self._opening_s + load.budget_s:
            for one in self._members:
                one.talk.say({"type": "end", "at_s": one.at(end_s)})

    def _refuse_parts(self, dones: Sequence[DoneLine]) -> None:
        """Refuse windows that are not all of one load.

        Raises:
            DriverError: a generator stopped, or stood still.
        """
        elapsed_s = max(line.elapsed_s or 0.0 for line in dones)
        are_all_without = all(line.stopped_by == "clients" for line in dones)
        for one, line in zip(self._members, dones, strict=True):
            if line.stopped_by == "signal":
                raise self._lost(one, "it was stopped by a signal")
            if self._load.transactions is None:
                if line.stopped_by == "clients" and not are_all_without:
                    first = next(iter(line.errors), None)
                    said = f"{first.message} (SQLSTATE {first.sqlstate})" if first else ""
                    raise self._lost(one, "none of its clients could go on", said)
                is_alike = elapsed_s - (line.elapsed_s or 0.0) < _SAME_S
                if not is_alike and not are_all_without:
                    raise self._lost(one, "its window did not end with that of the others")
            if self._is_cut_off(one):
                raise self._lost(
                    one,
                    f"it committed nothing for {format_duration(SILENT_S)} or longer while the others did",
                )
            stall_us = line.driver.stall_us_max if line.driver else None
            if (stall_us or 0.0) / 1e6 > SILENT_S:
                stood_s = format_duration((stall_us or 0.0) / 1e6)
                raise self._lost(one, f"it stood still for {stood_s}")

    def _is_cut_off(self, member: _Member) -> bool:
        """Tell whether none of a generator's clients committed for long, where that is no chance.

        The server answered the others: what is between it and this one did not let it through.
        """
        silent_s = expected = 0.0
        for line, all_ in zip(member.intervals, self._intervals, strict=False):
            if line.committed:
                silent_s = expected = 0.0
                continue
            silent_s += line.duration_s
            expected += all_.committed * line.sessions / max(all_.sessions or 0, 1)
            if silent_s >= SILENT_S and expected > CERTAINLY:
                return True
        return False

    def _stopped_by(self, dones: Sequence[DoneLine], done: DoneLine) -> str:
        kinds = {line.stopped_by for line in dones}
        if "clients" in kinds:
            return "clients"
        if kinds == {"transactions"}:
            return "transactions"
        is_extended = (done.elapsed_s or 0.0) > self._load.measure_s + _SAME_S
        if self._committed < self._load.min_commits:
            return "budget"
        return "commits" if is_extended else "deadline"

    def _parts(self) -> tuple[Part, ...]:
        found = []
        for one in self._members:
            done, clock = one.done, one.clock
            assert done is not None, "all have measured"
            assert clock is not None, "all were asked before"
            assert done.driver is not None, "see merged_done"
            assert done.transactions is not None, "see merged_done"
            committed = sum(x.committed for x in done.transactions.values())
            found.append(
                Part(
                    one.name,
                    one.clients,
                    committed,
                    done.elapsed_s or 0.0,
                    clock.uncertainty_s,
                    done.driver,
                )
            )
        return tuple(found)

    def _lost(self, member: _Member, why: str, detail: str | None = None) -> DriverError:
        member.is_lost = True
        return DriverError(
            f"{member.name} of {len(self._members)} was lost: {why}",
            detail=detail,
            hint="Nothing was measured: the others' sum would be that of a smaller load.",
        )

    def _t_s(self) -> float:
        return time.monotonic() - self._began_s
