"""A program that an experiment names, and pgdrag would start on this machine."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

_KEY = "run: "


@dataclass(frozen=True, order=True)
class Program:
    """A program that is started only by consent given on this machine, on the command line.

    Attributes:
        purpose: what it is for, in the imperative: "put load on the server".
        command: what /bin/sh runs, a line of a script, or the directory of a server's programs.
        directory: where it is run; "": wherever the server or the driver runs.
        around: text that decides with it what is done, as the rest of a script does.
    """

    purpose: str
    command: str
    directory: str = ""
    around: str = ""

    @property
    def key(self) -> str:
        """What consent names, among the names of what may be changed."""
        where = f" (in {self.directory})" if self.directory else ""
        digest = hashlib.sha256(self.around.encode()).hexdigest()[:16] if self.around else ""
        return " ".join(filter(None, (f"{_KEY}{self.command}{where}", digest)))


def is_program(allowed: str) -> bool:
    """Tell the key of a program from the name of something that may be changed."""
    return allowed.startswith(_KEY)
