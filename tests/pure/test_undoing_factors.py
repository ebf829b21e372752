"""What one factor or device does at its end spoils nothing for the others."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from pgdrag.driver.progress import TrialLog
from pgdrag.errors import ServerError
from pgdrag.factors.applying import AppliedTreatment
from pgdrag.host.undo import UndoJournal
from pgdrag.host.undo.written_value import WrittenValue
from pgdrag.model import Level, Outcome, Result, Treatment
from pgdrag.model.events import ignore
from pgdrag.provision import Provision
from pgdrag.trial import ServerTrialRunner

TREATMENT = Treatment("T", tuple(Level(name, "level", "1") for name in ("one", "two", "three")))


class Factor:
    """One that says when it is undone."""

    undone: ClassVar[list[str]] = []
    reads_back_late = False

    def __init__(self, name: str, error: Exception | None = None, fails_in: str = "undo") -> None:
        self.name = name
        self._error, self._fails_in = error, fails_in

    def __call__(self) -> Factor:
        return self

    def failure(self, cluster: object) -> str:
        if self._fails_in == "failure" and self._error:
            raise self._error
        return ""

    def undo(self, cluster: object) -> None:
        self.undone.append(self.name)
        if self._fails_in == "undo" and self._error:
            raise self._error

    def serve(self, trial: object) -> None:
        raise ServerError("it does not start")


class Cluster:
    """One of which nobody can tell what it runs."""

    def life(self) -> Any:
        raise PermissionError(13, "no")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ServerError("no"), "no"),
        (UnicodeDecodeError("utf-8", b"\xe9", 0, 1, "no"), "UnicodeDecodeError: 'utf-8' codec"),
        (AssertionError("never"), "AssertionError: never"),
    ],
)
@pytest.mark.parametrize("fails_in", ["undo", "failure"])
def test_all_factors_are_undone_whichever_fails(
    monkeypatch: pytest.MonkeyPatch, error: Exception, said: str, fails_in: str
) -> None:
    Factor.undone.clear()
    kinds = {
        "one": Factor("one"),
        "two": Factor("two", error, fails_in),
        "three": Factor("three"),
    }
    monkeypatch.setattr("pgdrag.factors.applying.all_factors", lambda: kinds)
    log = TrialLog(ignore)
    trial: Any = SimpleNamespace(treatment=TREATMENT)
    nobody: Any = Cluster()
    applied = AppliedTreatment(trial, nobody, SimpleNamespace(), (), log)  # type: ignore[arg-type]
    applied._life = nobody  # it ran
    with pytest.raises(ServerError, match="does not start"), applied.in_force():
        pass
    assert Factor.undone == ["three", "two", "one"]
    looked, warning = log.warnings
    assert looked == "the server was not inspected: PermissionError: [Errno 13] no"
    what = "two was not undone" if fails_in == "undo" else "whether two held to the end is unknown"
    assert warning.startswith(f"{what}: {said}")


def test_all_devices_are_removed_whichever_fails() -> None:
    removed: list[str] = []

    def device(name: str, *, fails: bool) -> Any:
        def remove() -> None:
            removed.append(name)
            if fails:
                raise OSError(5, "broken")

        return SimpleNamespace(scratch=name, remove=remove)

    anything: Any = None
    bench = Provision(anything, anything, anything, anything)
    bench._devices = {name: device(name, fails=name == "two") for name in ("one", "two", "three")}  # type: ignore[misc]
    with pytest.raises(OSError, match="broken"):
        bench.close()
    assert sorted(removed) == ["one", "three", "two"]


class Tuning:
    """A factor whose value somebody else changes, so that it cannot be put back."""

    name = "tuning"
    reads_back_late = False

    def __init__(self, journal: UndoJournal, value: Path) -> None:
        self._journal, self._value = journal, value

    def __call__(self) -> Tuning:
        return self

    def __getattr__(self, name: str) -> Any:
        return lambda *_: []

    def serve(self, trial: object) -> None:
        self._noted = self._journal.note(WrittenValue(str(self._value), "20", "10"))
        self._value.write_text("30\n")

    def undo(self, cluster: object) -> None:
        self._journal.restore(self._noted)


@pytest.mark.usefixtures("any_value")
@pytest.mark.parametrize("ending", [KeyboardInterrupt, MemoryError, None])
def test_what_could_not_be_undone_is_told_once_however_the_trial_ends(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    ending: type[BaseException] | None,
) -> None:
    """By the trial's result; where there is none, as pgdrag ends."""
    journal, value = UndoJournal.open(tmp_path / "undo"), tmp_path / "caf\udce9"
    monkeypatch.setattr(
        "pgdrag.factors.applying.all_factors", lambda: {"tuning": Tuning(journal, value)}
    )
    trial: Any = SimpleNamespace(treatment=TREATMENT)

    def run_trial(*_: object) -> Result:
        nobody: Any = Cluster()
        here: Any = SimpleNamespace()
        treatment = AppliedTreatment(trial, nobody, here, (), TrialLog(ignore))
        try:
            with treatment.in_force():
                raise ending or ServerError("it does not start")
        except ServerError:
            return Result(trial, Outcome.DID_NOT_START, 0.0)

    monkeypatch.setattr("pgdrag.trial.run_trial", run_trial)
    monkeypatch.setattr(AppliedTreatment, "_start", lambda _: None)
    monkeypatch.setattr(AppliedTreatment, "_note_life", lambda _: None)
    anything: Any = None
    bench = ServerTrialRunner(anything, anything, anything, anything)
    told: list[str] = []
    try:
        told += bench.run(trial, ignore).warnings
    except BaseException as error:
        assert type(error) is ending  # noqa: PT017 -- one body for trials that raise, and one that does not
    assert len(told) == (not ending)
    journal.close()
    told += capfd.readouterr().err.splitlines()
    (sentence,) = told
    assert "someone else has changed it since" in sentence
    again = UndoJournal.open(tmp_path / "undo")
    assert [step.was_reported for step in again.steps()] == [True]
    again.release()
