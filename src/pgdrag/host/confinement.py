"""Which processes belong to a throw-away cluster, including all that it forked, and how are all of them ended?

Three signs that a process cannot take off: its ancestors, the program that it runs in the cluster's directory (both in
`servers.processes`), and its user, where that is pgdrag's own. One that it can: a variable of its environment, which
tells where pgdrag runs servers as a user that others have, such as an ordinary one's own.
"""

from __future__ import annotations

import os
from pathlib import Path

from pgdrag.errors import ServerError
from pgdrag.host.process_alive import wait_until
from pgdrag.host.process_sight import all_pids, environment_of, pids_of, seeing_as, uid_of
from pgdrag.host.server_user import ServerUser
from pgdrag.host.spawn import end_all

# Names the data directory of the cluster that a program belongs to: its server, or a client.
MARK = "PGDRAG_CLUSTER"
KILL_TIMEOUT_S = 10.0


def mark(data_directory: Path) -> dict[str, str]:
    """Return the variable that marks programs of a cluster."""
    return {MARK: str(data_directory)}


def marked_pids(data_directory: Path, user: ServerUser | None) -> list[int]:
    """Return the processes of a user (None: this one's) that carry a cluster's mark."""
    uid = os.geteuid() if user is None else user.uid
    wanted = os.fsencode(f"{MARK}={data_directory}")
    with seeing_as(user):
        return [x for x in all_pids() if uid_of(x) == uid and wanted in environment_of(x)]


def end_user(user: ServerUser) -> int:
    """End all processes of a user of pgdrag's own; the answer is how many were seen.

    Raises:
        ServerError: one is still there after 10 s, or this process may not end them.
    """
    seen: set[int] = set()

    def is_over() -> bool:
        left = pids_of(user)
        seen.update(left)
        # Though none is in sight: one may hide even from its own user, prctl(2), PR_SET_DUMPABLE.
        end_all(user)
        return not left

    if not wait_until(is_over, KILL_TIMEOUT_S):
        raise stuck(f"processes {', '.join(map(str, pids_of(user)))}")
    return len(seen)


def stuck(who: str) -> ServerError:
    """Return the error for processes that SIGKILL does not end."""
    return ServerError(
        f"{who} did not end within {KILL_TIMEOUT_S:g} s of SIGKILL",
        detail="What is left waits inside the kernel, most likely for a disk that does not answer.",
    )
