"""How is a study run whose arguments came from the command line? Its place, the forecast, consent."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import typer
from pydantic import ValidationError
from rich.console import Console

from pgdrag.cli.options import StudyOptions
from pgdrag.cli.place import open_scratch, stderr
from pgdrag.cli.progress import OVERHEAD_S, count_words
from pgdrag.cli.running import begin_and_report, refuse_directory
from pgdrag.designs import Design
from pgdrag.errors import UsageError
from pgdrag.experiment.arms import Arm, read_arm
from pgdrag.factors import Phase, Problem, is_of
from pgdrag.findings.values import Findings
from pgdrag.host.machine_lock import measuring_alone
from pgdrag.lab import make_design
from pgdrag.model import Study
from pgdrag.servers.binaries import find_binaries
from pgdrag.servers.settings import SettingsCatalog
from pgdrag.trial import ServerTrialRunner
from pgdrag.units import format_duration

# A run at least this long asks first.
LONG_S = 3600.0


@dataclass(frozen=True)
class StudyCommand:
    """Where a study is made and run."""

    options: StudyOptions
    runner: ServerTrialRunner
    talk: Console
    seed: int

    @property
    def settings(self) -> SettingsCatalog:
        """The server's settings."""
        return self.runner.here.settings

    def arms(self, *texts: str) -> tuple[list[Arm], list[Problem]]:
        """Return the arms that arguments mean, and what this server or machine cannot do of them.

        Raises:
            PgdragError: an argument is invalid, or cannot run anywhere.
        """
        arms = [read_arm(text, self.settings, scale=self.options.scale) for text in texts]
        found: dict[Problem, None] = {}
        for arm in arms:
            problems = self.runner.check(arm.levels)
            arm.refuse_mistakes(problems)
            _refuse_without_server(problems)
            found.update(dict.fromkeys(problems))
            for problem in problems:
                self.talk.print(
                    f"Untestable here: {problem.message}. {problem.hint}", style="yellow"
                )
            for mend in arm.mends:
                self.talk.print(f"Corrected: {mend}")
        return arms, list(found)

    def run(self, study: Study) -> Findings:
        """Print how long the run will take, ask first if that is long, and run it."""
        self._forecast(study)
        options = self.options
        return begin_and_report(
            study, self.runner, self.talk, seed=self.seed, html=options.html, json=options.json
        )

    def _forecast(self, study: Study) -> None:
        forecast = _design(study).forecast()
        fewest = forecast.least + forecast.brief_least
        most = forecast.most + forecast.brief_most
        least_s, most_s = study.load_s(forecast)
        least_s, most_s = least_s + fewest * OVERHEAD_S, most_s + most * OVERHEAD_S
        budget_s = study.budget_s
        if budget_s is not None and least_s > budget_s:
            raise UsageError(
                f"{fewest} trials, the minimum, take about {format_duration(round(least_s))}, more than "
                f"the budget of {format_duration(budget_s)}",
                hint="Increase --budget, or reduce --measure and --warm-up.",
            )
        for note in study.notes:
            self.talk.print(note)
        end = "" if budget_s is None else f"; the budget ends it after {format_duration(budget_s)}"
        self.talk.print(
            f"{count_words(fewest, most)} trials: at least {format_duration(round(least_s))}, "
            f"at most {format_duration(round(most_s))} if every window is extended{end}"
        )
        can_answer = sys.stdin.isatty() and sys.stderr.isatty()
        long_s = least_s if budget_s is None else min(budget_s, least_s)
        is_asked = long_s > LONG_S and can_answer and not self.options.yes
        if is_asked and not typer.confirm("Continue?", default=True, err=True):
            raise UsageError("cancelled; nothing was run")


@contextmanager
def study_command(options: StudyOptions) -> Iterator[StudyCommand]:
    """Open the place where a study runs; no other measurement runs on this machine meanwhile."""
    refuse_directory(options.html)
    scratch = open_scratch()
    with measuring_alone():
        allowed = options.allow_change or ()
        runner = ServerTrialRunner.open(scratch, find_binaries(options.postgres), allowed=allowed)
        seed = random.SystemRandom().getrandbits(31) if options.seed is None else options.seed
        yield StudyCommand(options, runner, stderr(), seed)


def with_common(arms: Sequence[Arm], common: Arm | None) -> list[Arm]:
    """Return the arms with the levels of `common` added; an arm's own level takes precedence."""
    if common is None:
        return list(arms)
    return [
        replace(arm, levels=common.treatment.with_levels("", arm.levels).levels) for arm in arms
    ]


def share_of(text: str, option: str) -> float:
    """Return 0.03 for "3%" or "0.03".

    Raises:
        UsageError: it is not a share.
    """
    number = text.strip()
    try:
        share = float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise UsageError(f'{option} "{text}" is not a share', hint='Write "3%" or "0.03".')
    return share


def _refuse_without_server(problems: Sequence[Problem]) -> None:
    for problem in problems:
        if is_of(Phase.SERVER, problem.level.kind):
            raise UsageError(problem.message, detail=problem.hint)


def _design(study: Study) -> Design:
    try:
        return make_design(study)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])).replace("_", "-")
        raise UsageError(f'{study.design}, "{where}": {first["msg"]}') from None
