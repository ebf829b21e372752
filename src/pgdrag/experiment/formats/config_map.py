"""A ConfigMap of Kubernetes with a postgresql.conf in it."""

from __future__ import annotations

from collections.abc import Iterator

from pgdrag.errors import ConfError
from pgdrag.experiment.formats import Given, Said, Skipped
from pgdrag.experiment.formats._documents import Entry
from pgdrag.experiment.formats._parameters import DocumentFormat
from pgdrag.experiment.pasted import read_pasted

_OTHERS = ("pg_hba.conf", "pg_ident.conf")


class ConfigMap(DocumentFormat):
    """Its keys that end in `.conf`: postgresql.conf first, then the others by name, in the order of include_dir."""

    name = "configmap"
    summary = "a ConfigMap with a postgresql.conf or another .conf"
    example = """
apiVersion: v1
kind: ConfigMap
data:
  custom.conf: |
    work_mem = 64MB
"""

    def has_settings(self, document: Entry) -> bool:
        return document.word("kind") == "ConfigMap" and bool(_texts(document))

    def settings(self, document: Entry) -> Iterator[Said]:
        for name, entry in _texts(document).items():
            if entry.text is None:
                hint = f"Write it as a block of text: {name}: |"
                raise ConfError(
                    f'"{name}" is not text', path=entry.path, line=entry.line, hint=hint
                )
            pasted = read_pasted(entry.text, path=entry.path, first_line=entry.first_line_of_text)
            for line in pasted.lines:
                if isinstance(line, Given):
                    yield line
                else:
                    yield Skipped(str(line), "a ConfigMap includes no files", line.place)
            yield from pasted.skipped
            yield from pasted.mended


def _texts(document: Entry) -> dict[str, Entry]:
    keys = (document.get("data") or document).items()
    found = [x for x in keys if x.endswith(".conf") and x not in _OTHERS]
    return {x: keys[x] for x in sorted(found, key=lambda x: (x != "postgresql.conf", x))}
