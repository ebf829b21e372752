"""What does an experiment file ask for? It is read here, with all checks that need no server.

The file's model is in `model`, the way from its tables to studies in
`reader`, the words for what is wrong in `mistakes`. Everything that can be
wrong with a file is told at once, each mistake with its line.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import pgdrag.catalog
from pgdrag import registry
from pgdrag.english import did_you_mean
from pgdrag.errors import ExperimentError, UsageError
from pgdrag.experiment.model import WrittenFloat, experiment_schema
from pgdrag.experiment.reader import read_document
from pgdrag.experiment.said import Mended
from pgdrag.host.foreign_files import as_text, read_named
from pgdrag.host.nearest_file import nearest_file
from pgdrag.model import Level, Study
from pgdrag.paths import is_directory, is_file
from pgdrag.toml_lines import KeyLines

__all__ = [
    "Experiment",
    "experiment_schema",
    "load_experiment",
    "parse_experiment",
    "shipped_experiments",
    "shipped_files",
]

LARGEST_FILE_BYTES = 1_000_000


@dataclass(frozen=True)
class Experiment:
    """An experiment file that passed all checks that need no server.

    Attributes:
        path: where it was read.
        scales: summary of each scale by name, in the file's order.
        mends: what had to be mended in pasted text.
    """

    path: Path
    name: str
    title: str
    question: str
    scales: Mapping[str, str]
    mends: tuple[Mended, ...]
    _studies: Mapping[str, Study]
    _lines: Mapping[Level, int]
    _design_line: int

    @property
    def default_scale(self) -> str:
        """The scale that is run unless another is named: the file's first."""
        return next(iter(self.scales))

    def study(self, scale: str | None = None) -> Study:
        """Return the study to run at a scale, by default the file's first.

        Raises:
            UsageError: the experiment has no such scale.
        """
        scale = self.default_scale if scale is None else scale
        if scale not in self._studies:
            raise UsageError(
                f'experiment "{self.name}" has no scale "{scale}"',
                hint=f"Its scales are: {', '.join(self.scales)}.",
            )
        return self._studies[scale]

    def location(self, level: Level) -> tuple[Path, int]:
        """Return the file and the first line that names this level: of one that the design makes, the design's."""
        return self.path, self._lines.get(level, self._design_line)


def load_experiment(name_or_path: str) -> Experiment:
    """Return an experiment: a file if it exists, or has a slash or a suffix, else a shipped one.

    Raises:
        ExperimentError: there is no such experiment, or its file is wrong.
    """
    if not name_or_path:
        raise ExperimentError(
            "no experiment was named", hint='Name a file, or an experiment of "pgdrag list".'
        )
    path, shipped = Path(name_or_path), shipped_files()
    if is_directory(path) and name_or_path not in shipped:
        files = ", ".join(sorted(each.name for each in path.glob("*.toml")))
        raise ExperimentError(
            f'"{name_or_path}" is a directory, not an experiment file',
            hint=f"Files in it: {files}." if files else "There is no experiment file in it.",
        )
    if name_or_path in shipped and not is_file(path):
        return _read(shipped[name_or_path])
    if "/" in name_or_path or path.suffix or is_file(path):
        return _read(path)
    nearest = did_you_mean(name_or_path, shipped)
    raise ExperimentError(
        f'no experiment is named "{name_or_path}"',
        hint=f'{nearest} Run "pgdrag list" to see those that are shipped; a file needs its path.'.lstrip(),
    )


def shipped_experiments() -> dict[str, Experiment]:
    """Return the experiments of the catalogue, by name."""
    return {name: _read(path) for name, path in shipped_files().items()}


def shipped_files() -> dict[str, Path]:
    """Return the files of the catalogue by name, unread, and those in the folders `catalog` of plug-ins."""
    own = Path(str(resources.files(pgdrag.catalog)))
    found: dict[str, Path] = {}
    for folder in (own, *(place / "catalog" for place in registry.plugin_directories())):
        for path in sorted(folder.glob("*.toml")):
            found.setdefault(path.stem, path)
    return found


def parse_experiment(text: str, path: Path) -> Experiment:
    """Return the experiment that a file's text describes.

    Raises:
        ExperimentError: it cannot be run; with every mistake that could be found.
    """
    try:
        document = tomllib.loads(text, parse_float=WrittenFloat)
    except (ValueError, RecursionError) as error:
        raise _syntax_error(error, path) from None
    lines = KeyLines(text)
    read = read_document(document, lines, path)
    return Experiment(
        path=path,
        name=read.table.name,
        title=read.table.title or read.table.name,
        question=read.table.question,
        scales={name: scale.summary for name, scale in read.table.scales.items()},
        mends=read.mends,
        _studies=read.studies,
        _lines=read.level_lines,
        _design_line=lines.line(("design",)),
    )


def _read(path: Path) -> Experiment:
    try:
        content = read_named(path, LARGEST_FILE_BYTES + 1)
        if len(content) > LARGEST_FILE_BYTES:
            raise ExperimentError("larger than any experiment file, 1 MB", path=path)
        text = as_text(content)
    except OSError as error:
        hint = nearest_file(path) or 'Run "pgdrag list" to see the experiments that are shipped.'
        if isinstance(error, FileNotFoundError):
            raise ExperimentError(f'there is no file "{path}"', hint=hint) from None
        reason = (error.strerror or str(error)).lower()
        raise ExperimentError(
            f'could not read experiment file "{path}": {reason}', hint=hint
        ) from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ExperimentError("the text is not UTF-8", path=path, line=line) from None
    return parse_experiment(text.removeprefix("\ufeff"), path)


def _syntax_error(error: Exception, path: Path) -> ExperimentError:
    if isinstance(error, RecursionError):
        return ExperimentError("arrays or tables are nested too deeply", path=path)
    text = str(error)
    where = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", text)
    message = text[: where.start()] if where else text
    line = int(where[1]) if where and where[1] else None
    column = f"At column {where[2]}." if where and where[2] else None
    return ExperimentError(
        f"TOML syntax: {message[:1].lower()}{message[1:]}",
        path=path,
        line=line,
        detail=column,
        hint=f"To measure the settings of this file, run: pgdrag compare default {path}"
        if path.suffix != ".toml"
        else 'Strings need quotes, and a table begins with a line like "[workload]".',
    )
