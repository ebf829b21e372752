"""Which sections does a report have? One module each; being in this folder registers it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, TypeVar

from pgdrag import registry
from pgdrag.findings.values import DesignFinding, Findings
from pgdrag.report.document import Block


class Section(ABC):
    """One part of the report.

    Class attributes:
        name: in lower case with hyphens; the anchor in the HTML report.
        summary: what it shows, on one line, for `pgdrag list`.
        title: its heading.
        order: where it stands; the lowest comes first.
        finding_type: the class of what it prints: what the design, an analysis of the run or one of treatments
            found. None: it prints what every run has.
        needs: an attribute of that finding, of the design or of an analysis of the run, without which there is nothing to say.
        is_folded: closed until the reader opens it, where the medium can.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    title: ClassVar[str]
    order: ClassVar[int]
    finding_type: ClassVar[type | None] = None
    needs: ClassVar[str] = ""
    is_folded: ClassVar[bool] = True

    def applies(self, findings: Findings) -> bool:
        """Tell whether there is anything to say; by default whether its type of finding was found, or any rung."""
        kind = self.finding_type
        if kind is None:
            return bool(findings.rungs)
        if not self.needs:
            return findings.has(kind)
        found = findings.found if isinstance(findings.found, kind) else findings.get(kind)
        return found is not None and bool(getattr(found, self.needs))

    @abstractmethod
    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return the whole section, without its heading."""

    def brief(self, findings: Findings) -> Sequence[Block]:
        """Return what `pgdrag show` prints of it: by default nothing."""
        return ()

    def ending(self, findings: Findings) -> Sequence[Block]:
        """Return what a command prints of it at the end of a run, a line or two: by default nothing."""
        return ()


F = TypeVar("F", bound=DesignFinding)


def found_of(findings: Findings, kind: type[F]) -> F:
    """Return what the design found, in a section that applies to findings of that kind."""
    assert isinstance(findings.found, kind), type(findings.found)
    return findings.found


def all_sections() -> dict[str, type[Section]]:
    """Return every registered section, by name."""
    found: dict[str, type[Section]] = {}
    # A design's section stands in its file, or in a module of that name in its folder.
    for folder, module in (("report.sections", ""), ("designs", ""), ("designs", "section")):
        found |= registry.registered(f"pgdrag.{folder}", Section, module=module)  # type: ignore[type-abstract]
    return found


def sections_for(findings: Findings) -> tuple[Section, ...]:
    """Return the sections that have something to say of these findings, in their order."""
    made = (kind() for kind in all_sections().values())
    sections = sorted(made, key=lambda one: (one.order, one.name))
    return tuple(section for section in sections if section.applies(findings))
