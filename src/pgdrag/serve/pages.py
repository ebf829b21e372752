"""What does each page show, and how is it updated while it is open?"""

from __future__ import annotations

import hashlib
import threading
import tomllib
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from pathlib import Path
from threading import Event
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pgdrag.english import without_controls
from pgdrag.errors import PgdragError, UsageError
from pgdrag.experiment import shipped_files
from pgdrag.findings.values import Findings
from pgdrag.host.process_alive import start_ticks
from pgdrag.journal import Journal, TrialLine
from pgdrag.journal.live_file import live_path
from pgdrag.model import Outcome, RunRecord
from pgdrag.model.program import Program
from pgdrag.report.html import render_html
from pgdrag.report.series_script import SeriesAssets, script_policy, series_assets
from pgdrag.report.two_runs_page import render_two_runs_html
from pgdrag.serve.server import Answer, NotFound, Request, Stream
from pgdrag.serve.starting import Started, Wanted, needed_programs, planned, start, stop
from pgdrag.serve.watching import Watcher
from pgdrag.units import format_rate

_MOST_RUNS = 50  # on a page
_MOST_TRIALS = 5  # that have ended; the picture of the one under way comes below them
_MOST_REPORTS = 8  # kept, so that they are not made again
_LOOK_EVERY_S = 1.0
# A picture of a long trial hardly changes from second to second.
_NEW_SHARE = 0.01
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; connect-src 'self'"
# A report brings its own policy, which allows no more.
_REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'unsafe-inline'"
)


@dataclass(frozen=True)
class RunNow:
    """What a run does now, in words."""

    run_id: str
    title: str
    trials: str
    greatest: int
    left: str
    so_far: str
    doing: dict[str, str]


