"""How does every trial get the same dataset without loading it each time?

A dataset is loaded once; the stopped cluster's data directory is kept as a snapshot under a key that
says what is in it; each trial gets a copy in a new cluster.
"""

from __future__ import annotations

import errno
import fcntl
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pgdrag.errors import DatasetDamaged, ServerError, StorageError
from pgdrag.host.process_alive import locked
from pgdrag.host.spawn import run
from pgdrag.model import RestoreCost
from pgdrag.servers.binaries import Binaries
from pgdrag.servers.cluster import Cluster
from pgdrag.servers.copying import Copied, copy_data_directory, flush_file_system
from pgdrag.servers.manifest import Manifest
from pgdrag.servers.scratch import HALF_MADE_PREFIX, Scratch, storage_errors, write_whole

_KEY = re.compile(rf"(?!{HALF_MADE_PREFIX})[A-Za-z0-9][A-Za-z0-9._-]{{0,127}}")
_DESCRIPTION = "snapshot.json"
_CHECK = "check.json"
_LOCK = "lock"
_FORMAT = 1
_CONTROLDATA_TIMEOUT_S = 30.0
CLEAN = "shut down"
_STATE = re.compile(r"^Database cluster state:\s*(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Restored:
    """A new cluster with a snapshot's content, not started, and what that took."""

    cluster: Cluster
    cost: RestoreCost


@dataclass(frozen=True)
class Snapshot:
    """A finished copy of a data directory.

    Attributes:
        key: what it was stored under.
        directory: where.
        major: the major version that made it, and that alone can run it.
        bytes: size of all files; with reflinks, what they would take without.
        describe: what the maker said about it.
        load_s: how long it took to load the dataset, in seconds; None where that is unknown.
        warnings: what is not as it should be since the dataset was loaded, in clauses.
        manifest: by what its files are known; empty where an older pgdrag made it.
    """

    key: str
    directory: Path
    major: int
    bytes: int
    describe: Mapping[str, Any]
    load_s: float | None = None
    manifest: Manifest = field(default_factory=lambda: Manifest({}))
    warnings: tuple[str, ...] = ()

    @property
    def check(self) -> tuple[str, ...] | None:
        """What a check of the dataset warns of; None if it was not checked."""
        try:
            found = json.loads((self.directory / _CHECK).read_text(encoding="utf-8"))
            return tuple(map(str, found["warnings"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def restore(self, scratch: Scratch, binaries: Binaries) -> Restored:
        """Copy it into a new cluster, configured with nothing but the observation channel.

        All is on the disk, and in the page cache, when it returns.

        Raises:
            ServerError: `binaries` are of another major version.
            StorageError: the disk is full, or the snapshot was removed in the meantime.
            DatasetDamaged: its files are not those that were stored.
        """
        if binaries.major != self.major:
            raise ServerError(
                f'PostgreSQL {binaries.version} cannot run snapshot "{self.key}", '
                f"which version {self.major} made"
            )
        started = time.monotonic()
        with (
            storage_errors("restore a snapshot", scratch.clusters),
            locked(self.directory / _LOCK, fcntl.LOCK_SH),
        ):
            cluster = Cluster.create(scratch, binaries)
            try:
                copied = copy_data_directory(
                    scratch,
                    self.directory / "data",
                    cluster.data_directory,
                    purpose="restore a snapshot",
                )
                self.refuse_damaged(copied)
                cluster.configure({})
            except BaseException:
                cluster.remove()
                raise
        seconds = round(time.monotonic() - started, 3)
        return Restored(cluster, RestoreCost(seconds, copied.bytes, copied.method))

    def refuse_damaged(self, copied: Copied) -> None:
        """Compare what was copied with what was stored.

        Raises:
            DatasetDamaged: a file is missing, has another size or content, or was not there.
        """
        data, note = self.directory / "data", self.directory / _DESCRIPTION
        if damage := self.manifest.damage(data, note, copied.files):
            raise DatasetDamaged(f"the snapshot of the dataset is damaged: {damage}", key=self.key)


class SnapshotStore:
    """All snapshots below one scratch directory, shared by the pgdrag processes that use it."""

    def __init__(self, scratch: Scratch) -> None:
        self.scratch = scratch

    def get(self, key: str) -> Snapshot | None:
        """The snapshot under `key`, or None.

        Raises:
            StorageError: there is one that cannot be read.
        """
        directory = self._directory(key)
        try:
            content = json.loads((directory / _DESCRIPTION).read_text(encoding="utf-8"))
            if content["format"] != _FORMAT:
                raise ValueError(f"format {content['format']}")
            return Snapshot(
                key,
                directory,
                content["major"],
                content["bytes"],
                content["describe"],
                content.get("load_s"),
                Manifest.from_json(content.get("files", {})),
                tuple(map(str, content.get("warnings", ()))),
            )
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StorageError(
                f'cannot read the description of snapshot "{key}": {error}',
                hint=f'Delete "{directory}"; it will be made again.',
            ) from error

    def create(
        self,
        key: str,
        cluster: Cluster,
        describe: Mapping[str, Any],
        *,
        load_s: float | None = None,
        warnings: Sequence[str] = (),
    ) -> Snapshot:
        """Keep a copy of a stopped cluster; it is there as a whole and on the disk, or not at all.

        When another process stored one under `key` first, the answer is that one.

        Raises:
            ServerError: the cluster was not shut down cleanly.
            StorageError: the disk is full.
        """
        state = shutdown_state(cluster)
        if cluster.is_running() or state != CLEAN:
            raise ServerError(
                "cannot make a snapshot of a cluster that was not shut down cleanly",
                detail=f"Its state is: {state}.",
                hint="Start it, and stop it with enough time for its last checkpoint.",
            )
        major = cluster.binaries.major
        return self._keep(
            key, cluster.data_directory, major, describe, load_s, warnings, accept=lambda copied: None
        )  # fmt: skip

    def adopt(self, snapshot: Snapshot) -> Snapshot:
        """Keep a copy of another scratch directory's snapshot, unless there is one.

        Raises:
            StorageError: the disk is full.
            DatasetDamaged: its files are not those that were stored.
        """
        kept = self.get(snapshot.key)
        if kept is not None:
            return kept
        with locked(snapshot.directory / _LOCK, fcntl.LOCK_SH):
            source = snapshot.directory / "data"
            adopted = self._keep(
                snapshot.key,
                source,
                snapshot.major,
                snapshot.describe,
                snapshot.load_s,
                snapshot.warnings,
                accept=snapshot.refuse_damaged,
            )
        if snapshot.check is not None:
            self.keep_check(snapshot.key, snapshot.check)
        return adopted

    def keep_check(self, key: str, warnings: Sequence[str]) -> None:
        """Keep what a check of a dataset warns of, for the trials that use it.

        Raises:
            StorageError: the disk is full.
        """
        with storage_errors("keep the check of a dataset", self.scratch.snapshots):
            write_whole(self._directory(key) / _CHECK, json.dumps({"warnings": list(warnings)}))

    def list(self) -> list[Snapshot]:
        """All finished snapshots, by key."""
        keys = sorted(path.name for path in self.scratch.snapshots.iterdir())
        found = [self.get(key) for key in keys if _KEY.fullmatch(key)]
        return [snapshot for snapshot in found if snapshot is not None]

    def remove(self, key: str) -> None:
        """Delete a snapshot; none under `key` is fine.

        Raises:
            StorageError: a process is restoring it right now, or it cannot be deleted.
        """
        directory = self._directory(key)
        if not directory.exists():
            return
        with storage_errors("remove a snapshot", self.scratch.snapshots):
            try:
                with locked(directory / _LOCK, fcntl.LOCK_EX | fcntl.LOCK_NB):
                    # Renamed first: half of a snapshot must not look like one.
                    snapshots = self.scratch.snapshots
                    unfinished = self.scratch.own_directory(snapshots, HALF_MADE_PREFIX)
                    directory.rename(unfinished.path / "removed")
            except BlockingIOError as error:
                raise StorageError(
                    f'snapshot "{key}" is being restored', hint="Try again when that run is done."
                ) from error
            unfinished.remove()

    def _directory(self, key: str) -> Path:
        assert _KEY.fullmatch(key), f"not a snapshot's key: {key!r}"
        return self.scratch.snapshots / key

    def _keep(
        self,
        key: str,
        source: Path,
        major: int,
        describe: Mapping[str, Any],
        load_s: float | None,
        warnings: Sequence[str],
        *,
        accept: Callable[[Copied], None],
    ) -> Snapshot:
        unfinished = self.scratch.own_directory(self.scratch.snapshots, HALF_MADE_PREFIX)
        directory, data_directory = self._directory(key), unfinished.path / "data"
        try:
            # Whatever runs as the server's user has no part in what later trials start from.
            keeper = replace(self.scratch, user=None)
            with storage_errors("make a snapshot", self.scratch.snapshots):
                keeper.make_private(data_directory)
                copied = copy_data_directory(
                    keeper, source, data_directory, purpose="make a snapshot"
                )
                accept(copied)
                content = {
                    "format": _FORMAT,
                    "major": major,
                    "bytes": copied.bytes,
                    "describe": dict(describe),
                    "load_s": load_s,
                    "warnings": list(warnings),
                    "files": Manifest.of(data_directory).to_json(),
                }
                text = json.dumps(content)
                (unfinished.path / _DESCRIPTION).write_text(text, encoding="utf-8")
                # Before the rename, which says that all is there.
                flush_file_system(unfinished.path)
                try:
                    unfinished.path.rename(directory)
                    flush_file_system(directory)
                except OSError as error:
                    # Another process may have been first.
                    if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                        raise
        finally:
            unfinished.remove()
        stored = self.get(key)
        assert stored is not None, "it was just renamed into place"
        return stored


def shutdown_state(cluster: Cluster) -> str:
    """Return the state of a cluster as pg_controldata shows it: "shut down" after a clean shutdown."""
    answer = run(
        [cluster.binaries.bin_dir / "pg_controldata", cluster.data_directory],
        user=cluster.scratch.user,
        timeout_s=_CONTROLDATA_TIMEOUT_S,
    )
    state = _STATE.search(answer.output)
    return state[1] if state else answer.output.strip()
