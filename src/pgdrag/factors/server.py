"""Which PostgreSQL is it? The version is chosen before there is a cluster; here it is checked and read back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from pgdrag.errors import ServerError
from pgdrag.factors import Example, Factor, Here, Phase, Problem
from pgdrag.model import Applied, Level
from pgdrag.model.program import Program
from pgdrag.servers.binaries import find_binaries, strange_programs

if TYPE_CHECKING:
    from pgdrag.servers.cluster import Cluster

POSTGRES = "postgres"


class Server(Factor):
    """The server itself: each version has a dataset of its own, loaded by itself."""

    name = "server"
    phase = Phase.SERVER
    summary = "the server: postgres = an installed version, or a directory of programs"
    # A cluster is of one version from the beginning, so there is nothing to try on one that is made.
    examples: ClassVar[tuple[Example, ...]] = ()

    def problem(self, level: Level, here: Here) -> Problem | None:
        """Return names other than "postgres" as mistakes, and versions that are not installed here."""
        if level.name != POSTGRES:
            message = f'a server has no "{level.name}"'
            return Problem(level, True, message, f'Write {POSTGRES} = "17", or a directory.')
        strange = strange_programs(level.value)
        if strange is not None and strange.key not in here.allowed:
            message = f'the version of the server in "{level.value}" is unknown, as nothing there was started'
            return Problem(level, False, message, "If you trust its programs, add --allow-run.")
        try:
            find_binaries(level.value)
        except ServerError as error:
            is_mistake = not level.value.replace(".", "").isdecimal()
            words = " ".join(x for x in (error.detail, error.hint) if x)
            return Problem(level, is_mistake, error.message, words)
        return None

    @classmethod
    def programs(cls, levels: Mapping[str, str]) -> list[Program]:
        """Return the directories of programs that are not this machine's own."""
        found = (strange_programs(value) for name, value in levels.items() if name == POSTGRES)
        return [program for program in found if program is not None]

    def read_back(self, cluster: Cluster, levels: Mapping[str, str]) -> list[Applied]:
        version = cluster.binaries.version
        return [Applied(Level(self.name, name, value), version) for name, value in levels.items()]
