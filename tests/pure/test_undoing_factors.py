"""What one factor or device does at its end spoils nothing for the others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from pgdrag.driver.progress import TrialLog
from pgdrag.errors import ServerError
from pgdrag.factors.applying import AppliedTreatment
from pgdrag.model import Level, Treatment
from pgdrag.model.events import ignore
from pgdrag.provision import Provision

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
    assert looked == "the server was not looked at: PermissionError: [Errno 13] no"
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
