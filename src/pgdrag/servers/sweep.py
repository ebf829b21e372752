"""What did pgdrag processes leave behind that died without a chance to clear away?

Servers end with the process that started them, and each command removes its own clusters. This is for
the rest: kill -9, a crash, a power failure. Every command that makes a cluster sweeps first.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from pgdrag.errors import PgdragError
from pgdrag.host.confinement import end_user
from pgdrag.host.server_user import ServerUser, is_taken
from pgdrag.servers.processes import kill_processes
from pgdrag.servers.scratch import (
    CLUSTER_PREFIX,
    DEVICE_PREFIX,
    HALF_MADE_PREFIX,
    OwnedDirectory,
    OwnerFile,
    Scratch,
    remove_tree,
)
from pgdrag.servers.shared_memory import free_shared_memory
from pgdrag.servers.storage import clusters_on_abandoned, remove_abandoned_device


def end_servers(scratch: Scratch) -> list[str]:
    """End the servers whose owner has died, and leave their files: what they use can be undone from then on.

    Returns:
        One sentence for each cluster or device that something was ended of.
    """
    abandoned = [
        (owned, end)
        for parent, prefix, end in (
            (scratch.clusters, CLUSTER_PREFIX, _end_server),
            (scratch.storage, DEVICE_PREFIX, _end_servers),
        )
        for owned in scratch.abandoned_directories(parent, prefix)
    ]
    return [sentence for owned, end in abandoned if (sentence := _swept(owned, end))]


def sweep(scratch: Scratch) -> list[str]:
    """Remove clusters and half-made copies whose owner has died; those of a live one are safe.

    The servers on scratch devices are ended, too, so that these can be taken away: see `sweep_devices`.

    Returns:
        One sentence for each thing found, also for what could not be removed and why; nothing,
        usually.
    """
    sentences = []
    for owned in scratch.abandoned_directories(scratch.clusters, CLUSTER_PREFIX):
        sentences.append(_swept(owned, _remove_cluster))
    for parent in (scratch.snapshots, scratch.binaries):
        for owned in scratch.abandoned_directories(parent, HALF_MADE_PREFIX):
            sentences.append(_swept(owned, _remove_half_made))
    for owned in scratch.abandoned_directories(scratch.storage, DEVICE_PREFIX):
        sentences.append(_swept(owned, _end_servers))
    return [sentence for sentence in sentences if sentence]


def sweep_devices(scratch: Scratch) -> list[str]:
    """Remove what is left of scratch devices whose owner has died, once the undo journal is done with them.

    Changes to such a device are undone while it is still there.
    """
    abandoned = scratch.abandoned_directories(scratch.storage, DEVICE_PREFIX)
    return [_swept(owned, _remove_device) for owned in abandoned]


def _swept(owned: OwnedDirectory, remove: Callable[[OwnedDirectory], str]) -> str:
    try:
        return remove(owned)
    except (PgdragError, OSError) as error:
        return f'Could not remove what is left in "{owned.path}": {error}.'
    finally:
        owned.release()


def _end_server(owned: OwnedDirectory) -> str:
    words = _words(owned)
    also = end_cluster(owned.path)
    return f"Ended {words}{_list(also)}." if also else ""


def _remove_cluster(owned: OwnedDirectory) -> str:
    words = _words(owned)
    also = end_cluster(owned.path)
    owned.remove()
    return f"Removed {words}{_list(also)}."


def _words(owned: OwnedDirectory) -> str:
    owner = OwnerFile.read(owned.path)
    who = "" if owner is None else f" of process {owner.pid}, which is gone"
    return f'cluster "{owned.path.name}"{who}'


def end_cluster(directory: Path) -> list[str]:
    """End all that runs of the cluster of a dead process: its server, its clients, and what either forked.

    Args:
        directory: the cluster's own, which stays.

    Returns:
        What else was removed that lay outside of the directory, in words.

    Raises:
        ServerError: something runs still, or /proc does not show what runs.
        OSError: what lies outside cannot be removed.
    """
    owner = OwnerFile.read(directory)
    if owner is None:
        return []  # its owner died before it made anything else
    data_directory = directory / "data"
    user = owner.user or _owner_of(data_directory)
    killed = kill_processes(data_directory, owner.postgres, user)
    # Its owner may have given up this cluster alone, and live.
    if user is not None and user.is_own and not is_taken(user):
        killed += end_user(user)
    also = [f"{killed} processes"] if killed else []
    if data_directory.exists():
        also += free_shared_memory(data_directory.stat())
    socket_directory = owner.removable_socket_directory()
    if socket_directory is not None:
        remove_tree(socket_directory)
    return also


def _owner_of(data_directory: Path) -> ServerUser | None:
    """Return who ran the servers of a directory; None: the user of this process."""
    try:
        place = data_directory.stat()
    except OSError:
        return None
    is_own = place.st_uid == os.geteuid()
    return None if is_own else ServerUser(str(place.st_uid), place.st_uid, place.st_gid)


def _remove_half_made(owned: OwnedDirectory) -> str:
    owned.remove()
    return f'Removed half-made copy "{owned.path}".'


def _end_servers(owned: OwnedDirectory) -> str:
    """End the servers on a scratch device; their clusters go with it, and may not be removable now."""
    also = [x for directory in clusters_on_abandoned(owned) for x in end_cluster(directory)]
    return f'Ended the servers on scratch device "{owned.path.name}"{_list(also)}.' if also else ""


def _remove_device(owned: OwnedDirectory) -> str:
    remove_abandoned_device(owned)
    return f'Removed scratch device "{owned.path}".'


def _list(also: list[str]) -> str:
    return f", with {', '.join(also)}" if also else ""
