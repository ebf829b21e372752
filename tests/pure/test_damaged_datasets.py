"""A damaged snapshot is made anew once, wherever it is found out, and its copies with it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pgdrag.errors import DatasetDamaged
from pgdrag.model.events import ignore
from pgdrag.provision import Provision
from pgdrag.servers.snapshot import Snapshot, SnapshotStore

WORKLOAD: Any = SimpleNamespace(dataset=lambda: {"rows": 1}, programs=lambda: ())
BINARIES: Any = SimpleNamespace(identity="18")
OWN: Any = "own scratch"
DEVICE: Any = "scratch on the device"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Snapshot]:
    """Snapshots are made by counting; the list has all of them."""
    snapshots: list[Snapshot] = []

    def make(*_: object) -> Snapshot:
        snapshots.append(Snapshot("key", Path(str(len(snapshots))), 18, 0, {}))
        return snapshots[-1]

    monkeypatch.setattr("pgdrag.provision.provide_snapshot", make)
    monkeypatch.setattr(SnapshotStore, "remove", lambda self, key: None)
    return snapshots


def bench() -> Provision:
    return Provision(OWN, BINARIES, driver=SimpleNamespace(), here=SimpleNamespace(allowed=()))  # type: ignore[arg-type]


def damaged_until(count: int, tries: list[Snapshot]) -> Any:
    """Return a way to copy that finds the first so many snapshots damaged."""

    def adopt(self: SnapshotStore, snapshot: Snapshot) -> Snapshot:
        tries.append(snapshot)
        if len(tries) <= count:
            raise DatasetDamaged("a file is missing", key=snapshot.key)
        return snapshot

    return adopt


def test_one_that_is_found_damaged_while_it_is_copied_to_a_device_is_made_anew(
    made: list[Snapshot], monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[Snapshot] = []
    monkeypatch.setattr(SnapshotStore, "adopt", damaged_until(1, tries))
    place = bench()
    assert place.snapshot(WORKLOAD, ignore, scratch=DEVICE) is made[1]
    assert tries == made
    assert place.discarded == {"key"}


def test_one_that_is_damaged_again_is_an_error(
    made: list[Snapshot], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SnapshotStore, "adopt", damaged_until(9, []))
    with pytest.raises(DatasetDamaged):
        bench().snapshot(WORKLOAD, ignore, scratch=DEVICE)
    assert len(made) == 2


def test_a_snapshot_is_discarded_once_and_with_all_its_copies(
    made: list[Snapshot], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SnapshotStore, "adopt", damaged_until(0, []))
    place = bench()
    for scratch in (OWN, DEVICE):
        place.snapshot(WORKLOAD, ignore, scratch=scratch)
    for _ in range(3):
        place.discard("key")
        for scratch in (OWN, DEVICE):
            place.snapshot(WORKLOAD, ignore, scratch=scratch)
    assert len(made) == 2