class RunPages:
    """The pages of a journal.

    Args:
        root: the path that they are below.
        has_ended: is set when the server ends.
        open_journal: opens the journal for one thread.
        findings_of: what a run found.
        report_path: where the report of a run is saved when it ends.
    """

    def __init__(
        self,
        root: str,
        has_ended: Event,
        open_journal: Callable[[], Journal],
        findings_of: Callable[[RunRecord, Journal], Findings],
        report_path: Callable[[str], Path],
    ) -> None:
        self._root, self._has_ended = root, has_ended
        self._open_journal = open_journal
        self._findings_of, self._report_path = findings_of, report_path
        self._lock = threading.Lock()
        self._running: dict[str, tuple[int, int | None, bool]] = {}
        self._watchers: dict[str, Watcher] = {}
        self._titles: dict[str, str] = {}
        self._reports: dict[tuple[object, ...], str] = {}
        self._started: Started | None = None

    def answer(self, request: Request) -> Answer | Stream:
        """Return what a request gets.

        Raises:
            NotFound: there is no such page.
            PgdragError: it cannot be had.
        """
        # A stream has a journal of its own, which lasts as long as it does.
        match request.method, request.path:
            case "GET", ("events",):
                return Stream(self._home_events())
            case "GET", ("run", run_id, "events"):
                return Stream(self._run_events(run_id))
        with closing(self._open_journal()) as journal:
            return self._page(request, journal)

    def _page(self, request: Request, journal: Journal) -> Answer:
        match request.method, request.path:
            case "GET", ("",):
                return self._home(request, journal)
            case "GET", ("run", run_id):
                return self._run(run_id, journal)
            case "GET", ("report", run_id):
                return Answer(self._report(run_id, journal), _REPORT_POLICY)
            case "GET", ("together",):
                return self._comparison(request, journal)
            case "GET", ("start",):
                return self._choice(journal)
            case "POST", ("plan",):
                return self._plan(_wanted(request), journal)
            case "POST", ("start",):
                return self._start(request, journal)
            case "POST", ("stop",):
                return self._stop(request.value("run"), journal)
        raise NotFound("there is no such page", hint="Go back to the list of runs.")

    def entrance(self) -> Answer:
        """Return the page that exchanges the token for the cookie."""
        script = _script("entrance.js")
        policy = f"{_POLICY}; script-src {script_policy([script])}"
        return Answer(_environment().get_template("entrance.html.j2").render(script=script), policy)

    def error(self, error: PgdragError, status: HTTPStatus) -> Answer:
        """Return a page that says what went wrong."""
        found = self._rendered("error.html.j2", error.message, error=error)
        return replace(found, status=status)

    def _rendered(
        self,
        template: str,
        title: str,
        *,
        series: SeriesAssets | None = None,
        events: str = "",
        **values: Any,
    ) -> Answer:
        scripts = [*(series.scripts if series else ()), *([_script("live.js")] if events else [])]
        policy = f"{_POLICY}; script-src {script_policy(scripts)}" if scripts else _POLICY
        values = {"question": "", **values}
        html = (
            _environment()
            .get_template(template)
            .render(
                root=self._root,
                title=title,
                series=series,
                scripts=scripts,
                events=events,
                **values,
            )
        )
        return Answer(html, policy)

    # --- what runs now ---------------------------------------------------------------------------

    def _processes(self, journal: Journal) -> dict[str, int]:
        """Return the process of each active run.

        Whether a process measures is asked once of each, because each question stays in its queue.
        """
        found = {}
        for run_id, pid in journal.noted_processes().items():
            ticks = start_ticks(pid)
            with self._lock:
                known = self._running.get(run_id)
                if known is None or known[:2] != (pid, ticks):
                    known = (pid, ticks, ticks is not None and journal.process_of(run_id) == pid)
                    self._running[run_id] = known
            if known[2]:
                found[run_id] = pid
        return found

    def _now(self, run_id: str, journal: Journal) -> RunNow:
        with self._lock:
            if run_id not in self._titles:
                self._titles[run_id] = journal.title(run_id)
            watched = self._watcher(run_id, journal).watched
            return RunNow(
                run_id,
                self._titles[run_id],
                watched.trial_words(),
                watched.trials.greatest if watched.trials else 0,
                watched.left_words(),
                watched.so_far,
                watched.doing(),
            )

    def _watcher(self, run_id: str, journal: Journal) -> Watcher:
        """Return what follows a run, up to date; one for all who look."""
        watcher = self._watchers.setdefault(run_id, Watcher(live_path(journal.path, run_id)))
        watcher.look()
        return watcher

    def _forget(self, running: dict[str, int]) -> None:
        with self._lock:
            for run_id in self._watchers.keys() - running.keys():
                self._watchers.pop(run_id).close()

    def _now_values(self, journal: Journal) -> dict[str, Any]:
        running = self._processes(journal)
        self._forget(running)
        started = self._started
        failed = started is not None and started.has_failed
        if started is not None and not failed:
            is_seen = started.process.pid in running.values()
            started = None if is_seen or not started.is_running else started
        runs = [self._now(run_id, journal) for run_id in running]
        return {"root": self._root, "runs": runs, "started": started, "failed": failed}

    def _ticks(self) -> Iterator[None]:
        """Yield once a second until the server ends."""
        yield
        while not self._has_ended.wait(_LOOK_EVERY_S):
            yield

    def _home_events(self) -> Iterator[tuple[str, str]]:
        template, before = _environment().get_template("now.html.j2"), ""
        with closing(self._open_journal()) as journal:
            for _ in self._ticks():
                html = template.render(self._now_values(journal))
                yield ("state", html) if html != before else ("", "")
                before = html

    def _run_events(self, run_id: str) -> Iterator[tuple[str, str]]:
        template = _environment().get_template("trials.html.j2")
        html = figure = ""
        drawn_s = 0.0
        with closing(self._open_journal()) as journal:
            for _ in self._ticks():
                if run_id not in self._processes(journal):
                    yield "end", "end"
                    return
                before, html = html, template.render(self._trials_values(run_id, journal))
                yield ("state", html) if html != before else ("", "")
                with self._lock:
                    watched = self._watcher(run_id, journal).watched
                    length_s = watched.length_s
                    if 0 <= length_s - drawn_s < _NEW_SHARE * length_s:
                        continue
                    before, figure, drawn_s = figure, watched.figure_json(), length_s
                if figure != before:
                    yield "series", figure

    def _trials_values(self, run_id: str, journal: Journal) -> dict[str, Any]:
        finished, last = journal.ended_trials(run_id, most=_MOST_TRIALS)
        return {"run": self._now(run_id, journal), "finished": finished, "last": last}

    # --- pages -----------------------------------------------------------------------------------

    def _home(self, request: Request, journal: Journal) -> Answer:
        query, skipped = request.value("q"), request.value("skip")
        skip = int(skipped) if skipped.isascii() and skipped.isdigit() else 0
        summaries = journal.summaries(query, most=_MOST_RUNS + 1, skipped=min(skip, 2**31))
        return self._rendered(
            "home.html.j2",
            "Runs",
            events=f"{self._root}events",
            query=query,
            summaries=summaries[:_MOST_RUNS],
            has_more=len(summaries) > _MOST_RUNS,
            skipped=skip,
            most=_MOST_RUNS,
            **{k: x for k, x in self._now_values(journal).items() if k != "root"},
        )

    def _run(self, run_id: str, journal: Journal) -> Answer:
        if run_id not in self._processes(journal):
            journal.title(run_id)  # raises where there is none
            return Answer(place=f"{self._root}report/{run_id}")
        values = self._trials_values(run_id, journal)
        with self._lock:
            figure = self._watcher(run_id, journal).watched.figure()
        return self._rendered(
            "live.html.j2",
            values["run"].title,
            series=series_assets([figure]),
            events=f"{self._root}run/{run_id}/events",
            run_id=run_id,
            figure=figure,
            **values,
        )

    def _report(self, run_id: str, journal: Journal) -> str:
        """Return the page that was saved when a run ended, or the same of the results that there are."""
        key = (run_id, *journal.state_of(run_id))
        ends = [x for x in key[2:] if isinstance(x, float)]
        saved = self._report_path(run_id) if key[1] == "done" else None
        if saved is not None and saved.is_file() and saved.stat().st_mtime >= max(ends):
            return saved.read_text(encoding="utf-8")
        return self._made(key, lambda: render_html(self._findings_of(journal.run(run_id), journal)))

    def _made(self, key: tuple[object, ...], make: Callable[[], str]) -> str:
        """Return a page, which is made again only where something of its runs has changed."""
        html = self._reports.get(key) or make()
        with self._lock:
            self._reports.pop(key, None)
            while len(self._reports) >= _MOST_REPORTS:
                self._reports.pop(next(iter(self._reports)))
            self._reports[key] = html
        return html

    def _comparison(self, request: Request, journal: Journal) -> Answer:
        names = request.values.get("run", ())
        if len(set(names)) != 2:
            raise UsageError(
                "two runs can be compared", hint="Go back and tick two runs in the list."
            )

        def make() -> str:
            before, after = sorted(map(journal.run, names), key=lambda x: x.started_unix_s)
            return render_two_runs_html(before, after)

        key = tuple((name, *journal.state_of(name)) for name in sorted(names))
        return Answer(self._made(key, make), _REPORT_POLICY)

    # --- starting and stopping ---------------------------------------------------------------------

    def _choice(self, journal: Journal) -> Answer:
        return self._rendered(
            "start.html.j2",
            "Start a run",
            experiments=_experiments(),
            running=next(iter(self._processes(journal)), ""),
        )

    def _plan(self, wanted: Wanted, journal: Journal) -> Answer:
        if not wanted.experiment:
            raise UsageError("no experiment was chosen", hint="Go back and choose one.")
        self._refuse_beside_another(journal)
        plan = planned(wanted)
        return self._rendered(
            "plan.html.j2",
            f"Start {wanted.experiment}",
            plan=plan,
            wanted=wanted,
            digest=_digest(plan.programs),
        )

    def _start(self, request: Request, journal: Journal) -> Answer:
        wanted = _wanted(request)
        if request.value("yes") != "yes" or (wanted.changes and not request.value("allow-change")):
            raise UsageError("nothing was run without consent", hint="Go back and give it.")
        self._refuse_beside_another(journal)
        if programs := needed_programs(wanted):
            # A file may have changed since its programs were shown.
            if request.value("programs") != _digest(programs) or not request.value("allow-run"):
                raise UsageError(
                    "nothing was run without consent to the programs that it starts",
                    hint="Go back and look at the plan again.",
                )
            wanted = replace(wanted, allows_programs=True)
        with self._lock:
            if not self._is_starting():
                self._started = start(wanted)
        return Answer(place=self._root)

    def _refuse_beside_another(self, journal: Journal) -> None:
        if (running := self._processes(journal)) or self._is_starting():
            raise UsageError(
                f"{next(iter(running), 'another run')} is running",
                detail="Concurrent measurements would disturb each other.",
                hint="Start another one when it has ended.",
            )

    def _is_starting(self) -> bool:
        return self._started is not None and self._started.is_running

    def _stop(self, run_id: str, journal: Journal) -> Answer:
        pid = self._processes(journal).get(run_id)
        if pid is None or not stop(pid, lambda: self._processes(journal).get(run_id) == pid):
            journal.title(run_id)
            raise UsageError(f'run "{run_id}" is not running', hint="It has ended already.")
        return Answer(place=f"{self._root}run/{run_id}")


