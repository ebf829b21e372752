"""Which settings does a container's environment file give, such as POSTGRES_WORK_MEM=64MB? A format."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pgdrag.experiment.formats import Configuration, Format, Given, Place, Skipped, Source

_SETTING = re.compile(r"POSTGRES_([A-Z][A-Z0-9_]*)=(.*)")


class EnvironmentFile(Format):
    """Variables that begin with POSTGRES_ and are named after a setting."""

    name = "environment"
    summary = "a container's environment file (POSTGRES_WORK_MEM=64MB)"
    example = "TZ=UTC\nPOSTGRES_WORK_MEM=64MB\n"

    def recognises(self, source: Source) -> bool:
        """Tell whether a line sets such a variable."""
        return any(_SETTING.fullmatch(line) for line in source.text.splitlines())

    def read(self, source: Source) -> Configuration:
        """Return the settings; of the other variables only the names."""
        return Configuration.of(self, _found(source))


def _found(source: Source) -> Iterator[Given | Skipped]:
    for number, line in enumerate(source.text.split("\n"), start=1):
        place = Place(source.path, number)
        if match := _SETTING.fullmatch(line):
            yield Given(match[1].lower(), match[2], place)
        elif "=" in line and not line.startswith("#"):
            yield Skipped(line.partition("=")[0], "no variable of a setting", place)
