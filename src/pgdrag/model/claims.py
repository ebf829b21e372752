"""What is a kind of claim? A statement of a source about the treatments of an experiment, and what answers it.

Each kind is one module of `findings/claim_kinds/`; being there registers it. An experiment file has its claims as
tables, `[[claims]]`, whose key `kind` names it and whose other keys are the fields of its class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, PlainValidator, ValidationError

from pgdrag import registry

if TYPE_CHECKING:
    from pgdrag.findings.compared import Treatments


class Answer(StrEnum):
    """What became of a published number."""

    REPRODUCED = "reproduced"
    PARTLY = "partly"
    NOT_REPRODUCED = "not reproduced"
    UNTESTABLE = "untestable here"
    INCONCLUSIVE = "inconclusive"
    NOT_RUN = "not run yet"  # a trial of what it is about may answer it
    WRONG = "wrong results here"  # its trials lose updates: its speed is of no matter


@dataclass(frozen=True)
class Answered:
    """The answer to one claim.

    Attributes:
        why: the reason, in words that finish a sentence.
        found: what was found, in words; "" where nothing was.
    """

    answer: Answer
    why: str
    found: str = ""


class StatedClaim(BaseModel, ABC):
    """One claim of an experiment file; each kind is a subclass, with the keys that it needs.

    Class attributes:
        name: the kind's name, in the key `kind`.
        summary: one line for the reference.
        example: keys of a valid claim of this kind about rungs named "A" (the baseline) and "B".
        is_answerable: a trial can answer it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    name: ClassVar[str]
    summary: ClassVar[str]
    example: ClassVar[Mapping[str, object]]
    is_answerable: ClassVar[bool] = True

    text: Annotated[str, Field(min_length=1)] = Field(
        description="What was published: a clause that stands alone"
    )
    source: str = Field(
        default="", description="Which of [sources] published it (default: [source])"
    )
    headline: bool = Field(
        default=False, description="It is what the study is known for; one claim at most"
    )
    after_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        default=None,
        description="Seconds from the beginning of the load for which it was published; where the window "
        "is shorter, it is untestable",
    )

    @property
    def rungs(self) -> tuple[str, ...]:
        """The names of the rungs that it is about."""
        return ()

    @property
    def observations(self) -> tuple[str, ...]:
        """The names of the observations that answer it."""
        return ()

    @abstractmethod
    def answer(self, treatments: Treatments) -> Answered:
        """Answer it from a run's treatments, in whatever state the run is."""


class UnknownClaim(StatedClaim):
    """A claim of a kind that this pgdrag does not have, as a journal stored it."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: ClassVar[str] = "unknown"
    is_answerable: ClassVar[bool] = False
    text: str = ""
    kind: str = ""

    def answer(self, treatments: Treatments) -> Answered:
        """Answer that nobody knows how to."""
        return Answered(
            Answer.UNTESTABLE, f'this pgdrag does not know claims of the kind "{self.kind}"'
        )


def all_claims() -> dict[str, type[StatedClaim]]:
    """Return every registered kind of claim, by name."""
    return registry.registered("pgdrag.findings.claim_kinds", StatedClaim)  # type: ignore[type-abstract]


def _read(value: Any) -> StatedClaim:
    if isinstance(value, StatedClaim):
        return value
    if not isinstance(value, Mapping):
        raise ValueError("a claim has keys")
    given = {key: x for key, x in value.items() if key != "kind"}
    kind = all_claims().get(str(value.get("kind", "")))
    try:
        return UnknownClaim.model_validate(value) if kind is None else kind.model_validate(given)
    except ValidationError:  # an older pgdrag's, whose keys have changed
        return UnknownClaim.model_validate(value)


def _stored(claim: StatedClaim) -> dict[str, Any]:
    return {"kind": claim.name, **claim.model_dump(mode="json", exclude_defaults=True)}


# A journal stores the keys that were given; the key "kind" says which class they are of.
StoredClaim = Annotated[StatedClaim, PlainValidator(_read), PlainSerializer(_stored)]
