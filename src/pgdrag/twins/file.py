"""Reads and writes a twin's file: one JSON document, compressed by gzip, so that zcat and jq read it, too.

One document and not an archive of parts: it is read as a whole, gzip's checksum tells a torn one, and the same twin
makes the same bytes.
"""

from __future__ import annotations

import gzip
import json
import zlib
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pgdrag.adapters import adapter_of
from pgdrag.errors import TwinError
from pgdrag.host.foreign_files import read_named
from pgdrag.twins.model import FORMAT_VERSION, Twin
from pgdrag.units import format_bytes

LARGEST_BYTES = 50 << 20
# A small file can be made to unfold into all memory there is.
LARGEST_TEXT_BYTES = 64 << 20
_HINT = "Such a file is written by: pgdrag capture twin DSN --output FILE"
_GZIP = b"\x1f\x8b"


def twin_bytes(twin: Twin) -> bytes:
    """Return the file's content; the same for the same twin."""
    return gzip.compress(_document(twin), compresslevel=9, mtime=0)


def text_bytes(content: bytes) -> int:
    """Return how large a file's document is that is not larger than 4 GB: gzip ends with that."""
    return int.from_bytes(content[-4:], "little")


def document_text(twin: Twin) -> str:
    """Return the file's JSON document, indented for people."""
    return json.dumps(json.loads(_document(twin)), indent=2, ensure_ascii=False)


def _document(twin: Twin) -> bytes:
    newest = replace(twin, pgdrag_twin=FORMAT_VERSION)
    text = adapter_of(Twin).dump_json(newest, exclude_defaults=True)
    # The version is a default, and the first thing that a reader asks for.
    return b'{"pgdrag_twin":%d,%s' % (FORMAT_VERSION, text[1:])


def read_twin(path: Path) -> Twin:
    """Return the twin in a file.

    Raises:
        TwinError: it cannot be read, is none, is torn, or is newer than this pgdrag.
    """
    try:
        content = read_named(path, LARGEST_BYTES + 1)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise TwinError(f'could not read "{path}": {reason}', hint=_HINT) from None
    return parse_twin(content, path)


def parse_twin(content: bytes, path: Path) -> Twin:
    """Return the twin in a file's content.

    Raises:
        TwinError: it is none, is torn, or is newer than this pgdrag; with `path`.
    """
    if len(content) > LARGEST_BYTES:
        raise TwinError(f"larger than {format_bytes(LARGEST_BYTES)}, so not a twin", path=path)
    if not content.startswith(_GZIP):
        raise TwinError("not a twin", path=path, hint=_HINT)
    text = _unpacked(content, path)
    try:
        document: Any = json.loads(text)
    except (ValueError, RecursionError):
        raise TwinError("not a twin: its content is not JSON", path=path, hint=_HINT) from None
    version = document.get("pgdrag_twin") if isinstance(document, dict) else None
    if version is None:
        raise TwinError("not a twin", path=path, hint=_HINT)
    if type(version) is int and version > FORMAT_VERSION:
        raise TwinError(
            f"file format {version} is newer than this pgdrag reads, {FORMAT_VERSION}",
            path=path,
            hint="Install a newer pgdrag.",
        )
    try:
        return adapter_of(Twin).validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        said = first["msg"].lower().removeprefix("value error, ")
        raise TwinError(f'"{where}": {said}', path=path) from None


def _unpacked(content: bytes, path: Path) -> bytes:
    try:
        with gzip.GzipFile(fileobj=BytesIO(content)) as file:
            text = file.read(LARGEST_TEXT_BYTES + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise TwinError(
            "the file is torn or damaged",
            path=path,
            detail="Its end is missing, or its checksum does not fit.",
            hint="Copy it again, or capture again.",
        ) from None
    if len(text) > LARGEST_TEXT_BYTES:
        size = format_bytes(LARGEST_TEXT_BYTES)
        raise TwinError(f"its content is larger than {size}, so not a twin", path=path)
    return text
