"""What does a text of YAML or JSON say, and on which line? Scalars stay as they are written.

JSON is read as the YAML that it nearly is. Nothing is constructed of what a document names, and aliases are
not expanded: an `Entry` walks the nodes, so that neither a tag nor an alias bomb does anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from pgdrag.errors import ConfError

if TYPE_CHECKING:
    from yaml.nodes import MappingNode, ScalarNode, SequenceNode

    Node = ScalarNode | SequenceNode | MappingNode

MOST_DEPTH = 60  # levels of nesting
MOST_ALIASES = 100
_NULL = "tag:yaml.org,2002:null"
_MERGE = "tag:yaml.org,2002:merge"
# A key without a value, above a key or an element that is indented, or a key that every kind of Kubernetes has.
_BLOCK_KEY = re.compile(
    r"^[\"']?[A-Za-z_][\w.-]*[\"']?:[ \t]*(?:#.*)?\n(?:[ \t]*(?:#.*)?\n)*(?:[ ]+[\"']?[\w./-]+[\"']?:(?:\s|$)|[ ]*- )"
    r"|^(?:apiVersion|kind):[ ]",
    re.MULTILINE,
)
_HALVES = re.compile(r"\\\\|\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})", re.IGNORECASE)
_LIST_OF_KEYS = re.compile(r"^- [A-Za-z_][\w.-]*:(?:\s|$)", re.MULTILINE)


@dataclass(frozen=True)
class Entry:
    """One node of a document."""

    node: Node
    path: Path

    @property
    def line(self) -> int:
        """The line where it begins."""
        return int(self.node.start_mark.line) + 1

    @property
    def text(self) -> str | None:
        """A scalar as it is written, without quotes; None: it is null, a mapping or a list."""
        is_scalar = self.node.id == "scalar" and self.node.tag != _NULL
        return str(self.node.value) if is_scalar else None

    @property
    def is_null(self) -> bool:
        """Whether it is null, or nothing at all."""
        return bool(self.node.tag == _NULL)

    @property
    def is_collection(self) -> bool:
        """Whether it is a mapping or a list."""
        return bool(self.node.id != "scalar")

    @property
    def is_mapping(self) -> bool:
        """Whether it has keys."""
        return bool(self.node.id == "mapping")

    @property
    def first_line_of_text(self) -> int:
        """The line of a text's first line: below the sign of a block."""
        is_block = getattr(self.node, "style", None) in ("|", ">")
        return self.line + 1 if is_block else self.line

    def elements(self) -> list[Entry]:
        """Return the elements of a list; nothing if it is not a list."""
        if self.node.id != "sequence":
            return []
        return [Entry(node, self.path) for node in self.node.value]

    def items(self) -> dict[str, Entry]:
        """Return the entries of a mapping by key; nothing if it is not a mapping. Its own keys override merged ones (`<<`)."""
        found: dict[str, Entry] = {}
        for key, value in _pairs(self.node, set()):
            found.setdefault(key, Entry(value, self.path))
        return found

    def get(self, *keys: str) -> Entry | None:
        """Return what stands below these keys, one below the other."""
        entry: Entry | None = self
        for key in keys:
            entry = entry.items().get(key) if entry is not None else None
        return entry

    def word(self, key: str) -> str:
        """Return the scalar below a key, or ""."""
        entry = self.get(key)
        return (entry.text or "") if entry is not None else ""


def looks_like_document(text: str) -> bool:
    """Tell whether a text is YAML or JSON, right or wrong, and not lines of name and value."""
    start = text.lstrip()[:1]
    return start in ("{", "[") or bool(_BLOCK_KEY.search(text) or _LIST_OF_KEYS.search(text))


def documents_in(text: str, path: Path) -> tuple[Entry, ...]:
    """Return the documents of a text; the items of a `List` of Kubernetes are documents of their own.

    Raises:
        ConfError: it cannot be parsed, is nested too deeply, or has too many aliases.
    """
    # Only here: most commands read no such file.
    import yaml

    if text.lstrip()[:1] in ("{", "["):
        text = _as_yaml(text)
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _refuse_bombs(text, path, loader)
        nodes = [cast("Node", x) for x in yaml.compose_all(text, Loader=loader) if x is not None]
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 1
        line = min(line, text.count("\n") + 1)
        hint = "Export it again, or repair this line; the mistake may be in the one above."
        problem = error.problem or error.context or "syntax error"
        message = f"cannot be read as YAML or JSON: {problem}"
        raise ConfError(message, path=path, line=line, hint=hint) from None
    except (yaml.YAMLError, UnicodeError):
        line = _line_of_odd_character(text)
        hint = "Save the file as UTF-8."
        raise ConfError(
            "has a character that YAML forbids", path=path, line=line, hint=hint
        ) from None
    found: list[Entry] = []
    for node in nodes:
        entry = Entry(node, path)
        found += items.elements() if (items := _items_of_list(entry)) is not None else [entry]
    return tuple(found)


def _as_yaml(json: str) -> str:
    """Return JSON without what YAML has otherwise: tabs between tokens, and characters written in two halves."""

    def character(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0]
        high, low = int(match[1], 16), int(match[2], 16)
        return chr(0x10000 + ((high & 0x3FF) << 10 | low & 0x3FF))

    return _HALVES.sub(character, json.replace("\t", " "))


def _items_of_list(entry: Entry) -> Entry | None:
    return entry.get("items") if entry.word("kind").endswith("List") else None


def _refuse_bombs(text: str, path: Path, loader: type) -> None:
    """Refuse what would take long, or a deep stack, to compose or to walk."""
    import yaml

    depth = aliases = 0
    for event in yaml.parse(text, Loader=loader):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        aliases += isinstance(event, yaml.AliasEvent)
        if depth > MOST_DEPTH or aliases > MOST_ALIASES:
            what = f"more than {MOST_DEPTH} levels" if depth > MOST_DEPTH else f"{aliases} aliases"
            assert event.start_mark is not None
            line = event.start_mark.line + 1
            hint = "Write to a file of its own the part that has the settings."
            raise ConfError(f"has {what}, as no configuration has", path=path, line=line, hint=hint)


def _line_of_odd_character(text: str) -> int:
    odd = re.search(r"[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", text)
    return text.count("\n", 0, odd.start()) + 1 if odd else 1


def _pairs(node: Node, seen: set[int]) -> Iterator[tuple[str, Node]]:
    """Yield a mapping's own keys, a key's last value first, and then those of the mappings merged into it."""
    # Each node once: it may be merged into itself, or by many.
    if node.id != "mapping" or id(node) in seen:
        return
    seen.add(id(node))
    own: dict[str, Node] = {}
    merged: list[Node] = []
    for key, value in node.value:
        if key.tag == _MERGE:
            merged += value.value if value.id == "sequence" else [value]
        elif key.id == "scalar":
            own[str(key.value)] = value
    yield from own.items()
    for other in merged:
        yield from _pairs(other, seen)