def _wanted(request: Request) -> Wanted:
    name, scale = request.value("experiment") or request.value("file"), request.value("scale")
    if not name:
        name, _, scale = request.value("shipped").partition(" ")
    return Wanted(name.strip(), scale.strip(), tuple(request.value("changes").split()))


@cache
def _experiments() -> tuple[dict[str, Any], ...]:
    """Return the shipped experiments as their files have them; to check them takes a second."""
    found = []
    for name, path in shipped_files().items():
        file = tomllib.loads(path.read_text(encoding="utf-8"))
        scales = {scale: one.get("summary", "") for scale, one in file["scales"].items()}
        found.append({"name": name, "title": file.get("title", name), "scales": scales})
    return tuple(found)


def _digest(programs: tuple[Program, ...]) -> str:
    return hashlib.sha256(repr(programs).encode()).hexdigest()


def _result(line: TrialLine) -> str:
    if line.outcome == Outcome.MEASURED and line.committed is not None and line.elapsed_s:
        return format_rate(line.committed / line.elapsed_s)
    return f"{line.outcome}: {line.reason}" if line.reason else line.outcome


@cache
def _script(name: str) -> str:
    return files("pgdrag.serve").joinpath("templates", name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=ChoiceLoader([PackageLoader("pgdrag.serve"), PackageLoader("pgdrag.report")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["as_is"] = Markup  # the package's own; data in it is escaped as JSON
    environment.filters["printable"] = without_controls
    environment.filters["result"] = _result
    return environment
